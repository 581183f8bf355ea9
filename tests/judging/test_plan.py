"""`nodemend plan`: what would happen to a node for one line. It is the incident's own decision, and touches nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.errors import CommandError
from cli.main import app
from contract.names import ExitCode, Step
from contract.plan import Rung
from contract.policy import GroupPolicy, Mode
from deploy.local.scene import nodes
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup

HBM = "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR instance-id=i-0592464924bd45322 nd-id=0 action=TERMINATE_INSTANCE"
DMA = "NEURON_HW_ERR=DMA_ERROR nd-id=3"
XID = "NVRM: Xid (PCI:0000:8a:00): 95, pid=7062, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"
ACTS = """\
groups:
  trn1:
    mode: act
    approve_before: [replace]
    deadlines: {drain: PT7M}
    maintenance: [{days: [mon], start: '03:00', end: '03:01', timezone: UTC}]
"""
SERVER: dict[str, str | None] = {"KUBECONFIG": None, "NODEMEND_RULES_DIR": None}


def plan(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(
        app, ["plan", "--node", "gpu-1", *arguments], env={**SERVER, **environment}, catch_exceptions=False
    )


def seen(*arguments: str, **environment: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(plan(*arguments, "--output", "json", **environment).stdout)
    return document


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(ACTS)
    return str(file)


def test_without_a_policy_a_dead_memory_is_decided_and_nothing_is_touched() -> None:
    told = seen("--line", HBM)
    assert (told["rule"], told["verdict"], told["mode"]) == ("neuron-memory-uncorrectable", "hardware", Mode.SHADOW)
    assert told["plan"]["rung"] == Rung.REPLACE
    assert told["says"].startswith("Nothing would be touched")
    # What nobody said is named, and the instance that the line names is not.
    assert [sentence.partition(":")[0] for sentence in told["assumed"]] == ["No --group"]


def test_the_policy_of_the_group_says_gates_deadlines_and_windows(policy: str) -> None:
    told = seen("--line", HBM, "--policy", policy, "--group", "trn1")
    assert told["mode"] == Mode.ACT
    steps = {step["step"]: step for step in told["steps"]}
    assert steps[Step.DRAIN]["deadline"] == "PT7M"
    assert steps[Step.REPLACE]["gate"] == "an approval"
    assert steps[Step.VERIFY]["deadline"] == GroupPolicy().model_dump(mode="json")["deadlines"]["verification"]


def test_the_budget_is_asked_with_the_limits_of_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("groups: {trn1: {mode: act, min_working: 16}}")
    told = seen("--line", HBM, "--policy", str(file), "--group", "trn1", "--group-size", "16")
    quarantine, disruption = told["permits"]
    assert (quarantine["granted"], disruption["granted"], disruption["limit"]) == (True, False, "spare")
    assert "none is spare" in disruption["says"]


def test_what_was_tried_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("default: {mode: act, replacement: {reboot: repairable}}")
    asked = ("--line", XID, "--policy", str(file))
    rungs = [seen(*asked, *more)["plan"]["rung"] for more in ((), ("--tried", "reboot"))]
    assert rungs == [Rung.REBOOT, Rung.REPLACE]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("usb 1-1: new high-speed USB device number 2", "no rule knows the line"),
        ("Dec 02 05:00:00 gpu-1 sshd[7]: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR", "another program"),
        ("-- Boot 0123456789abcdef0123456789abcdef --", "no kernel message"),
    ],
)
def test_a_line_that_starts_nothing_ends_with_1_and_says_why(line: str, why: str) -> None:
    told = plan("--line", line)
    assert told.exit_code == ExitCode.FAILED
    assert why in " ".join(told.stdout.split())


def test_a_line_that_is_only_counted_says_so() -> None:
    line = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=7,uid=0"
    told = seen("--line", line)
    assert (told["plan"], told["verdict"]) == (None, "application")
    assert "it is counted" in str(told["says"])


def test_a_line_of_user_space_is_a_drill() -> None:
    """Facility 1 (user): the kernel never lets user space write with its own (K11)."""
    assert seen("--line", f"12,4,1000000,-;{HBM}")["drill"] is True
    assert seen("--line", f"4,4,1000000,-;{HBM}")["drill"] is False


def test_a_line_that_names_another_machine_is_not_believed() -> None:
    told = seen("--line", HBM, "--instance-id", "i-0aaaaaaaaaaaaaaaa")
    assert told["plan"]["rung"] == Rung.QUARANTINE


def test_each_pod_says_what_a_drain_would_do_to_it(tmp_path: Path) -> None:
    pods = tmp_path / "pods.yaml"
    owned = [{"kind": "Job", "name": "llm", "controller": True}]
    pods.write_text(
        yaml.safe_dump(
            {
                "kind": "PodList",
                "items": [
                    {"metadata": {"name": "rank-0", "namespace": "ml", "ownerReferences": owned}, "spec": {}},
                    {"metadata": {"name": "alone", "namespace": "ml"}, "spec": {}},
                ],
            }
        )
    )
    told = seen("--line", HBM, "--pods", str(pods))
    assert {pod["pod"]: pod["becomes"] for pod in told["pods"]} == {
        "ml/rank-0": "evict",
        "ml/alone": "forbidden",
    }


@pytest.mark.parametrize(("text", "code"), [("kind: [", ExitCode.DATA), ("items: 3", ExitCode.DATA), (None, 66)])
def test_pods_that_are_none_are_refused(tmp_path: Path, text: str | None, code: int) -> None:
    pods = tmp_path / "pods.json"
    if text is not None:
        pods.write_text(text)
    with pytest.raises(CommandError) as raised:
        plan("--line", HBM, "--pods", str(pods))
    assert raised.value.code == code


def test_yaml_and_json_are_one_document_and_the_table_has_every_reason(policy: str) -> None:
    asked = ("--line", DMA, "--policy", policy, "--group", "trn1")
    told = seen(*asked)
    as_yaml = yaml.safe_load(plan(*asked, "-o", "yaml").stdout)
    told["plan"].pop("evidence_since"), as_yaml["plan"].pop("evidence_since")
    assert as_yaml == told
    table = " ".join(plan(*asked).stdout.split())
    assert all(reason in table for reason in told["plan"]["reasons"])


@pytest.mark.stack
def test_with_a_kubeconfig_the_node_says_its_own_facts_and_is_left_as_it_was(
    local_stack: Stack, node_group: MakeNodeGroup
) -> None:
    group = node_group(size=1)

    def as_it_is() -> Any:
        (node,) = nodes(local_stack, group.name)
        return node.spec, node.metadata.annotations, node.metadata.labels

    before = as_it_is()
    asked = ["plan", "--node", group.nodes[0], "--line", DMA, "-o", "json"]
    told = CliRunner().invoke(app, asked, env=local_stack.environment(), catch_exceptions=False)
    document = json.loads(told.stdout)
    assert document["assumed"] == []
    assert group.name in document["permits"][0]["says"]
    assert document["plan"]["reasons"]
    assert as_it_is() == before
