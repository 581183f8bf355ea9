"""What somebody does on the node itself, in mid-flow, wins: seen on the real API server."""

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client
from temporalio.client import WorkflowHandle

from contract.incident import IncidentReport
from contract.names import OWNER_ANNOTATION, QUARANTINE_TAINT, SKIP_ANNOTATION, Outcome, Phase
from deploy.local.scene import NodeGroup, nodes
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import connect, report_about, send, until
from tests.refusing.conftest import Works

MERGE = "application/merge-patch+json"


async def at_the_gate(stack: Stack, group: NodeGroup, worker_for: Works) -> WorkflowHandle[Any, IncidentReport]:
    """An incident whose node is quarantined and whose drain waits for an approval."""
    worker_for(group, approve_before=["disrupt"])
    handle = await send(await connect(stack), report_about(stack, group.nodes[0]))
    await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    return handle


def change(stack: Stack, act: Callable[[Any], object]) -> None:
    with stack.kubernetes.connected() as api:
        act(client.CoreV1Api(api))


async def go_on(handle: WorkflowHandle[Any, IncidentReport]) -> IncidentReport:
    await handle.signal("approve", {"by": "test", "reason": "go on"})
    return await handle.result()


async def test_d30_uncordoned_by_hand_stops_and_clears_our_marks(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    handle = await at_the_gate(local_stack, group, worker_for)
    name = group.nodes[0]
    change(local_stack, lambda core: core.patch_node(name, {"spec": {"unschedulable": None}}, _content_type=MERGE))
    report = await go_on(handle)
    assert report.outcome is Outcome.VETOED
    (node,) = [n for n in nodes(local_stack, group.name) if n.metadata.name == name]
    assert not node.spec.unschedulable
    assert QUARANTINE_TAINT not in {taint.key for taint in node.spec.taints or []}
    assert OWNER_ANNOTATION not in (node.metadata.annotations or {})
    assert group.instance_ids[0] not in local_stack.fleet.terminated


async def test_claim_removed_by_hand_stops_and_leaves_the_node_as_it_is(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    handle = await at_the_gate(local_stack, group, worker_for)
    patch = {"metadata": {"annotations": {OWNER_ANNOTATION: None}}}
    change(local_stack, lambda core: core.patch_node(group.nodes[0], patch, _content_type=MERGE))
    report = await go_on(handle)
    assert report.outcome is Outcome.VETOED
    assert "was removed" in report.summary
    assert group.instance_ids[0] not in local_stack.fleet.terminated


async def test_node_deleted_in_mid_flow_ends_the_incident(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    handle = await at_the_gate(local_stack, group, worker_for)
    change(local_stack, lambda core: core.delete_node(group.nodes[0]))
    report = await go_on(handle)
    assert report.outcome is Outcome.NODE_GONE
    assert group.instance_ids[0] not in local_stack.fleet.terminated


async def test_d32_node_that_was_cordoned_before_us_is_cordoned_after_us(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    name = group.nodes[0]
    taint = {"key": "example.com/mine", "value": "yes", "effect": "NoSchedule"}
    change(
        local_stack,
        lambda core: core.patch_node(name, {"spec": {"unschedulable": True, "taints": [taint]}}, _content_type=MERGE),
    )
    handle = await at_the_gate(local_stack, group, worker_for)
    await handle.signal("release", {"by": "test", "reason": "seen"})
    await handle.result()
    (node,) = [n for n in nodes(local_stack, group.name) if n.metadata.name == name]
    assert node.spec.unschedulable
    assert {t.key for t in node.spec.taints} == {"example.com/mine", "node.kubernetes.io/unschedulable"}


async def test_node_that_opted_out_is_left_alone(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    patch = {"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}}
    change(local_stack, lambda core: core.patch_node(group.nodes[0], patch, _content_type=MERGE))
    worker_for(group)
    report = await (await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))).result()
    assert report.outcome is Outcome.REFUSED
    assert not any(node.spec.unschedulable for node in nodes(local_stack, group.name))


FOREIGN = [
    ({"spec": {"taints": [{"key": key, "effect": "NoSchedule", "value": "x"}]}}, says)
    for key, says in (
        ("ToBeDeletedByClusterAutoscaler", "cluster-autoscaler is removing it"),
        ("karpenter.sh/disrupted", "Karpenter is disrupting it"),
        ("aws-node-termination-handler/asg-lifecycle-termination", "aws-node-termination-handler is draining it"),
        ("aws-node-termination-handler/rebalance-recommendation", "aws-node-termination-handler is draining it"),
        ("aws-node-termination-handler/spot-itn", "EC2 is taking its Spot instance back"),
    )
] + [
    ({"metadata": {"labels": {"karpenter.sh/nodepool": "gpu"}}}, "it belongs to a Karpenter NodePool"),
    ({"metadata": {"labels": {"eks.amazonaws.com/compute-type": "auto"}}}, "EKS Auto Mode manages it"),
]


@pytest.mark.parametrize(("mark", "says"), FOREIGN, ids=[says for _, says in FOREIGN])
async def test_a23_node_that_another_controller_acts_on_is_closed_and_a_human_asked(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works, mark: dict[str, Any], says: str
) -> None:
    group = node_group(2)
    change(local_stack, lambda core: core.patch_node(group.nodes[0], mark, _content_type=MERGE))
    worker_for(group)
    handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
    report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    assert f"But another controller acts on it: {says}" in report.summary
    await handle.signal("abort", {"by": "test", "reason": "let it"})
    assert (await handle.result()).outcome is Outcome.ABORTED
    assert group.instance_ids[0] not in local_stack.fleet.terminated


async def test_policy_tightened_in_mid_flow_holds_at_once(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works, tmp_path: Any
) -> None:
    group = node_group(2)
    worker_for(group, approve_before=["replace"])
    handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
    await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text().replace("mode: act", "mode: observe"))
    await handle.signal("approve", {"by": "test", "reason": "go on"})
    report = await until(handle, lambda report: "says observe" in report.summary)
    assert report.phase is Phase.NEEDS_HUMAN
    assert group.instance_ids[0] not in local_stack.fleet.terminated
    await handle.signal("abort", {"by": "test", "reason": "enough"})
    assert (await handle.result()).outcome is Outcome.ABORTED


@pytest.mark.parametrize("process", ["Launch", "Terminate", "ReplaceUnhealthy"])
async def test_a4_suspended_process_is_found_before_the_instance_is_marked(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works, process: str
) -> None:
    group = node_group(2)
    auto_scaling = local_stack.aws.client("autoscaling")
    auto_scaling.suspend_processes(AutoScalingGroupName=group.name, ScalingProcesses=[process])
    worker_for(group)
    handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
    report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    assert f"{process} is suspended" in report.summary
    assert group.instance_ids[0] not in local_stack.fleet.terminated
    auto_scaling.resume_processes(AutoScalingGroupName=group.name)
    await handle.signal("resume", {"by": "test", "reason": "resumed"})
    assert (await handle.result()).outcome is Outcome.REPLACED
