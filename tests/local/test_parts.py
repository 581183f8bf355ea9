"""Finding the programs, and running one: what goes wrong is said so that its reader knows what to do. No stack."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from cli.local import app
from contract.names import ExitCode
from deploy.local.build import PROGRAMS, locate, missing
from deploy.local.errors import StackError
from deploy.local.process import running
from deploy.local.scene import wait_for


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NODEMEND_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def test_programs_that_are_not_built_are_named(empty_cache: Path) -> None:
    assert missing() == list(PROGRAMS)
    with pytest.raises(StackError, match=r"etcd, kube-apiserver.*\n.*nodemend local build"):
        locate()


def test_up_without_them_says_what_to_run(empty_cache: Path) -> None:
    result = CliRunner().invoke(app, ["up", "--state-dir", str(empty_cache / "stack")])
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert "nodemend local build" in result.stderr
    assert result.stdout == ""


def test_programs_that_the_user_has_are_used(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = empty_cache / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver"):
        (assets / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert missing() == ["kube-controller-manager", "kube-scheduler", "kwok"]


def test_a_program_that_ends_too_early_has_its_last_words_repeated(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no disk left'); raise SystemExit(3)"]
    with (
        pytest.raises(StackError, match=r"(?s)demo ended with 3.*no disk left.*Buy a disk"),
        running("demo", lambda _: command, ports=0, ready=lambda _: False, state_dir=tmp_path, remedy="Buy a disk."),
    ):
        pass


def test_a_program_that_never_serves_is_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"]
    with (
        pytest.raises(StackError, match="not ready after 1 s"),
        running("demo", lambda _: command, ports=0, ready=lambda _: False, state_dir=tmp_path, remedy="", deadline=1.0),
    ):
        pass
    assert not psutil.pid_exists(int((tmp_path / "logs" / "demo.log").read_text()))


def test_a_killed_owner_takes_its_program_along(tmp_path: Path) -> None:
    owner = f"""
import signal, sys
from pathlib import Path
from deploy.local.process import running
with running("demo", lambda _: [sys.executable, "-c", "import time; time.sleep(60)"], ports=0,
             ready=lambda _: True, state_dir=Path({str(tmp_path)!r}), remedy="") as process:
    print(process.pid, flush=True)
    signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: not alive(child), "the program to end", patience_s=5)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
