"""`nodemend report --html`: pages from records and from Temporal, and no guess at what is meant."""

from datetime import timedelta
from pathlib import Path

import pytest

from contract.names import INCIDENT_MEMO, ExitCode
from tests.operating.command import nodemend
from tests.operating.fleet import Fleet
from tests.reporting.sample import BEGAN, closed


def kept(folder: Path, *nodes: str) -> Path:
    """A worker's record folder."""
    for days, node in enumerate(nodes):
        path = folder / node / "run" / "report.json"
        path.parent.mkdir(parents=True)
        path.write_text(closed(node=node, opened_at=BEGAN + timedelta(days=days)).model_dump_json())
    return folder


def test_page_of_a_fleet_from_a_folder_of_records_needs_no_temporal(tmp_path: Path) -> None:
    records, page = kept(tmp_path / "records", "node-a", "node-b"), tmp_path / "fleet.html"
    (records / "node-a" / "run" / "copy").mkdir()
    (records / "node-a" / "run" / "copy" / "report.json").write_text("{")
    done = nodemend(
        "report", "--fleet", "--html", str(page), "--records", str(records), "--since", "2026-12-02T00:00:00"
    )
    assert done.returncode == ExitCode.OK, done.stderr
    assert "node-b" in page.read_text()
    assert "node-a" not in page.read_text()
    assert "1 record could not be read" in page.read_text()


@pytest.mark.parametrize(
    "arguments",
    [[], ["--fleet"], ["node-1", "--fleet", "--html", "x"], ["node-1", "--since", "2026-12-01"]],
)
def test_which_incidents_are_meant_is_asked_for(arguments: list[str]) -> None:
    done = nodemend("report", *arguments)
    assert done.returncode == ExitCode.USAGE
    assert "which incidents" in done.stderr


@pytest.mark.temporal
@pytest.mark.asyncio
async def test_pages_from_temporal_need_no_worker(fleet: Fleet, tmp_path: Path) -> None:
    report = closed(cluster=fleet.cluster, node="node-x")
    await fleet.start("node-x", memo={INCIDENT_MEMO: report})
    one, all_of_them = tmp_path / "one.html", tmp_path / "all.html"
    shown = await fleet.command("report", "node-x", "--html", str(one))
    assert shown.returncode == ExitCode.OK, shown.stderr
    assert "<h1>node-x</h1>" in one.read_text()
    whole = await fleet.command("report", "--fleet", "--html", str(all_of_them))
    assert whole.returncode == ExitCode.OK, whole.stderr
    assert "node-x" in all_of_them.read_text()
