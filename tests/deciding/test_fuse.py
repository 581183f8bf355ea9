"""A23: where another repairer will act by itself, the incident knows when, and is done with the work before that."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.fuse import fuse_of, hurried
from activities.preflight import survey
from contract.identity import Fuse, MachineKind
from contract.names import ClusterSource
from contract.plan import Rung
from contract.policy import GroupPolicy
from contract.replacement import Answer, GroupFinding, ReplacementPolicy
from tests.replacing.facts import facts
from tests.runbook.world import NOW, finding, identity
from workflows import sentences
from workflows.assess import assess

SINCE = "2026-12-01T11:55:00Z"
REPAIRS = {"nodegroupName": "ng-1", "nodeRepairConfig": {"enabled": True}}
ASG, KARPENTER = MachineKind.AUTO_SCALING, MachineKind.KARPENTER


def node(**conditions: str) -> dict[str, Any]:
    return {
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": "NeuronDMAError", "lastTransitionTime": SINCE}
                for kind, status in conditions.items()
            ]
        }
    }


def minutes_left(fuse: Fuse | None) -> float | None:
    return (fuse.at - NOW) / timedelta(minutes=1) if fuse else None


BAD = node(AcceleratedHardwareReady="False")


@pytest.mark.parametrize(
    ("seen", "kind", "nodegroup", "left"),
    [
        (BAD, ASG, REPAIRS, 5),
        (node(Ready="Unknown"), ASG, REPAIRS, 25),
        (node(Ready="False", AcceleratedHardwareReady="False"), ASG, REPAIRS, 5),
        (node(StorageReady="False"), KARPENTER, None, 25),
        (node(Ready="True", AcceleratedHardwareReady="True"), ASG, REPAIRS, None),
        (node(NeuronHealth="True", DiskPressure="True"), ASG, REPAIRS, None),
        (BAD, ASG, None, None),
        (BAD, ASG, {"nodegroupName": "ng-1", "nodeRepairConfig": {"enabled": False}}, None),
        (BAD, MachineKind.MANUAL, None, None),
    ],
)
def test_a23_repairer_that_watches_a_bad_condition_acts_when_its_wait_is_over(
    seen: dict[str, Any], kind: MachineKind, nodegroup: dict[str, Any] | None, left: float | None
) -> None:
    assert minutes_left(fuse_of(seen, kind, nodegroup, ())) == left


@pytest.mark.parametrize(("reason", "left"), [("NeuronDMAError", -4), (None, -4), ("SomethingElse", 5)])
def test_a23_wait_of_the_node_group_itself_counts(reason: str | None, left: float) -> None:
    override = {"nodeMonitoringCondition": "AcceleratedHardwareReady", "minRepairWaitTimeMins": 1}
    override |= {"nodeUnhealthyReason": reason} if reason else {}
    repairs = {"enabled": True, "nodeRepairConfigOverrides": [override]}
    assert minutes_left(fuse_of(BAD, ASG, {"nodegroupName": "n", "nodeRepairConfig": repairs}, ())) == left


def test_a23_auto_scaling_acts_at_any_moment_on_what_ec2_says() -> None:
    by_ec2 = finding(source=ClusterSource.EC2, reason="ScheduledRetirement")
    lit = fuse_of(node(), ASG, None, (finding(), by_ec2))
    assert lit
    assert "ScheduledRetirement" in lit.says
    assert fuse_of(node(), KARPENTER, None, (by_ec2,)) is None


WAITS = ("settle", "checkpoint", "drain", "group")
ASKING = ("gather", "urgent", "longest")


@given(left=st.integers(-3600, 100_000))
def test_a23_no_wait_is_lengthened_none_is_nothing_and_the_work_is_off_before_the_other_acts(left: int) -> None:
    usual = GroupPolicy()
    fuse = Fuse(at=NOW + timedelta(seconds=left), says="EKS acts")
    rules = hurried(usual, fuse, NOW)
    for name in WAITS:
        assert timedelta(0) < getattr(rules.deadlines, name) <= getattr(usual.deadlines, name)
    for name in ASKING:
        assert timedelta(0) < getattr(rules.checkpoints, name) <= getattr(usual.checkpoints, name)
    for asked in (rules.deadlines.checkpoint, rules.checkpoints.urgent, rules.checkpoints.longest):
        assert asked + rules.deadlines.drain <= max(timedelta(minutes=1), timedelta(seconds=left))
    assert rules.mode is usual.mode
    assert rules.replacement == usual.replacement


def test_a23_without_another_repairer_the_policy_is_as_it_is() -> None:
    assert hurried(GroupPolicy(), None, NOW) == GroupPolicy()


LIT = Fuse(at=NOW, says="EKS's node auto repair of ng-1 acts on it at 12:00 UTC")


def test_a23_plan_shows_the_fuse_and_is_the_same_decision_with_it() -> None:
    with_fuse, without = (assess([finding()], identity(fuse=fuse)) for fuse in (LIT, None))
    assert LIT.says in sentences.plan(with_fuse)
    assert with_fuse.rung is Rung.REPLACE
    assert with_fuse.decides_as(without)


def test_a23_policy_may_have_it_asked_before_the_work_is_stopped() -> None:
    rules = ReplacementPolicy(answers={GroupFinding.OTHER_REPAIRER: Answer.ASK})
    found = survey(facts(identity=identity(fuse=LIT, image="ami-1")), rules)
    assert any(LIT.says in obstacle for obstacle in found.obstacles)
    assert survey(facts(identity=identity(fuse=LIT, image="ami-1")), ReplacementPolicy()).obstacles == ()
