"""`nodemend doctor` on a live stack: it finds what was broken, and nothing where nothing is."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.names import ExitCode
from deploy.components import NAMESPACE
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.operating.command import nodemend

pytestmark = pytest.mark.stack


def examined(stack: Stack, policy: Path, **environment: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    done = nodemend(
        *("doctor", "--policy", str(policy), "--namespace", NAMESPACE, "--output", "json"),
        **{**stack.environment(), **environment},
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["about"], []).append(one)
    return done.returncode, found


def test_what_is_broken_is_found_and_what_is_whole_is_not(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(1).name
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"groups": {group: {"mode": "act"}, "no-such-group": {"mode": "act"}}}))
    local_stack.aws.client("autoscaling").suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])

    code, found = examined(local_stack, policy)

    assert code == ExitCode.FAILED
    assert [one["level"] for one in found["Temporal"]] == ["ok"]
    # The rights that the tests run under are those that it looks for.
    assert {one["level"] for about, told in found.items() if about.startswith("rights") for one in told} == {"ok"}
    # No detector runs on this group's node.
    assert "wrong" in {one["level"] for one in found["detectors"]}
    # Whether the workers of other tests have polled lately is not ours to say.
    assert {"workers of nodemend", "workers of nodemend-budget"} <= found.keys()
    assert any(one["level"] == "wrong" and "Launch is suspended" in one["says"] for one in found[f"group {group}"])
    assert any("no-such-group" in one["says"] for one in found["policy"])


def test_temporal_that_is_away_is_a_finding_and_the_rest_is_looked_at(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(1).name
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"groups": {group: {"mode": "act"}}}))
    code, found = examined(local_stack, policy, TEMPORAL_ADDRESS="127.0.0.1:9")
    assert code == ExitCode.FAILED
    assert "cannot be reached" in found["Temporal"][0]["says"]
    assert found["Temporal"][0]["mend"]
    assert {one["level"] for one in found[f"group {group}"]} <= {"ok", "note"}
