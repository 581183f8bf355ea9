"""`--output`: one document in two forms for programs, on every command; and the shell completes commands."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.main import app
from cli.output import Output, as_yaml
from contract.audit import audit_log, lines
from contract.incident import IncidentReport, StepRecord, StepStatus
from contract.names import ExitCode, Outcome, Phase, Step
from tests.operating.command import NODEMEND, clean_environment, nodemend

FOR_PROGRAMS = ("simulate", "history", "status", "watch", "report", "budget", "demo")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_yaml_says_what_json_says(value: object) -> None:
    assert yaml.safe_load(as_yaml(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("name", FOR_PROGRAMS)
def test_every_command_for_programs_has_both_forms(name: str) -> None:
    offered = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    assert "|".join(form.value for form in Output) in offered


def test_a_document_is_the_same_in_both_forms() -> None:
    documents = [nodemend("simulate", "small", "--seed", "7", "--output", form).stdout for form in ("json", "yaml")]
    assert json.loads(documents[0]) == yaml.safe_load(documents[1])


def test_the_audit_log_is_a_document_too(tmp_path: Path) -> None:
    at = datetime(2026, 12, 2, tzinfo=UTC)
    step = StepRecord(step=Step.IDENTIFY, status=StepStatus.DONE, started_at=at, ended_at=at, summary="Node gpu-1.")
    report = IncidentReport(
        incident_id="remediate-c-gpu-1-i-1", run_id="r", cluster="c", node="gpu-1", phase=Phase.CLOSED,
        outcome=Outcome.OBSERVED, summary="Only looked at.", opened_at=at, steps=(step,),
    )  # fmt: skip
    log = tmp_path / "audit.jsonl"
    log.write_text(lines(audit_log(report)))
    (entry,) = yaml.safe_load(nodemend("audit", "list", str(tmp_path), "--output", "yaml").stdout)
    assert (entry["node"], entry["what"]) == ("gpu-1", "identify: done")
    assert "gpu-1" in nodemend("audit", "list", str(tmp_path), "--output", "table").stdout

    assert yaml.safe_load(nodemend("audit", "verify", str(log), "-o", "yaml").stdout) == {
        "logs": 1,
        "problems": [],
    }
    log.write_text(log.read_text().replace("gpu-1.", "gpu-2."))
    told = nodemend("audit", "verify", str(log), "-o", "json")
    assert told.returncode == ExitCode.DATA
    assert json.loads(told.stdout)["problems"][0]["log"] == str(log)


@pytest.mark.parametrize(("typed", "offered"), [("nodemend sim", "simulate"), ("nodemend ex", "extend-deadline")])
def test_the_shell_completes_commands(typed: str, offered: str) -> None:
    answered = nodemend(
        _NODEMEND_COMPLETE="complete_bash", _TYPER_COMPLETE_ARGS=typed, COMP_WORDS=typed, COMP_CWORD="1"
    )
    assert offered in answered.stdout.split()


def test_the_completion_script_can_be_had_without_installing_it() -> None:
    # It is for the shell that asks, which is the nearest above it; with another command behind, bash does stay.
    asked = ["bash", "-c", f"{NODEMEND} --show-completion; exit $?"]
    told = subprocess.run(asked, env=clean_environment(), capture_output=True, text=True, check=True)
    assert "_NODEMEND_COMPLETE" in told.stdout
