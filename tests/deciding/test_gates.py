"""Gates: when an approval is asked for, of what, and by how many people."""

from datetime import time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contract.fault import DataTrust, Verdict
from contract.gates import GATED, Gate, Situation, demanded, plan_digest, worst
from contract.maintenance import Day, MaintenanceWindow
from contract.names import OverrideName, Step
from contract.plan import Plan, Rung
from contract.policy import GroupPolicy
from tests.runbook.world import NOW, finding
from workflows.override_table import Stand
from workflows.overrides import Controls, OpenGate, press

NIGHT = MaintenanceWindow(start=time(20), end=time(8))
PLAN = Plan(rung=Rung.REPLACE, reasons=("The hardware failed for good.",))
steps = st.sampled_from(GATED)
gates = st.builds(
    Gate,
    before=steps,
    verdicts=st.lists(st.sampled_from(Verdict), max_size=2).map(tuple),
    hours=st.sampled_from([(), (NIGHT,), (MaintenanceWindow(days=(Day.SUN,), start=time(0), end=time(23)),)]),
    pods=st.integers(0, 5),
    approvals=st.integers(1, 2),
)
situations = st.builds(
    Situation,
    verdict=st.sampled_from(Verdict),
    now=st.timedeltas(timedelta(0), timedelta(days=400)).map(lambda later: NOW + later),
    pods=st.integers(0, 10),
)


def situation(verdict: Verdict = Verdict.HARDWARE, hour: int = 12, pods: int = 4) -> Situation:
    return Situation(verdict, NOW.replace(hour=hour), pods)


@pytest.mark.parametrize(
    ("gate", "asks"),
    [
        (Gate(before=Step.DISRUPT), True),
        (Gate(before=Step.DISRUPT, verdicts=(Verdict.REPAIRABLE,)), False),
        (Gate(before=Step.DISRUPT, verdicts=(Verdict.REPAIRABLE, Verdict.HARDWARE)), True),
        (Gate(before=Step.DISRUPT, hours=(NIGHT,)), False),
        (Gate(before=Step.DISRUPT, pods=4), True),
        (Gate(before=Step.DISRUPT, pods=5), False),
        (Gate(before=Step.DISRUPT, pods=4, hours=(NIGHT,)), False),
    ],
)
def test_gate_asks_where_all_of_its_conditions_hold(gate: Gate, asks: bool) -> None:
    assert gate.asks(situation()) is asks


def test_gate_of_the_night_asks_at_night() -> None:
    gate = Gate(before=Step.REPLACE, hours=(NIGHT,))
    assert [gate.asks(situation(hour=hour)) for hour in (7, 8, 19, 20, 23)] == [True, False, False, True, True]


@given(st.lists(gates, max_size=4), steps, situations)
def test_strictest_of_those_that_ask_counts_and_no_other_asks(rules: list[Gate], step: Step, now: Situation) -> None:
    asking = [gate for gate in rules if gate.before is step and gate.asks(now)]
    demand = demanded(rules, (step,), now)
    assert (demand is None) is (not asking)
    if demand:
        assert demand.approvals == max(gate.approvals for gate in asking)
        assert str(step) in demand.why


def test_approve_before_is_a_gate_without_conditions() -> None:
    policy = GroupPolicy(approve_before=(Step.DISRUPT,), gates=(Gate(before=Step.DISRUPT, approvals=2, pods=9),))
    quiet, busy = (demanded(policy.all_gates, (Step.DISRUPT,), situation(pods=pods)) for pods in (4, 9))
    assert quiet
    assert quiet.approvals == 1
    assert busy
    assert busy.approvals == 2


@pytest.mark.parametrize(
    "wrong",
    [{"before": "drain"}, {"before": "disrupt", "approvals": 0}, {"before": "disrupt", "pods": -1}, {"befor": "x"}],
)
def test_gate_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Gate.model_validate(wrong)


def test_worst_finding_counts() -> None:
    assert worst([finding(verdict=Verdict.NOTICE), finding(verdict=Verdict.REPAIRABLE)]) is Verdict.REPAIRABLE


@pytest.mark.parametrize(
    "changes",
    [
        {"rung": Rung.REBOOT},
        {"reasons": ("Another.",)},
        {"data": DataTrust.SUSPECT},
        {"device_resource": "nvidia.com/gpu"},
    ],
)
def test_digest_names_the_decision(changes: dict[str, object]) -> None:
    assert plan_digest(PLAN) != plan_digest(PLAN.model_copy(update=changes))


def test_more_evidence_for_the_same_decision_voids_no_approval() -> None:
    assert plan_digest(PLAN) == plan_digest(PLAN.model_copy(update={"evidence_since": NOW}))


def approve(controls: Controls, by: str, plan: str = "", now: str = "aaaa") -> tuple[bool, str]:
    argument = {"by": by, "reason": "looked at it", "plan": plan}
    answer, _ = press(OverrideName.APPROVE, argument, Stand.AT_GATE, controls, Step.DISRUPT, now)
    return answer.accepted, answer.text


def test_two_people_approve_and_one_of_them_twice_counts_once_and_is_told_so() -> None:
    controls = Controls(gate=OpenGate(2, "aaaa"))
    gate = controls.gate
    assert gate
    assert approve(controls, "ada") == (
        True,
        "`approve` counts: 1 of 2 approvals of plan aaaa. Someone else has to approve too.",
    )
    accepted, text = approve(controls, " Ada")
    assert accepted
    assert "counts once: 1 of 2" in text
    assert not gate.complete
    assert approve(controls, "grace", plan="aaaa")[1].endswith("It goes on.")
    assert gate.complete


def test_approval_of_another_plan_is_refused_with_the_one_that_is() -> None:
    controls = Controls(gate=OpenGate(1, "aaaa"))
    accepted, text = approve(controls, "ada", plan="bbbb")
    assert not accepted
    assert "names plan bbbb, and the plan is aaaa now" in text
    assert controls.gate == OpenGate(1, "aaaa")


def test_approval_that_crosses_a_change_of_the_plan_is_refused() -> None:
    """Whoever presses has seen the plan that was shown, not the one that a finding makes of it meanwhile."""
    controls = Controls(gate=OpenGate(1, "aaaa"))
    accepted, text = approve(controls, "ada", now="bbbb")
    assert not accepted
    assert "changed from aaaa to bbbb" in text


def test_change_of_the_plan_voids_what_was_approved_before() -> None:
    gate = OpenGate(2, "aaaa", ["ada"])
    assert gate.turn_to("aaaa") == ()
    assert gate.turn_to("bbbb") == ("ada",)
    assert gate == OpenGate(2, "bbbb")


def test_plan_goes_with_approve_alone() -> None:
    argument = {"by": "ada", "reason": "why", "plan": "aaaa"}
    answer, _ = press(OverrideName.ABORT, argument, Stand.AT_GATE, Controls(), Step.DISRUPT, "aaaa")
    assert not answer.accepted
    assert "plan: goes with `approve` alone" in answer.text
