"""ReapOrphans: Terminate runs no clean-up, so somebody looks for the nodes that it leaves (DESIGN §3)."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, ScheduleOverlapPolicy

from activities.orphans import identity_of, living
from contract.fault import FaultReport
from contract.incident import IncidentReport
from contract.names import (
    FINDING_DIGESTS_ANNOTATION,
    HANDLED_ANNOTATION,
    OWNER_ANNOTATION,
    REPLACES_ANNOTATION,
    STARTUP_TAINT,
    Outcome,
    Phase,
    reaper_id,
)
from contract.proof import digest
from contract.reaping import Reaped
from deploy.local.scene import nodes
from deploy.local.stack import CLUSTER, Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, until, write_policy
from tests.runbook.world import finding
from worker.schedules import keep_reaping

Json = dict[str, Any]


def node_with(*reports: FaultReport, boot: str = "boot", handled: str = "") -> Json:
    """A Node whose detector says these findings."""
    notes = {FINDING_DIGESTS_ANNOTATION: ",".join(digest(report) for report in reports), HANDLED_ANNOTATION: handled}
    return {
        "metadata": {"name": "node-1", "uid": "u", "annotations": notes},
        "spec": {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"},
        "status": {"nodeInfo": {"bootID": boot}},
    }


def found(**changes: Any) -> FaultReport:
    now = datetime.now(UTC)
    usual = {"node": "node-1", "instance_id": "i-0123456789abcdef0", "boot_id": "boot", "seq": 7}
    return finding(**{**usual, "first_seen": now, "last_seen": now, **changes})


@pytest.mark.parametrize(
    ("report", "node", "lives"),
    [
        (found(), node_with(found()), True),
        (found(), node_with(), False),
        (found(instance_id="i-00000000000000000"), node_with(found()), False),
        (found(evidence_end="boot"), node_with(found(evidence_end="boot"), boot="next"), False),
        (found(), node_with(found(), handled="boot/7"), False),
        (found(), node_with(found(), handled="boot/6"), True),
    ],
    ids=["holds", "the node says it no more", "another machine", "rebooted since", "dealt with", "newer than that"],
)
def test_evidence_lives_while_the_node_says_so_about_this_machine_and_boot(
    report: FaultReport, node: Json, lives: bool
) -> None:
    assert bool(living([report], node, "prod")) is lives


def test_identity_is_of_the_machine_that_the_node_is() -> None:
    assert identity_of("prod", node_with()).instance_id == "i-0123456789abcdef0"


async def reap(client: Client) -> Reaped:
    """One look of the schedule that a worker makes at its start."""
    await keep_reaping(client, CLUSTER, 3600)
    schedule = client.get_schedule_handle(reaper_id(CLUSTER))
    try:
        await schedule.trigger()
        while not (looks := (await schedule.describe()).info.recent_actions):
            await asyncio.sleep(0.1)
        started = looks[0].action
        assert isinstance(started, ScheduleActionExecutionStartWorkflow)
        result: Reaped = await client.get_workflow_handle(started.workflow_id, result_type=Reaped).result()
    finally:
        await schedule.delete()
    return result


async def test_terminated_incident_goes_on_while_its_fault_holds_and_else_its_node_is_given_back(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(5)
    failing, mended, aborted, open_one, replacement = group.nodes
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: {**QUICK_POLICY, "approve_before": ["disrupt"]}})
    client = await connect(local_stack)
    with running_worker(local_stack, policy, tmp_path):
        handles = {}
        for name in (failing, mended, aborted, open_one):
            handles[name] = await send(client, report_about(local_stack, name))
            await until(handles[name], lambda report: report.phase is Phase.NEEDS_HUMAN)
        first_run = (await handles[failing].describe()).run_id
        await handles[aborted].signal("abort", {"by": "test", "reason": "stays closed"})
        await handles[aborted].result()
        for name in (failing, mended):
            await handles[name].terminate("as from the UI")
        with local_stack.kubernetes.connected() as api:
            core: Any = kubernetes.CoreV1Api(api)
            core.patch_node_status(mended, {"metadata": {"annotations": {FINDING_DIGESTS_ANNOTATION: ""}}})
            startup = {"taints": [{"key": STARTUP_TAINT, "value": "unverified", "effect": "NoSchedule"}]}
            parent = {REPLACES_ANNOTATION: handles[mended].id}
            core.patch_node(replacement, {"metadata": {"annotations": parent}, "spec": startup})

        reaped = await reap(client)

        ours = set(group.nodes)
        assert ours & set(reaped.restarted) == {failing}
        assert ours & set(reaped.given_back) == {mended}
        assert ours & set(reaped.left) == {replacement}
        assert "nobody opens it to work" in reaped.left[replacement]
        records = {file.parents[1].name: file for file in (tmp_path / "records").rglob("report.json")}
        for name in (failing, mended):
            assert "its record is at" in reaped.exported[handles[name].id]
            kept = IncidentReport.model_validate_json(records[handles[name].id].read_text())
            assert (kept.outcome, kept.node) == (Outcome.TERMINATED, name)
        again = client.get_workflow_handle(handles[failing].id, result_type=IncidentReport)
        report = await until(again, lambda report: report.phase is Phase.NEEDS_HUMAN)
        assert report.identity is not None
        assert (await again.describe()).run_id != first_run
        assert is_closed(local_stack) & ours == {failing, aborted, open_one}
        assert not ours & set((await reap(client)).restarted), "the one that goes on is no orphan"
        for handle in (again, handles[open_one]):
            await handle.signal("release", {"by": "test", "reason": "over"})
            assert (await handle.result()).outcome is Outcome.RELEASED
    with local_stack.kubernetes.connected() as api:
        kubernetes.CoreV1Api(api).patch_node(aborted, {"metadata": {"annotations": {OWNER_ANNOTATION: None}}})


def is_closed(stack: Stack) -> set[str]:
    """Nodes that are cordoned with a claim."""
    return {
        node.metadata.name
        for node in nodes(stack)
        if node.spec.unschedulable and OWNER_ANNOTATION in (node.metadata.annotations or {})
    }


async def test_schedule_is_made_once_and_then_left_to_the_operators(local_stack: Stack) -> None:
    client = await connect(local_stack)
    cluster = "scheduled"
    await keep_reaping(client, cluster, 0)
    handle = client.get_schedule_handle(reaper_id(cluster))
    await keep_reaping(client, cluster, 3600)
    await handle.pause(note="by hand")
    await keep_reaping(client, cluster, 60)
    described = await handle.describe()
    assert described.schedule.state.paused
    assert described.schedule.policy.overlap is ScheduleOverlapPolicy.SKIP
    assert described.schedule.spec.intervals[0].every.total_seconds() == 3600
    await handle.delete()
