"""Whole incidents on a worker: a reboot that mends, a spare that comes first, lost answers, a right that is denied."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from contract.fault import EvidenceEnd, Verdict
from contract.incident import IncidentReport
from contract.names import Outcome, Phase
from deploy.local.scene import nodes
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.doctoring.aws_front import refusing_front
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, until, write_policy


async def play(stack: Stack, folder: Path, group: str, replacement: dict[str, Any], *faults: Any) -> list[Any]:
    """Run the incidents of some findings to their ends, side by side."""
    rules = {**QUICK_POLICY, "replacement": replacement}
    policy = write_policy(folder / "policy.yaml", **{group: rules})
    with running_worker(stack, policy, folder):
        client = await connect(stack)
        handles = [await send(client, fault) for fault in faults]
        return list(await asyncio.gather(*(handle.result() for handle in handles)))


@pytest.mark.timeout(240)
async def test_reboot_that_mends_ends_repaired_on_the_same_machine(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(3)
    fault = report_about(
        local_stack, group.nodes[0], verdict=Verdict.REPAIRABLE, evidence_end=EvidenceEnd.BOOT, condition_type="Other"
    )
    (report,) = await play(local_stack, tmp_path, group.name, {"reboot": "repairable"}, fault)
    assert report.outcome is Outcome.REPAIRED, report.summary
    (node,) = [n for n in nodes(local_stack, group.name) if n.metadata.name == group.nodes[0]]
    assert node.status.node_info.boot_id != fault.boot_id
    assert not node.spec.unschedulable
    assert not node.spec.taints


@pytest.mark.timeout(240)
async def test_a5_spare_is_proven_before_the_old_machine_goes_and_the_group_never_dips(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(3)
    before = len(local_stack.fleet.terminated)
    fault = report_about(local_stack, group.nodes[0])
    (report,) = await play(local_stack, tmp_path, group.name, {"spare_first": True}, fault)
    assert report.outcome is Outcome.REPLACED, report.summary
    assert local_stack.fleet.terminated[before:] == [group.instance_ids[0]]
    ends = {str(step.step): step.ended_at for step in report.steps}
    begins = {str(step.step): step.started_at for step in report.steps}
    assert ends["verify"] <= begins["drain"] <= begins["replace"]


@pytest.mark.timeout(240)
async def test_a21_throttled_calls_and_lost_answers_fail_no_incident_and_replace_nothing_twice(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(6)
    victims = list(group.nodes[:3])
    launched, terminated = len(local_stack.fleet.launched), len(local_stack.fleet.terminated)
    local_stack.aws.note(
        throttle={"DescribeAutoScalingGroups": 4, "DescribeInstances": 4, "SetInstanceHealth": 3},
        lose_reply={"SetInstanceHealth": 2, "DescribeScalingActivities": 1},
    )
    faults = [report_about(local_stack, node) for node in victims]
    reports: list[IncidentReport] = await play(local_stack, tmp_path, group.name, {}, *faults)
    assert [report.outcome for report in reports] == [Outcome.REPLACED] * 3, [r.summary for r in reports]
    assert set(local_stack.fleet.terminated[terminated:]) == set(group.instance_ids[:3])
    assert len(local_stack.fleet.launched[launched:]) == 3
    assert {r.replacement_instance_id for r in reports} == set(local_stack.fleet.launched[launched:])


@pytest.mark.timeout(240)
async def test_right_that_aws_does_not_grant_is_named_and_nothing_is_ended_until_it_is_granted(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(2)
    terminated = len(local_stack.fleet.terminated)
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: QUICK_POLICY})
    client = await connect(local_stack)
    with (
        refusing_front(local_stack.aws, "SetInstanceHealth", group.name) as front,
        running_worker(local_stack, policy, tmp_path, AWS_ENDPOINT_URL=front.url),
    ):
        handle = await send(client, report_about(local_stack, group.nodes[0]))
        report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
        assert "AWS refuses `autoscaling:SetInstanceHealth` (AccessDenied: User: " in report.summary
        assert f"autoScalingGroupName/{group.name}" in report.summary
        assert "Grant it to the worker's role" in report.summary
        assert "press `resume`" in report.summary
        # What is certain to be refused again is asked for once.
        assert front.refused == [group.name]
        assert local_stack.fleet.terminated[terminated:] == []
        (node,) = [n for n in nodes(local_stack, group.name) if n.metadata.name == group.nodes[0]]
        assert node.spec.unschedulable, "it is kept from new work meanwhile"

        front.open = True
        await handle.signal("resume", {"by": "test", "reason": "granted"})
        assert (await handle.result()).outcome is Outcome.REPLACED
    assert local_stack.fleet.terminated[terminated:] == [group.instance_ids[0]]
