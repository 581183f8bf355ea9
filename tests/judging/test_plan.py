"""`nodemend plan`: what would happen to a node for one line. It is the incident's own decision, and touches nothing."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.errors import CommandError
from cli.main import app
from contract.corroboration import Corroboration
from contract.memory import FailedMachine, Failure
from contract.names import PREFIX, ExitCode, Step
from contract.plan import Rung
from contract.policy import GroupPolicy, Mode
from deploy.components import NAMESPACE, Component
from deploy.local.scene import create_training_job, nodes, running_pods, wait_for
from deploy.local.stack import Stack
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.operating.command import nodemend

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
    assert "an approval" in steps[Step.REPLACE]["gate"]
    assert steps[Step.DISRUPT]["gate"] == "The disruption permit."
    assert steps[Step.VERIFY]["deadline"] == GroupPolicy().model_dump(mode="json")["deadlines"]["verification"]


@pytest.mark.parametrize(("pods", "asks"), [(None, True), (2, True), (1, False)])
def test_a_gate_for_many_pods_asks_where_they_are_many_or_unknown(tmp_path: Path, pods: int | None, asks: bool) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("default: {mode: act, gates: [{before: disrupt, pods: 2, approvals: 2}]}")
    given = tmp_path / "pods.yaml"
    items = [{"metadata": {"name": f"pod-{number}", "namespace": "ml"}, "spec": {}} for number in range(pods or 0)]
    given.write_text(yaml.safe_dump({"kind": "List", "items": items}))
    told = seen("--line", HBM, "--policy", str(file), *([] if pods is None else ["--pods", str(given)]))
    (gate,) = [step["gate"] for step in told["steps"] if step["step"] == Step.DISRUPT]
    assert ("the approvals of 2 people" in gate) == asks


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


def test_a_doubtful_line_says_that_nobody_looked_for_a_second_witness(tmp_path: Path) -> None:
    told = seen("--line", DMA, "--group", "trn1", "--instance-id", "i-0592464924bd45322")
    assert told["plan"]["rung"] == Rung.QUARANTINE
    assert [sentence.partition(":")[0] for sentence in told["assumed"]] == ["No second witness was looked for"]
    file = tmp_path / "policy.yaml"
    file.write_text("default: {corroboration: {accepted: []}}")
    alone = seen("--line", DMA, "--group", "trn1", "--instance-id", "i-1", "--policy", str(file))
    assert alone["assumed"] == []


@pytest.mark.parametrize("kind", Corroboration)
def test_a_doubtful_line_is_judged_with_each_witness_that_is_taken_to_be_there(kind: Corroboration) -> None:
    told = seen("--line", DMA, "--witness", kind)
    assert told["plan"]["rung"] == Rung.REPLACE
    assert f"Taken for granted (--witness {kind})" in " ".join(told["plan"]["evidence_for"])
    assert "second witness" not in " ".join(told["assumed"])


def test_witness_that_cannot_confirm_a_rule_changes_nothing_and_a_sure_line_needs_none() -> None:
    assert seen("--line", "NEURON_HW_ERR=BRAND_NEW nd-id=3", "--witness", "ec2")["plan"]["rung"] == Rung.QUARANTINE
    with_and_without = [seen("--line", HBM, *more)["plan"] for more in ((), ("--witness", "ec2"))]
    for one in with_and_without:
        one.pop("evidence_since")
    assert with_and_without[0] == with_and_without[1]


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
        ours = [key for key in node.metadata.annotations or {} if key.startswith(PREFIX)]
        return node.spec.unschedulable, node.spec.taints, ours

    before = as_it_is()
    environment = local_stack.environment_of(Component.WORKER)
    told = nodemend("plan", "--node", group.nodes[0], "--line", DMA, "-o", "json", **environment)
    assert told.returncode == ExitCode.OK, told.stderr
    document = json.loads(told.stdout)
    (looked,) = document["assumed"]
    assert looked.startswith("Second witnesses were looked for in the cluster and in EC2")
    assert "EC2 knows of nothing against the instance." in document["plan"]["evidence_against"], "it was asked"
    assert group.name in document["permits"][0]["says"]
    assert document["plan"]["reasons"]
    assert as_it_is() == before


@pytest.mark.stack
def test_with_a_kubeconfig_the_device_that_failed_before_under_other_work_is_known(
    acting: Acting, node_group: MakeNodeGroup, namespace: str
) -> None:
    """A second witness is looked for where `identify` looks for it: here in the memory of machines that failed."""
    group = node_group(size=1)
    create_training_job(acting.stack, "mine", ranks=1, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "mine", namespace)) == 1, "the rank")
    serial = f"sn-{group.nodes[0]}"
    acting.memory.remember(
        FailedMachine(
            at=datetime.now(UTC),
            failure=Failure.GIVEN_UP,
            node="gone",
            serials=(serial,),
            reason="x",
            incident=serial,
            job="team/Job/other",
        )
    )
    environment = {**acting.stack.environment_of(Component.WORKER), "NODEMEND_NAMESPACE": NAMESPACE}
    line = f"NEURON_HW_ERR=DMA_ERROR nd-id=3 serial-num={serial}"
    told = nodemend("plan", "--node", group.nodes[0], "--line", line, "-o", "json", **environment)
    assert told.returncode == ExitCode.OK, told.stderr
    plan_of = json.loads(told.stdout)["plan"]
    assert plan_of["rung"] == Rung.REPLACE
    assert "team/Job/other" in " ".join(plan_of["evidence_for"])
