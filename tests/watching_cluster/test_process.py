"""``nodemend watch-cluster`` as a process: settings that are wrong are named, and it ends as it is told."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from contract.names import ExitCode
from tests.detecting.running import PATIENCE_S, ROOT
from tests.watching_cluster.running import Cluster

NODEMEND = str(Path(sys.executable).with_name("nodemend"))


def run(*command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run it to its end."""
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": "/nonexistent", **settings}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def test_missing_and_wrong_settings_are_named() -> None:
    ended = run(NODEMEND, "watch-cluster", NODEMEND_OUTAGE_SHARE="7", NODEMEND_WATCH_ADDRESS="nowhere")
    assert ended.returncode == ExitCode.CONFIG
    for words in ("NODEMEND_CLUSTER: must be set", "NODEMEND_OUTAGE_SHARE", "NODEMEND_WATCH_ADDRESS"):
        assert words in ended.stderr


def test_no_cluster_is_said() -> None:
    ended = run(NODEMEND, "watch-cluster", NODEMEND_CLUSTER="x")
    assert (ended.returncode, "set KUBECONFIG" in ended.stderr) == (ExitCode.CONFIG, True)


def test_rule_that_cannot_be_used_ends_it_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("conditions: [{type: X}]")
    ended = run(NODEMEND, "watch-cluster", NODEMEND_CLUSTER="x", NODEMEND_CLUSTER_RULES_DIR=str(tmp_path))
    assert ended.returncode == ExitCode.DATA
    assert "mine.yaml, conditions.0." in ended.stderr


@pytest.mark.parametrize(("argument", "code"), [("--help", ExitCode.OK), ("--nonsense", ExitCode.USAGE)])
def test_every_variable_is_in_the_help_and_in_the_documentation(argument: str, code: int) -> None:
    ended = run(sys.executable, "-m", "detector.cluster", argument)
    assert ended.returncode == code
    document = (ROOT / "docs" / "watch-cluster.md").read_text()
    variables = [line.split()[0] for line in (ended.stdout + ended.stderr).splitlines() if line.startswith("  ")]
    assert len(variables) > 8
    assert [name for name in variables if name not in document] == []


def test_address_that_is_taken_is_said(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        replica = cluster.start(NODEMEND_WATCH_ADDRESS=address)
        assert replica.process.wait(PATIENCE_S) == ExitCode.CONFIG
    assert "NODEMEND_WATCH_ADDRESS" in replica.text()


def test_told_to_stop_it_ends_with_0_and_says_nothing_bad(cluster: Cluster) -> None:
    with cluster.watching() as replica:
        code, body = replica.get("/healthz")
        assert (code, '"active": true' in body) == (200, True)
        replica.process.terminate()
        assert replica.process.wait(PATIENCE_S) == ExitCode.OK
    assert "cannot" not in replica.text()
    assert "Traceback" not in replica.text()
