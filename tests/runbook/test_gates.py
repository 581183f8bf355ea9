"""Gates on a running incident: who approved what, and what happens when that changes."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from contract.fault import EvidenceEnd, Verdict
from contract.gates import Gate
from contract.incident import IncidentReport
from contract.names import INCIDENT_MEMO, ActivityName, ErrorType, Outcome, OverrideName, Phase, Step
from contract.plan import Rung
from contract.policy import Mode
from contract.replacement import RebootMode, ReplacementPolicy
from tests.runbook.world import Play, Stuck, World, fails, fast, finding
from workflows import approvals

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]

REPAIRABLE: dict[str, Any] = {"verdict": Verdict.REPAIRABLE, "evidence_end": EvidenceEnd.BOOT, "signature": "mendable"}


async def test_gate_shows_plan_and_price_and_the_report_keeps_who_approved_it(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT,))
    incident = await play.start()
    asked = await incident.until_phase(Phase.NEEDS_HUMAN)
    [gate] = asked.gates
    assert gate.plan in asked.summary
    assert "up to 12 min of work since the last checkpoint" in asked.summary
    assert "drain_node" not in world.names()
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await incident.press(OverrideName.APPROVE, plan="ffffffff")
    assert gate.plan in str(refused.value.cause)
    await incident.press(OverrideName.APPROVE, plan=gate.plan)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    [passed] = report.gates
    assert (passed.before, passed.plan, passed.approved_by) == (Step.DISRUPT, gate.plan, ("ada",))
    assert passed.passed_at
    assert passed.price


async def test_two_people_approve(play: Play, world: World) -> None:
    world.policy = fast(gates=(Gate(before=Step.REPLACE, approvals=2),))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "drain_node" in world.names()
    assert "1 of 2" in await incident.press(OverrideName.APPROVE, by="ada")
    assert "counts once" in await incident.press(OverrideName.APPROVE, by="ADA", reason="again")
    await incident.until(lambda report: "1 of 2 approvals (ada)" in report.summary)
    assert "mark_instance_unhealthy" not in world.names()
    await incident.press(OverrideName.APPROVE, by="grace")
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.gates[0].approved_by == ("ada", "grace")


async def test_plan_that_changes_while_the_gate_waits_is_asked_for_again(play: Play, world: World) -> None:
    world.policy = fast(
        gates=(Gate(before=Step.DISRUPT, approvals=2),), replacement=ReplacementPolicy(reboot=RebootMode.REPAIRABLE)
    )
    incident = await play.start(finding(**REPAIRABLE))
    asked = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert asked.plan
    assert asked.plan.rung is Rung.REBOOT
    await incident.press(OverrideName.APPROVE, by="ada")
    await incident.report(finding(seq=200))
    again = await incident.until(lambda report: bool(report.gates) and report.gates[-1].plan != asked.gates[0].plan)
    assert again.gates[-1].approved_by == ()
    assert any("after ada had approved: it is asked for again" in note for note in again.notes)
    for by in ("ada", "grace"):
        await incident.press(OverrideName.APPROVE, by=by, plan=again.gates[-1].plan)
    assert (await incident.result()).outcome is Outcome.REPLACED
    assert "reboot_machine" not in world.names()


async def test_plan_that_changes_after_the_approval_is_asked_for_again_before_anything_is_disturbed(
    play: Play, world: World
) -> None:
    """The approval was of a reboot; what is found meanwhile calls for another machine."""
    world.policy = fast(approve_before=(Step.DISRUPT,), replacement=ReplacementPolicy(reboot=RebootMode.REPAIRABLE))
    stuck = Stuck()
    world.on(ActivityName.ASK_PERMIT, stuck)
    incident = await play.start(finding(**REPAIRABLE))
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.APPROVE)
    await stuck.started.wait()
    await incident.report(finding(seq=200))
    await incident.until(lambda report: len(report.findings) == 2)
    stuck.let_go.set()
    asked = await incident.until(lambda report: len(report.gates) == 2)
    assert "is not the one that was settled before" in asked.summary
    assert "drain_node" not in world.names()
    await incident.press(OverrideName.APPROVE)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert [gate.plan for gate in report.gates] == [asked.gates[0].plan, asked.gates[1].plan]
    assert asked.gates[0].plan != asked.gates[1].plan


async def test_gate_whose_conditions_do_not_hold_asks_nobody(play: Play, world: World) -> None:
    world.policy = fast(gates=(Gate(before=Step.DISRUPT, pods=100), Gate(before=Step.REPLACE, verdicts=("notice",))))
    report = await (await play.start()).result()
    assert report.outcome is Outcome.REPLACED
    assert report.gates == ()
    assert "price_disruption" not in world.names()


async def test_price_that_cannot_be_found_out_holds_no_gate_up(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT,))
    world.on(ActivityName.PRICE_DISRUPTION, fails(ErrorType.ACCESS_DENIED))
    incident = await play.start()
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert report.gates[0].price is None
    await incident.press(OverrideName.APPROVE)
    assert (await incident.result()).outcome is Outcome.REPLACED


def grows_older(minutes: list[int]) -> Any:
    """A price whose checkpoint is so many minutes old, each time that it is asked for; then as the last."""

    def script(argument: Any) -> Any:
        price = World.usual(argument)
        age = minutes.pop(0) if len(minutes) > 1 else minutes[0]
        return price.model_copy(update={"at": price.jobs[0].saved_at + timedelta(minutes=age), "pods": age})

    return script


async def test_price_is_found_anew_when_somebody_looks_and_the_approval_is_still_of_the_same_plan(
    play: Play, world: World
) -> None:
    world.policy = fast(gates=(Gate(before=Step.DISRUPT, approvals=2),))
    world.scripts[ActivityName.PRICE_DISRUPTION] = grows_older([12, 45, 90])
    incident = await play.start()
    asked = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "up to 12 min of work" in asked.summary
    await incident.press(OverrideName.ACKNOWLEDGE)
    again = await incident.until(lambda report: "up to 45 min of work" in report.summary)
    assert (again.asked_at, again.gates[0].asked_at) == (asked.asked_at, asked.gates[0].asked_at), "it is one wait"
    noted = await (await incident.handle.describe()).memo_value(INCIDENT_MEMO, type_hint=IncidentReport)
    assert "up to 45 min of work" in noted.summary, "read without a worker too"
    await incident.press(OverrideName.APPROVE, by="ada", plan=asked.gates[0].plan)
    last = await incident.until(lambda report: "up to 90 min of work" in report.summary)
    assert "1 of 2 approvals (ada)" in last.summary
    assert last.gates[0].plan == asked.gates[0].plan
    await incident.press(OverrideName.APPROVE, by="grace", plan=asked.gates[0].plan)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.gates[0].price
    assert report.gates[0].price.pods == 90


async def test_price_that_nobody_looks_at_is_found_anew_ever_more_rarely(
    play: Play, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "_STANDS", timedelta(milliseconds=50))
    world.policy = fast(approve_before=(Step.DISRUPT,))
    world.scripts[ActivityName.PRICE_DISRUPTION] = grows_older([12, 20, 30, 40])
    incident = await play.start()
    await incident.until(lambda report: "up to 40 min of work" in report.summary)
    waits = [
        event.timer_started_event_attributes.start_to_fire_timeout.ToMilliseconds()
        async for event in incident.handle.fetch_history_events()
        if event.HasField("timer_started_event_attributes")
    ]
    own = [wait for wait in waits if wait < 10_000]
    assert own[:3] == [50, 100, 200]
    await incident.press(OverrideName.APPROVE)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_price_that_cannot_be_found_anew_stays_as_it_was(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT,))
    world.on(ActivityName.PRICE_DISRUPTION, World.usual, fails(ErrorType.ACCESS_DENIED))
    incident = await play.start()
    asked = await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.ACKNOWLEDGE)
    failed = await incident.until(lambda report: any("price_disruption failed" in note for note in report.notes))
    assert failed.gates[0].price == asked.gates[0].price
    await incident.press(OverrideName.APPROVE)
    assert (await incident.result()).outcome is Outcome.REPLACED


@pytest.mark.parametrize("before", [Step.DISRUPT, Step.REPLACE])
async def test_shadow_says_which_gate_would_ask(play: Play, world: World, before: Step) -> None:
    gates = (Gate(before=before, pods=3, approvals=2), Gate(before=before, verdicts=(Verdict.NOTICE,)))
    world.policy = fast(gates=gates, mode=Mode.SHADOW)
    report = await (await play.start()).result()
    assert report.outcome is Outcome.SHADOWED
    said = {step.step: step.summary for step in report.steps}
    assert f"Before {before} the policy asks for the approvals of 2 people where 3 pods or more" in said[before]
    other = Step.REPLACE if before is Step.DISRUPT else Step.DISRUPT
    assert "the policy asks" not in said[other]


@pytest.mark.parametrize("name", [OverrideName.ABORT, OverrideName.RELEASE])
async def test_gate_can_be_left(play: Play, world: World, name: OverrideName) -> None:
    world.policy = fast(gates=(Gate(before=Step.DISRUPT, approvals=2),))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.APPROVE)
    await incident.press(name)
    report = await incident.result()
    assert report.outcome is (Outcome.ABORTED if name is OverrideName.ABORT else Outcome.RELEASED)
    assert report.gates[0].passed_at is None
