"""A cluster with work on it: the demo's, and the pieces that tests make theirs of.

Everything goes through the real API server, so pods land where the real scheduler puts them. Work names the node
group it runs on, so that what one test does to its nodes never moves another's pods.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kubernetes import client

from contract.names import NODEGROUP_LABEL
from deploy.local.machine import TRN1, MachineShape
from deploy.local.stack import Stack
from deploy.local.waiting import wait_for
from deploy.local.work import (
    NAMESPACE,
    add_pod,
    create_daemonset,
    create_feature_job,
    create_training_job,
    create_web,
    running_pods,
)

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import InstanceTypeDef

__all__ = [
    "FEATURE_RANKS",
    "GROUP",
    "NAMESPACE",
    "TRAINING_RANKS",
    "DemoScene",
    "NodeGroup",
    "add_pod",
    "create_daemonset",
    "create_demo_scene",
    "create_feature_job",
    "create_node_group",
    "create_training_job",
    "create_web",
    "instances",
    "is_ready",
    "nodes",
    "running_pods",
    "wait_for",
]

GROUP: Final = "trn1-training"
TRAINING_RANKS: Final = 4
FEATURE_RANKS: Final = 2
_CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True)
class NodeGroup:
    """A group whose nodes are Ready, as it was when it was made."""

    name: str
    nodes: tuple[str, ...]
    """Names of its nodes."""
    instance_ids: tuple[str, ...]
    """Of the same nodes, in the same order."""


@dataclass(frozen=True)
class DemoScene:
    """What the demo looks at: the node that is going to fail, and the work around it."""

    group: str
    node: str
    instance_id: str
    zone: str
    namespace: str
    training_job: str
    training_pod: str
    """The rank on the target node."""
    feature_job: str
    feature_pods: tuple[str, ...]
    """Those on the target node."""
    web: str
    web_pods: tuple[str, ...]
    """Those on the target node."""
    daemonset: str


def create_node_group(stack: Stack, name: str = "trn1-a", size: int = 6, *, shape: MachineShape = TRN1) -> NodeGroup:
    """An Auto Scaling group and its nodes, Ready, with their devices, and open to work.

    Raises:
        StackError: they were not all so in time.
    """
    names = stack.fleet.create_group(name, size, shape)

    # The node lifecycle controller takes its not-ready taint off a moment after a node is Ready.
    def open_to_work() -> int:
        return sum(is_ready(node) and not node.spec.taints for node in nodes(stack, name))

    wait_for(lambda: open_to_work() == size, f"{size} Ready nodes of {name}")
    by_name = {node.metadata.name: node.spec.provider_id.rpartition("/")[2] for node in nodes(stack, name)}
    return NodeGroup(name, tuple(names), tuple(by_name[node] for node in names))


def create_demo_scene(stack: Stack, *, group: str = GROUP, namespace: str = NAMESPACE) -> DemoScene:
    """Six Trainium-shaped nodes, two jobs, a web service with a budget and a DaemonSet, all running.

    One node, the target, hosts a training rank, all of the feature job, a web pod and a DaemonSet pod; two nodes have
    room for the rank that has to go.

    Args:
        stack: where.
        group: name of the node group, which is made.
        namespace: of the work; must exist.

    Raises:
        StackError: something did not run in time.
    """
    create_node_group(stack, group, 6)
    create_daemonset(stack, "node-agent", namespace=namespace, group=group)
    create_training_job(stack, "train-llm", ranks=TRAINING_RANKS, namespace=namespace, group=group, trains=True)
    wait_for(lambda: len(running_pods(stack, "train-llm", namespace)) == TRAINING_RANKS, "the pods of train-llm")
    training_pod = min(running_pods(stack, "train-llm", namespace), key=lambda pod: str(pod.metadata.name))
    target: str = training_pod.spec.node_name
    others = [node.metadata.name for node in nodes(stack, group) if node.metadata.name != target]
    # The scheduler decides where pods go. Closing the others for a moment leaves it no choice, and leaves no trace in
    # the pods, which may go anywhere when they are evicted.
    with _cordoned(stack, others):
        create_feature_job(stack, "feature-prep", ranks=FEATURE_RANKS, namespace=namespace, group=group, trains=True)
        create_web(stack, "web", replicas=1, namespace=namespace, group=group)
        wait_for(
            lambda: len(running_pods(stack, "feature-prep", namespace)) == FEATURE_RANKS, "the pods of feature-prep"
        )
        wait_for(lambda: len(running_pods(stack, "web", namespace)) == 1, "the first pod of web")
    _scale_web(stack, "web", namespace, 3)
    wait_for(lambda: len(running_pods(stack, "web", namespace)) == 3, "the pods of web")
    wait_for(lambda: len(running_pods(stack, "node-agent", namespace)) == 6, "the pods of node-agent")

    def on_target(app: str) -> tuple[str, ...]:
        return tuple(pod.metadata.name for pod in running_pods(stack, app, namespace) if pod.spec.node_name == target)

    (node,) = (node for node in nodes(stack, group) if node.metadata.name == target)
    _, _, _, zone, instance_id = node.spec.provider_id.split("/")
    return DemoScene(
        group=group,
        node=target,
        instance_id=instance_id,
        zone=zone,
        namespace=namespace,
        training_job="train-llm",
        training_pod=training_pod.metadata.name,
        feature_job="feature-prep",
        feature_pods=on_target("feature-prep"),
        web="web",
        web_pods=on_target("web"),
        daemonset="node-agent",
    )


def nodes(stack: Stack, group: str | None = None) -> list[Any]:
    """The Node objects of a group, or of all, by name."""
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        items = core.list_node(label_selector=f"{NODEGROUP_LABEL}={group}" if group else None).items
    return sorted(items, key=lambda node: str(node.metadata.name))


def instances(stack: Stack, group: str) -> "list[InstanceTypeDef]":
    """The instances of a group as Auto Scaling lists them."""
    with closing(stack.aws.client("autoscaling")) as auto_scaling:
        groups = auto_scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    return groups[0]["Instances"] if groups else []


def is_ready(node: Any) -> bool:
    """Whether a Node's Ready condition is True."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or [])


@contextmanager
def _cordoned(stack: Stack, names: Sequence[str]) -> Iterator[None]:
    _cordon(stack, names, True)
    try:
        yield
    finally:
        _cordon(stack, names, None)


def _cordon(stack: Stack, names: Sequence[str], unschedulable: bool | None) -> None:
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        for name in names:
            core.patch_node(name, {"spec": {"unschedulable": unschedulable}})

    # The taint follows through a controller's watch; by then the scheduler, which has the same watch, knows as well.
    def closed() -> set[str]:
        return {
            node.metadata.name
            for node in nodes(stack)
            if any(taint.key == _CORDON_TAINT for taint in node.spec.taints or [])
        }

    wait_for(lambda: closed() & set(names) == (set(names) if unschedulable else set()), "the cordons to be seen")


def _scale_web(stack: Stack, name: str, namespace: str, replicas: int) -> None:
    with stack.kubernetes.connected() as api:
        apps: Any = client.AppsV1Api(api)
        policy: Any = client.PolicyV1Api(api)
        apps.patch_namespaced_deployment(name, namespace, {"spec": {"replicas": replicas}})
        policy.patch_namespaced_pod_disruption_budget(name, namespace, {"spec": {"minAvailable": replicas - 1}})
