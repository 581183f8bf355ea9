"""Records of incidents that wrote none themselves: made by others of what Temporal keeps, and marked so."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment
from typer.testing import CliRunner

from activities.export import ExportActivity, wrote_itself
from activities.forced_end import closed_by_force
from activities.record import RecordActivity
from cli.audit import app
from contract.audit import audit_log
from contract.fault import RemediationRequest
from contract.incident import NOT_TAKEN, RECORD_FACT, ForcedEnd, IncidentReport, StepStatus
from contract.names import REMEDIATE_NODE, ActivityName, ErrorType, ExitCode, Outcome, OverrideName, Phase
from contract.reaping import Exported, ExportRecords
from tests.contract.test_audit import report
from tests.reporting.sample import closed
from tests.runbook.world import NOW, Play, World, fails, fast

ENDED = 'ExecutionStatus!="Running"'
on_temporal = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]


def marked(*marks: pytest.MarkDecorator) -> Any:
    def mark(test: Any) -> Any:
        for one in marks:
            test = one(test)
        return test

    return mark


def records(folder: Path) -> dict[str, IncidentReport]:
    """The reports that are there, by incident."""
    found = [IncidentReport.model_validate_json(file.read_text()) for file in folder.rglob("report.json")]
    return {one.incident_id: one for one in found}


async def listed_as_ended(temporal: Client, *incidents: str) -> None:
    """Temporal's list follows its histories a moment later."""
    for incident in incidents:
        while not [run async for run in temporal.list_workflows(f'WorkflowId="{incident}" AND {ENDED}')]:
            pass


async def export(temporal: Client, folder: Path, *ended: str) -> Exported:
    """One look of a worker that has just started, once Temporal's list shows these as ended."""
    await listed_as_ended(temporal, *ended)
    act = ExportActivity(temporal, RecordActivity(folder))
    done: Exported = await ActivityEnvironment().run(act.export_records, ExportRecords(cluster="test"))
    return done


@marked(*on_temporal)
async def test_terminated_incident_is_exported_with_all_it_knew_and_with_who_ended_it_and_why(
    play: Play, world: World, temporal: Client, tmp_path: Path
) -> None:
    world.policy = fast(approve_before=("disrupt",))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.ACKNOWLEDGE, by="ada", reason="I look at it")
    before = await incident.now()
    await incident.handle.terminate(reason="the wrong node")

    exported = await export(temporal, tmp_path, incident.handle.id)

    kept = records(tmp_path)[incident.handle.id]
    assert "report.json" in exported.written[incident.handle.id]
    assert (kept.outcome, kept.phase) == (Outcome.TERMINATED, Phase.CLOSED)
    assert kept.forced_end
    assert (kept.forced_end.how, kept.forced_end.reason) == ("was terminated", "the wrong node")
    assert kept.forced_end.by, "Temporal knows who did it"
    assert kept.closed_at == kept.forced_end.at
    same = ("findings", "plan", "overrides", "gates", "acts", "facts", "policy_version", "identity", "opened_at")
    assert {name: getattr(kept, name) for name in same} == {name: getattr(before, name) for name in same}
    assert [step.step for step in kept.steps] == [step.step for step in before.steps]
    assert all(step.ended_at for step in kept.steps)
    verified = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert verified.exit_code == ExitCode.OK, verified.output
    assert [entry.why for entry in audit_log(kept)][-1] == "the wrong node"


@marked(*on_temporal)
async def test_exporting_again_by_whichever_worker_changes_nothing(
    play: Play, world: World, temporal: Client, tmp_path: Path
) -> None:
    world.policy = fast(approve_before=("disrupt",))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.handle.terminate()
    await export(temporal, tmp_path, incident.handle.id)
    (file,) = [file for file in tmp_path.rglob("report.json") if incident.handle.id in str(file)]
    first, written = file.read_text(), file.stat().st_mtime_ns
    assert incident.handle.id not in (await export(temporal, tmp_path)).written
    assert (file.read_text(), file.stat().st_mtime_ns) == (first, written)
    await export(temporal, tmp_path / "of another worker")
    assert next((tmp_path / "of another worker").rglob(f"*{incident.handle.id}*/*/report.json")).read_text() == first


@marked(*on_temporal)
async def test_incident_whose_sinks_took_no_record_is_exported_as_it_closed(
    play: Play, world: World, temporal: Client, tmp_path: Path
) -> None:
    world.on(ActivityName.WRITE_RECORD, fails(ErrorType.ACCESS_DENIED))
    missed, own = await play.start(), await Play(temporal, "runbook", World()).start()
    result = await missed.result()
    await own.result()
    await export(temporal, tmp_path, missed.handle.id, own.handle.id)
    assert records(tmp_path)[missed.handle.id] == result
    assert own.handle.id not in records(tmp_path), "its own record is not written again"


@marked(*on_temporal)
async def test_incident_that_no_worker_ever_looked_at_is_exported_too(temporal: Client, tmp_path: Path) -> None:
    request = RemediationRequest(cluster="test", node="never-seen", instance_id="i-0123456789abcdef0")
    handle = await temporal.start_workflow(REMEDIATE_NODE, request, id="remediate-never", task_queue="of-nobody")
    await handle.terminate(reason="by mistake")
    await listed_as_ended(temporal, handle.id)
    act = ExportActivity(temporal, RecordActivity(tmp_path), patience=timedelta(seconds=1))
    await ActivityEnvironment().run(act.export_records, ExportRecords(cluster="test"))
    kept = records(tmp_path)[handle.id]
    assert (kept.node, kept.outcome) == ("never-seen", Outcome.TERMINATED)
    assert "by mistake" in kept.summary
    await ActivityEnvironment().run(act.export_records, ExportRecords(cluster="another"))


@pytest.mark.parametrize(
    ("facts", "notes", "itself"),
    [
        ({RECORD_FACT: "file:///r.json"}, (), True),
        ({RECORD_FACT: "file:///r.json"}, (f"{NOT_TAKEN}: S3 says no.",), False),
        ({}, ("write_record failed: no route.",), False),
    ],
    ids=["every sink has it", "one sink refused", "none took it"],
)
def test_what_closed_by_itself_is_exported_only_where_a_sink_has_it_not(
    facts: dict[str, str], notes: tuple[str, ...], itself: bool
) -> None:
    assert wrote_itself(closed().model_copy(update={"facts": facts, "notes": notes})) is itself


@given(
    how=st.sampled_from(["was terminated", "timed out", "failed", "was cancelled"]),
    by=st.sampled_from(["", "ada@laptop"]),
    reason=st.text(max_size=30),
)
def test_what_was_open_is_cut_off_and_what_was_done_stays_done(how: str, by: str, reason: str) -> None:
    known = report()
    running = known.steps[-1].model_copy(update={"status": StepStatus.RUNNING, "ended_at": None})
    known = known.model_copy(update={"steps": (*known.steps[:-1], running), "phase": Phase.ADMITTED})
    end = ForcedEnd(how=how, at=datetime(2026, 12, 2, tzinfo=UTC), by=by, reason=reason)
    kept = closed_by_force(known, end)
    assert kept.steps[:-1] == known.steps[:-1]
    assert (kept.steps[-1].status, kept.steps[-1].ended_at) == (StepStatus.FAILED, end.at)
    assert how in kept.summary
    assert kept == closed_by_force(known, end), "the same of both is the same record"
    last = audit_log(kept)[-1]
    assert (last.at, last.by, last.what, last.why) == (end.at, by or "temporal", f"workflow {how}", reason)
    assert kept.opened_at == NOW
