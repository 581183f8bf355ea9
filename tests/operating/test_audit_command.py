"""`nodemend audit`: who did what and why, from records and from incidents that run; and that tampering shows."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from activities.record import RecordActivity
from contract.acts import Recorded, WriteRecord
from contract.names import INCIDENT_MEMO, ExitCode
from tests.operating.command import nodemend
from tests.operating.fleet import Fleet
from tests.reporting.sample import closed


@pytest.fixture
def records(tmp_path: Path) -> Path:
    act = RecordActivity(tmp_path)
    ActivityEnvironment().run(act.write_record, WriteRecord(report=closed()))
    return tmp_path


def log(records: Path) -> Path:
    (found,) = records.rglob("audit.jsonl")
    return found


def test_who_did_what_and_why(records: Path) -> None:
    done = nodemend("audit", "list", str(records), "--by", "ada", "--since", "2026-12-01")
    (line,) = done.stdout.splitlines()
    entry = json.loads(line)
    assert (entry["by"], entry["what"], entry["why"]) == ("ada", "extend_deadline", "the checkpoint is large")
    assert not nodemend("audit", "list", str(records), "--node", "another").stdout
    assert not nodemend("audit", "list", str(records), "--since", "2026-12-02").stdout


@pytest.mark.parametrize(
    ("tamper", "shows"),
    [
        (lambda lines: [line.replace("ada", "eve") for line in lines], "was changed"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "does not follow"),
        (lambda lines: lines[1:], "does not follow"),
        (lambda lines: [*lines[:4], *lines[5:]], "does not follow"),
        (lambda lines: [*lines, lines[-1]], "does not follow"),
        (lambda lines: lines[:-1], "its end was cut off"),
        (lambda lines: lines[:-5], "its end was cut off"),
        (lambda _: [], "it is empty"),
    ],
)
def test_tampering_moving_and_cutting_off_show(
    records: Path, tamper: Callable[[list[str]], list[str]], shows: str
) -> None:
    assert nodemend("audit", "verify", str(records)).returncode == ExitCode.OK
    lines = log(records).read_text().splitlines(keepends=True)
    log(records).write_text("".join(tamper(lines)))
    done = nodemend("audit", "verify", str(records))
    assert done.returncode == ExitCode.DATA
    assert shows in done.stdout


@pytest.mark.temporal
@pytest.mark.asyncio
async def test_an_end_cut_off_with_the_report_beside_it_shows_by_what_temporal_was_told(
    fleet: Fleet, tmp_path: Path
) -> None:
    report = closed(cluster=fleet.cluster)
    act = RecordActivity(tmp_path)
    recorded: Recorded = ActivityEnvironment().run(act.write_record, WriteRecord(report=report))
    told = report.model_copy(update={"facts": {"record": ", ".join(recorded.uris)}})
    await fleet.start("node-1", memo={INCIDENT_MEMO: told})
    assert (await fleet.command("audit", "verify", str(tmp_path), "--temporal")).returncode == ExitCode.OK
    lines = log(tmp_path).read_text().splitlines(keepends=True)
    log(tmp_path).write_text("".join(lines[:-1]))
    next(tmp_path.rglob("report.json")).unlink()
    assert (await fleet.command("audit", "verify", str(tmp_path))).returncode == ExitCode.OK
    assert (await fleet.command("audit", "verify", str(tmp_path), "--temporal")).returncode == ExitCode.DATA


@pytest.mark.temporal
@pytest.mark.asyncio
async def test_incidents_that_run_are_asked_too(fleet: Fleet, records: Path) -> None:
    await fleet.start("node-1", memo={INCIDENT_MEMO: closed(cluster=fleet.cluster, node="node-1")})
    for arguments, nodes in ((["--by", "ada"], 1), ([str(records), "--open", "--by", "ada"], 2)):
        done = await fleet.command("audit", "list", *arguments)
        assert len(done.stdout.splitlines()) == nodes, done.stderr
