"""The `nodemend` command as operators and scripts use it: the real program, on the real stack."""

import json
from pathlib import Path

import pytest

from contract.names import ExitCode, Phase
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, until, write_policy
from tests.operating.command import nodemend

pytestmark = pytest.mark.thorough


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
