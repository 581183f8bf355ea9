"""A cluster with work on it: the demo's, and pieces for tests.

Everything is made through the real API server, so pods land where the real scheduler puts them.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from kubernetes import client

from contract.names import CHECKPOINT_ANNOTATION, CHECKPOINT_COMMAND_ANNOTATION
from deploy.local import demo_job
from deploy.local.errors import StackError
from deploy.local.stack import Stack

GROUP: Final = "trn1-training"
NAMESPACE: Final = "default"
_IMAGE: Final = "local/never-pulled:1"


@dataclass(frozen=True)
class DemoScene:
    """What the demo looks at: the node that is going to fail, and the work around it."""

    group: str
    node: str
    instance_id: str
    training_job: str
    feature_job: str
    web: str


def create_demo_scene(stack: Stack, *, patience_s: float = 60.0) -> DemoScene:
    """Six Trainium-shaped nodes, two jobs, a web service with a budget and a DaemonSet, all running.

    Raises:
        StackError: the pods did not all run in time.
    """
    stack.fleet.create_group(GROUP, 6)
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        wait_for(lambda: _ready_nodes(core) >= 6, patience_s, "six Ready nodes")
        create_daemonset(api, "node-agent")
        create_job(api, stack, "train-llm", ranks=4, device_resource="aws.amazon.com/neuron", devices=16)
        wait_for(lambda: running_pods(core, "train-llm") == 4, patience_s, "the pods of train-llm")
        node = _node_of(core, "train-llm")
        create_job(api, stack, "feature-prep", ranks=2, prefer_node=node)
        create_web(api, "web", replicas=3, prefer_node=node)
        wait_for(lambda: running_pods(core, "feature-prep") == 2, patience_s, "the pods of feature-prep")
        wait_for(lambda: running_pods(core, "web") == 3, patience_s, "the pods of web")
        wait_for(lambda: running_pods(core, "node-agent") == 6, patience_s, "the pods of node-agent")
        provider_id = core.read_node(node).spec.provider_id
    return DemoScene(GROUP, node, provider_id.rpartition("/")[2], "train-llm", "feature-prep", "web")


def create_job(
    api: Any,
    stack: Stack,
    name: str,
    *,
    ranks: int,
    namespace: str = NAMESPACE,
    device_resource: str | None = None,
    devices: int = 0,
    prefer_node: str | None = None,
    checkpoints: int = 3,
) -> None:
    """A Job that never ends and declares a checkpoint, with some checkpoints from before."""
    folder = stack.exec_dir / "checkpoints" / namespace / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(Path(demo_job.__file__)), "--dir", str(folder)]
    for number in range(checkpoints):
        moment = datetime.now(UTC) - timedelta(minutes=checkpoints - number)
        demo_job.save(folder, "", moment)
    annotations = {CHECKPOINT_ANNOTATION: "exec", CHECKPOINT_COMMAND_ANNOTATION: json.dumps(command)}
    limits = {device_resource: str(devices)} if device_resource else {}
    batch: Any = client.BatchV1Api(api)
    batch.create_namespaced_job(
        namespace,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "parallelism": ranks,
                "completions": ranks,
                "completionMode": "Indexed",
                "backoffLimit": 6,
                # An eviction is no failure of the job: it must not burn its retries.
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
                },
                "template": pod_template(name, annotations, limits, prefer_node, restart="Never"),
            },
        },
    )


def create_web(
    api: Any, name: str, *, replicas: int, namespace: str = NAMESPACE, prefer_node: str | None = None
) -> None:
    """A Deployment of which at most one pod may be missing."""
    apps: Any = client.AppsV1Api(api)
    policy: Any = client.PolicyV1Api(api)
    selector = {"matchLabels": {"app": name}}
    apps.create_namespaced_deployment(
        namespace,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": selector,
                "template": pod_template(name, {}, {}, prefer_node, restart="Always"),
            },
        },
    )
    policy.create_namespaced_pod_disruption_budget(
        namespace,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": replicas - 1, "selector": selector},
        },
    )


def create_daemonset(api: Any, name: str, *, namespace: str = NAMESPACE) -> None:
    """One pod on every node, whatever its taints."""
    apps: Any = client.AppsV1Api(api)
    template = pod_template(name, {}, {}, None, restart="Always")
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    apps.create_namespaced_daemon_set(
        namespace,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
        },
    )


def pod_template(
    app: str, annotations: dict[str, str], limits: dict[str, str], prefer_node: str | None, *, restart: str
) -> dict[str, Any]:
    """A pod template with one container that is never pulled: KWOK runs no containers."""
    preference = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": [prefer_node]}
                        ]
                    },
                }
            ]
        }
    }
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 5,
            **({"affinity": preference} if prefer_node else {}),
            "containers": [{"name": "main", "image": _IMAGE, "resources": {"limits": limits}}],
        },
    }


def running_pods(core: Any, app: str, namespace: str = NAMESPACE) -> int:
    """How many pods of an app run and are not on their way out."""
    pods = core.list_namespaced_pod(namespace, label_selector=f"app={app}").items
    return sum(pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None for pod in pods)


def wait_for(done: Callable[[], bool], patience_s: float, what: str) -> None:
    """Look until it is so.

    Raises:
        StackError: it was not so in time.
    """
    until = time.monotonic() + patience_s
    while not done():
        if time.monotonic() > until:
            raise StackError(f"{what} did not come within {patience_s:.0f} s.", "Look into the stack's logs.")
        time.sleep(0.1)


def _ready_nodes(core: Any) -> int:
    nodes = core.list_node().items
    return sum(
        any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions or [])
        for node in nodes
    )


def _node_of(core: Any, app: str) -> str:
    pods = core.list_namespaced_pod(NAMESPACE, label_selector=f"app={app}").items
    return str(sorted(pod.spec.node_name for pod in pods)[0])
