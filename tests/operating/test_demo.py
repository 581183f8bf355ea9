"""`nodemend demo` as a newcomer runs it."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cli.errors import INTERRUPTED
from contract.names import ExitCode
from deploy.local.scene import wait_for
from tests.operating.command import NODEMEND, clean_environment, nodemend

pytestmark = [pytest.mark.thorough]


def test_unknown_fault_is_a_usage_error_that_lists_those_there_are() -> None:
    done = nodemend("demo", "--fault", "nonsense")
    assert done.returncode == ExitCode.USAGE
    assert "neuron-memory-uncorrectable" in done.stdout + done.stderr


@pytest.mark.stack
@pytest.mark.timeout(240)
def test_demo_proves_every_claim(tmp_path: Path) -> None:
    done = nodemend("demo", "--output", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert document["proven"] is True
    assert len(document["claims"]) >= 12
    assert Path(document["report_path"]).exists()


def test_list_of_faults_says_how_each_ends() -> None:
    done = nodemend("demo", "--fault", "list")
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for name, end in (
        ("demo", "replaced"),
        ("neuron-memory-uncorrectable", "replaced"),
        ("neuron-repairable", "released"),
        ("neuron-hang-on-collectives", "observed"),
    ):
        assert end in lines[name], lines


def test_folder_that_may_not_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file")
    done = nodemend("demo", cwd=tmp_path)
    assert done.returncode == ExitCode.NO_PERMISSION
    assert "folder of yours" in done.stdout


@pytest.mark.stack
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("fault", "outcome"), [("neuron-repairable", "released"), ("neuron-hang-on-collectives", "observed")]
)
def test_fault_that_needs_no_other_machine_leaves_the_machine(fault: str, outcome: str, tmp_path: Path) -> None:
    done = nodemend("demo", "--fault", fault, "--output", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert document["report"]["outcome"] == outcome
    assert "no instance was replaced" in {claim["claim"] for claim in document["claims"] if claim["proven"]}


@pytest.mark.stack
@pytest.mark.timeout(240)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_demo_that_is_ended_leaves_no_process_behind(end: signal.Signals, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [NODEMEND, "demo"],
        env=clean_environment(TMPDIR=str(tmp_path)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert demo.stdout
    for line in demo.stdout:
        if "identify" in line:
            break
    family = [demo.pid, *(child.pid for child in psutil.Process(demo.pid).children(recursive=True))]
    assert len(family) > 8
    demo.send_signal(end)
    rest = demo.stdout.read()
    demo.stdout.close()
    demo.wait(60)
    if end is not signal.SIGKILL:
        assert demo.returncode == INTERRUPTED
        assert "Nothing is left running" in rest
        assert not list(tmp_path.glob("nodemend-demo-*"))
    # Known, and not the demo's to mend: a courier outlives a watch that is killed, until its spool is empty.
    courier = "detector.courier" if end is signal.SIGKILL else "nothing"
    try:
        wait_for(lambda: not [line for line in _alive(tmp_path).values() if courier not in line], "its processes", 30.0)
    finally:
        for pid in _alive(tmp_path):
            os.kill(pid, signal.SIGKILL)


def _alive(folder: Path) -> dict[int, str]:
    """Processes that name a demo's folder, or have it in their environment."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            command = " ".join(process.cmdline())
            if str(folder) in " ".join([command, *process.environ().values()]):
                found[process.pid] = command
    return found
