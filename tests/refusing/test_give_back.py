"""Given back is given back: at every place where an incident can be released, the node is as it was before (D32)."""

from typing import Any

import pytest
from kubernetes import client

from contract.names import DO_NOT_DISRUPT_ANNOTATION, HANDLED_ANNOTATION, SCALE_DOWN_DISABLED_ANNOTATION, Outcome, Phase
from deploy.local.scene import add_pod, nodes
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import connect, report_about, send, until
from tests.refusing.conftest import Works

OTHERS = {
    "metadata": {
        "labels": {"example.com/rack": "7"},
        "annotations": {"example.com/note": "mine", SCALE_DOWN_DISABLED_ANNOTATION: "false"},
    },
    "spec": {"taints": [{"key": "example.com/mine", "value": "x", "effect": "PreferNoSchedule"}]},
}


def as_others_left_it(stack: Stack, name: str) -> dict[str, Any]:
    """What is not ours to change, and what is ours and must be gone."""
    (node,) = [n for n in nodes(stack) if n.metadata.name == name]
    annotations = {k: v for k, v in (node.metadata.annotations or {}).items() if k != HANDLED_ANNOTATION}
    # The control plane's own, which come and go with the node's heartbeat.
    annotations = {k: v for k, v in annotations.items() if not k.startswith(("node.alpha", "volumes.", "kwok"))}
    taints = {(t.key, t.value, t.effect) for t in node.spec.taints or [] if not t.key.startswith("node.kubernetes.io")}
    return {
        "labels": dict(node.metadata.labels),
        "annotations": annotations,
        "taints": taints,
        "unschedulable": bool(node.spec.unschedulable),
    }


@pytest.mark.parametrize("place", ["disrupt gate", "forbidden drain", "suspended process", "replace gate"])
async def test_released_node_is_exactly_as_it_was(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, worker_for: Works, place: str
) -> None:
    group = node_group(2)
    name = group.nodes[0]
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.patch_node(name, OTHERS, _content_type="application/merge-patch+json")
    before = as_others_left_it(local_stack, name)
    gates = {"disrupt gate": ["disrupt"], "replace gate": ["replace"]}.get(place, [])
    if place == "forbidden drain":
        add_pod(local_stack, "alone", node=name, namespace=namespace)
    if place == "suspended process":
        local_stack.aws.client("autoscaling").suspend_processes(
            AutoScalingGroupName=group.name, ScalingProcesses=["Launch"]
        )
    worker_for(group, approve_before=gates)
    handle = await send(await connect(local_stack), report_about(local_stack, name))
    await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    held = as_others_left_it(local_stack, name)
    assert held["unschedulable"]
    assert (
        held["annotations"][DO_NOT_DISRUPT_ANNOTATION] == held["annotations"][SCALE_DOWN_DISABLED_ANNOTATION] == "true"
    )

    await handle.signal("release", {"by": "test", "reason": "seen"})
    report = await handle.result()

    assert report.outcome is Outcome.RELEASED
    assert as_others_left_it(local_stack, name) == before
    assert group.instance_ids[0] not in local_stack.fleet.terminated
