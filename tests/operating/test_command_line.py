"""The `nodemend` command as operators and scripts use it: the real program, on the real stack."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from contract.names import ExitCode, Phase
from deploy.local.stack import Stack
from deploy.local.temporal import running_temporal
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, until, write_policy

pytestmark = pytest.mark.thorough

NODEMEND = str(Path(sys.executable).with_name("nodemend"))


def nodemend(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in an environment of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("TEMPORAL_", "NODEMEND_"))}
    return subprocess.run(
        [NODEMEND, *arguments],
        env={**clean, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_help_lists_the_commands_and_what_exit_codes_mean() -> None:
    done = nodemend("--help")
    assert done.returncode == 0
    for word in (
        "demo",
        "detect",
        "work",
        "status",
        "watch",
        "approve",
        "hold",
        "resume",
        "abort",
        "release",
        "report",
    ):
        assert word in done.stdout
    for code in (ExitCode.UNAVAILABLE, ExitCode.NO_PERMISSION, ExitCode.CONFIG):
        assert str(code) in done.stdout


@pytest.mark.parametrize("command", [["status"], ["watch", "n"], ["report", "n"], ["abort", "n", "--reason", "r"]])
def test_unreachable_temporal_is_69_and_names_the_address(command: list[str]) -> None:
    done = nodemend(*command, TEMPORAL_ADDRESS="127.0.0.1:9", NODEMEND_CLUSTER="c")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "127.0.0.1:9" in done.stderr
    assert "TEMPORAL_ADDRESS" in done.stderr


@pytest.mark.temporal
def test_missing_namespace_and_missing_cluster_are_78(tmp_path: Path) -> None:
    with running_temporal(tmp_path) as temporal:
        missing = nodemend("status", TEMPORAL_ADDRESS=temporal.address, TEMPORAL_NAMESPACE="x", NODEMEND_CLUSTER="c")
        no_cluster = nodemend("status", TEMPORAL_ADDRESS=temporal.address, TEMPORAL_NAMESPACE=temporal.namespace)
    assert (missing.returncode, no_cluster.returncode) == (ExitCode.CONFIG, ExitCode.CONFIG)
    assert "no namespace 'x'" in missing.stderr
    assert "NODEMEND_CLUSTER" in no_cluster.stderr


def test_unknown_fault_of_the_demo_is_a_usage_error_that_lists_those_there_are() -> None:
    done = nodemend("demo", "--fault", "nonsense")
    assert done.returncode == ExitCode.USAGE
    assert "neuron-hbm-repairable" in done.stdout + done.stderr


async def test_operator_follows_steers_and_reads_an_incident(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(2)
    node, environment = group.nodes[0], local_stack.environment()
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: {**QUICK_POLICY, "approve_before": ["disrupt"]}})
    with running_worker(local_stack, policy, tmp_path):
        handle = await send(await connect(local_stack), report_about(local_stack, node))
        await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)

        status = nodemend("status", "--output", "json", **environment)
        open_now = {entry["incident_id"] for entry in json.loads(status.stdout)["incidents"]}
        assert handle.id in open_now
        assert node in nodemend("status", **environment).stdout

        refused = nodemend("resume", node, "--by", "ada", "--reason", "go", **environment)
        assert refused.returncode == ExitCode.FAILED
        assert "`approve`" in refused.stderr
        nobody = nodemend("abort", "nobody", "--by", "ada", "--reason", "stop", **environment)
        assert nobody.returncode == ExitCode.NO_INPUT
        unnamed = nodemend("abort", node, "--by", "", "--reason", "stop", **environment)
        assert unnamed.returncode == ExitCode.USAGE

        pressed = nodemend("release", node, "--by", "ada", "--reason", "false alarm", **environment)
        assert pressed.returncode == 0, pressed.stderr
        assert "given back" in pressed.stdout

        watched = nodemend("watch", node, "--output", "json", **environment)
        assert watched.returncode == 0
        assert json.loads(watched.stdout)["outcome"] == "released"

    # Without any worker: the result is what remains.
    kept = tmp_path / "report.json"
    report = nodemend("report", node, "--file", str(kept), "--output", "json", **environment)
    assert json.loads(report.stdout) == json.loads(kept.read_text())
    assert json.loads(report.stdout)["overrides"][-1]["by"] == "ada"


async def test_override_without_workers_is_left_as_a_signal_and_applied_when_one_comes(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(2)
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: {**QUICK_POLICY, "approve_before": ["disrupt"]}})
    with running_worker(local_stack, policy, tmp_path):
        handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
        await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    pressed = nodemend("release", group.nodes[0], "--by", "ada", "--reason", "r", **local_stack.environment())
    assert pressed.returncode == 0, pressed.stderr
    assert "left as a signal" in pressed.stdout
    with running_worker(local_stack, policy, tmp_path):
        report = await handle.result()
    assert [(override.by, override.accepted) for override in report.overrides] == [("ada", True)]


@pytest.mark.stack
@pytest.mark.timeout(240)
def test_demo_proves_every_claim(tmp_path: Path) -> None:
    done = nodemend("demo", "--output", "json")
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert document["proven"] is True
    assert len(document["claims"]) >= 12
    assert Path(document["report_path"]).exists()
