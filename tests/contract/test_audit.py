"""The audit log of an incident: the same report makes the same log, and tampering shows."""

from datetime import timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from temporalio.testing import ActivityEnvironment
from typer.testing import CliRunner

from activities.record import RecordActivity
from cli.audit import app
from contract.acts import WriteRecord
from contract.audit import audit_log, broken, lines
from contract.incident import IncidentReport, OverrideRecord, StepRecord, StepStatus
from contract.names import ExitCode, OverrideName, Phase, Step
from tests.runbook.world import NOW


def report() -> IncidentReport:
    steps = tuple(
        StepRecord(step=step, status=StepStatus.DONE, started_at=NOW, ended_at=NOW + timedelta(minutes=number))
        for number, step in enumerate([Step.IDENTIFY, Step.QUARANTINE, Step.DRAIN])
    )
    pressed = OverrideRecord(
        name=OverrideName.HOLD, by="ada", reason="look", at=NOW + timedelta(seconds=90), accepted=True, answer="."
    )
    return IncidentReport(
        incident_id="remediate-test-node-1-i-1",
        run_id="run-1",
        cluster="test",
        node="node-1",
        phase=Phase.CLOSED,
        summary="done",
        opened_at=NOW,
        steps=steps,
        overrides=(pressed,),
    )


WHOLE = lines(audit_log(report()))


def test_the_log_says_who_did_what_and_why_in_the_order_of_time() -> None:
    assert [(entry.by, entry.what) for entry in audit_log(report())] == [
        ("nodemend", "identify: done"),
        ("nodemend", "quarantine: done"),
        ("ada", "hold"),
        ("nodemend", "drain: done"),
    ]
    assert list(broken(WHOLE)) == []


@given(line=st.integers(0, 3), change=st.sampled_from(["drop", "repeat", "rewrite"]))
def test_whatever_is_removed_repeated_or_rewritten_before_the_end_shows(line: int, change: str) -> None:
    kept = WHOLE.splitlines()
    match change:
        case "drop":
            del kept[min(line, 2)]
        case "repeat":
            kept.insert(line, kept[line])
        case "rewrite":
            kept[line] = kept[line].replace('"node-1"', '"node-2"')
    assert list(broken("\n".join(kept)))


def test_the_record_has_it_beside_the_report_and_tells_the_workflow_its_last_digest(tmp_path: Path) -> None:
    act = RecordActivity(tmp_path)
    first, again = (ActivityEnvironment().run(act.write_record, WriteRecord(report=report())) for _ in range(2))
    assert first == again
    (log,) = tmp_path.rglob("audit.jsonl")
    assert log.read_text() == WHOLE
    assert first.uris[1].endswith(audit_log(report())[-1].digest)
    assert CliRunner().invoke(app, ["verify", str(tmp_path)]).exit_code == ExitCode.OK
    assert CliRunner().invoke(app, ["list", str(tmp_path), "--by", "ada"]).output.count("\n") == 1
    log.write_text(WHOLE.replace("ada", "eve"))
    assert CliRunner().invoke(app, ["verify", str(tmp_path)]).exit_code == ExitCode.DATA
