"""The control plane of the embedded stack is the real one, and KWOK keeps out of what others decide."""

import json
import stat
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiException
from kubernetes.stream import stream

from deploy.local.scene import NodeGroup, add_pod, create_training_job, create_web, nodes, running_pods, wait_for
from deploy.local.stack import Stack
from deploy.local.work import COMPLETE_ANNOTATION, SLOW_ANNOTATION, STUCK_ANNOTATION
from tests.conftest import MakeNodeGroup

NEURON = "aws.amazon.com/neuron"


@pytest.fixture
def core(local_stack: Stack) -> Any:
    with local_stack.kubernetes.connected() as api:
        yield client.CoreV1Api(api)


def pod_names(core: Any, namespace: str) -> list[str]:
    return [pod.metadata.name for pod in core.list_namespaced_pod(namespace).items]


def group_pods_run(stack: Stack, app: str, namespace: str, count: int) -> list[Any]:
    wait_for(lambda: len(running_pods(stack, app, namespace)) == count, f"{count} pods of {app}")
    return running_pods(stack, app, namespace)


def evict(core: Any, namespace: str, pod: str) -> None:
    core.create_namespaced_pod_eviction(pod, namespace, {"metadata": {"name": pod, "namespace": namespace}})


def test_kubeconfig_is_private_and_verifies_the_server(local_stack: Stack) -> None:
    kubernetes = local_stack.kubernetes
    assert stat.S_IMODE(kubernetes.kubeconfig.stat().st_mode) == 0o600
    assert "insecure" not in kubernetes.kubeconfig.read_text()
    assert kubernetes.url.startswith("https://127.0.0.1:")


def test_eviction_against_a_budget_is_really_refused(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, core: Any
) -> None:
    group = node_group(1)
    create_web(local_stack, "web", replicas=2, namespace=namespace, group=group.name)
    first, second = group_pods_run(local_stack, "web", namespace, 2)
    core.patch_node(group.nodes[0], {"spec": {"unschedulable": True}})
    policy: Any = client.PolicyV1Api(core.api_client)
    wait_for(
        lambda: policy.read_namespaced_pod_disruption_budget("web", namespace).status.disruptions_allowed == 1,
        "the budget to be counted",
    )
    evict(core, namespace, first.metadata.name)
    with pytest.raises(ApiException) as refused:
        evict(core, namespace, second.metadata.name)
    assert refused.value.status == 429
    assert "web" in refused.value.body


def test_exec_runs_a_real_command_and_the_job_answers(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str
) -> None:
    group = node_group(1)
    create_training_job(local_stack, "train", ranks=1, namespace=namespace, group=group.name, checkpoints=2)
    (pod,) = group_pods_run(local_stack, "train", namespace, 1)
    command = json.loads(pod.metadata.annotations["nodemend.io/checkpoint-command"])
    assert pod.metadata.annotations["nodemend.io/checkpoint"] == "exec"

    def run(*words: str) -> list[dict[str, Any]]:
        with local_stack.kubernetes.connected() as api:
            output = stream(
                client.CoreV1Api(api).connect_get_namespaced_pod_exec,
                pod.metadata.name,
                namespace,
                command=[*command, *words],
                stdout=True,
                stderr=True,
                # Otherwise the client parses what looks like JSON and hands back a Python literal.
                _preload_content=False,
            )
            output.run_forever(timeout=10)
            text = output.read_all()
            # `close` leaves the socket open when the server has closed the connection first.
            output.sock.shutdown()
        return [json.loads(line) for line in text.splitlines()]

    before = run("list")
    assert [item["step"] for item in before] == [500, 1000]
    (saved,) = run("save", "nonce-1")
    assert saved["nonce"] == "nonce-1"
    assert saved["step"] == 1500
    assert saved["time"] > before[-1]["time"]
    assert run("list") == [*before, saved]


def test_devices_and_conditions_that_others_set_stay(local_stack: Stack, node_group: MakeNodeGroup, core: Any) -> None:
    group = node_group(1)
    node = group.nodes[0]
    condition = {"type": "NeuronHealth", "status": "True", "reason": "NeuronHasError_HBM", "message": "m"}
    core.patch_node_status(node, {"status": {"allocatable": {NEURON: "15"}, "conditions": [condition]}})
    # A node that stops being Ready and comes back makes KWOK write its status anew.
    core.patch_node_status(node, {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Test"}]}})

    def ready() -> bool:
        return any(
            c.type == "Ready" and c.status == "True" and c.reason == "KubeletReady"
            for c in core.read_node(node).status.conditions
        )

    wait_for(ready, "the node to be Ready again")
    status = core.read_node(node).status
    assert status.allocatable[NEURON] == "15"
    assert status.capacity[NEURON] == "16"
    assert any(c.type == "NeuronHealth" and c.status == "True" for c in status.conditions)


@pytest.fixture
def one_node(node_group: MakeNodeGroup) -> NodeGroup:
    return node_group(1)


def test_pods_end_quickly_slowly_or_never_as_they_ask(
    local_stack: Stack, one_node: NodeGroup, namespace: str, core: Any
) -> None:
    node = one_node.nodes[0]
    add_pod(local_stack, "plain", node=node, namespace=namespace)
    add_pod(local_stack, "slow", node=node, namespace=namespace, annotations={SLOW_ANNOTATION: "3s"})
    add_pod(local_stack, "stuck", node=node, namespace=namespace, annotations={STUCK_ANNOTATION: ""})
    for name in ("plain", "slow", "stuck"):
        group_pods_run(local_stack, name, namespace, 1)
        core.delete_namespaced_pod(name, namespace)
    wait_for(lambda: "plain" not in pod_names(core, namespace), "the plain pod to end", patience_s=2.5)
    assert sorted(pod_names(core, namespace)) == ["slow", "stuck"]
    wait_for(lambda: "slow" not in pod_names(core, namespace), "the slow pod to end", patience_s=8)
    assert pod_names(core, namespace) == ["stuck"]


def test_a_pod_completes_only_when_it_asks(local_stack: Stack, one_node: NodeGroup, namespace: str, core: Any) -> None:
    spec = {"restartPolicy": "Never"}
    for name, annotations in (("runs", {}), ("completes", {COMPLETE_ANNOTATION: ""})):
        add_pod(local_stack, name, group=one_node.name, namespace=namespace, annotations=annotations, spec=spec)
    wait_for(lambda: core.read_namespaced_pod("completes", namespace).status.phase == "Succeeded", "completion")
    assert group_pods_run(local_stack, "runs", namespace, 1)


def test_nodes_look_as_on_eks(local_stack: Stack, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    first, second = nodes(local_stack, group.name)
    zones = {node.metadata.labels["topology.kubernetes.io/zone"] for node in (first, second)}
    assert zones == {"us-west-2a", "us-west-2b"}
    for node in (first, second):
        zone = node.metadata.labels["topology.kubernetes.io/zone"]
        instance = group.instance_ids[group.nodes.index(node.metadata.name)]
        assert node.spec.provider_id == f"aws:///{zone}/{instance}"
        assert node.metadata.labels["node.kubernetes.io/instance-type"] == "trn1.32xlarge"
        assert node.metadata.labels["eks.amazonaws.com/nodegroup"] == group.name
        assert node.status.allocatable[NEURON] == "16"
        assert not node.spec.taints
    assert first.status.node_info.boot_id != second.status.node_info.boot_id
    assert first.status.node_info.machine_id != second.status.node_info.machine_id
