"""What humans press, at each moment, and what comes of it."""

import asyncio

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowUpdateFailedError

from contract import acts
from contract.fault import Verdict
from contract.names import ActivityName, ErrorType, Outcome, OverrideName, Phase, Step
from tests.runbook.world import Play, Stuck, World, fails, fast, finding
from workflows.override_table import STEP_ORDERS

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]

BEFORE_NO_RETURN = [
    ActivityName.QUARANTINE_NODE,
    ActivityName.PRESERVE_EVIDENCE,
    ActivityName.REQUEST_CHECKPOINTS,
    ActivityName.DRAIN_NODE,
    ActivityName.SURVEY_GROUP,
]
AFTER_NO_RETURN = [
    ActivityName.MARK_INSTANCE_UNHEALTHY,
    ActivityName.AWAIT_REPLACEMENT,
    ActivityName.VERIFY_REPLACEMENT,
    ActivityName.CLOSE_INCIDENT,
]


async def refusal(call: object) -> str:
    """The text of a refused update."""
    with pytest.raises(WorkflowUpdateFailedError) as raised:
        await call  # type: ignore[misc]
    return str(raised.value.cause)


@pytest.mark.parametrize("act", BEFORE_NO_RETURN)
@pytest.mark.parametrize(
    ("name", "outcome", "gives_back"),
    [(OverrideName.ABORT, Outcome.ABORTED, False), (OverrideName.RELEASE, Outcome.RELEASED, True)],
)
async def test_stop_cancels_what_runs_and_destroys_nothing(
    play: Play, world: World, act: ActivityName, name: OverrideName, outcome: Outcome, gives_back: bool
) -> None:
    stuck = Stuck()
    world.on(act, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(name)
    report = await incident.result()
    assert report.outcome is outcome
    assert stuck.cancelled == 1
    assert "mark_instance_unhealthy" not in world.names()
    assert ("give_back_node" in world.names()) == gives_back
    assert [(o.name, o.by, o.reason, o.accepted) for o in report.overrides] == [(name, "ada", "told so", True)]


async def test_release_before_the_machine_is_known_gives_back_what_may_be_closed_already(
    play: Play, world: World
) -> None:
    stuck = Stuck()
    world.on(ActivityName.IDENTIFY_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(OverrideName.RELEASE)
    report = await incident.result()
    assert (report.outcome, stuck.cancelled) == (Outcome.RELEASED, 1)
    asked, again = world.arguments(ActivityName.IDENTIFY_NODE)
    assert asked.closes
    # It asks for nothing, waits for no proof, and closes nothing.
    assert (again.reports, again.wants_permit, again.closes) == ((), False, False)
    (given,) = world.arguments(ActivityName.GIVE_BACK_NODE)
    assert given.target.identity == world.who


@pytest.mark.parametrize("act", BEFORE_NO_RETURN)
async def test_hold_stops_the_act_and_resume_runs_it_again(play: Play, world: World, act: ActivityName) -> None:
    stuck = Stuck()
    world.on(act, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(OverrideName.HOLD)
    held = await incident.until(lambda report: "Held by" in report.summary)
    assert held.outcome is None
    await incident.press(OverrideName.RESUME)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    # The group is looked at before the work is stopped, and again before the machine is given up.
    assert world.names().count(act) == (3 if act is ActivityName.SURVEY_GROUP else 2)


@pytest.mark.parametrize("act", AFTER_NO_RETURN)
@pytest.mark.parametrize("name", [name for name in OverrideName if name not in STEP_ORDERS])
async def test_past_the_point_of_no_return_overrides_are_refused_with_the_reason(
    play: Play, world: World, act: ActivityName, name: OverrideName
) -> None:
    stuck = Stuck()
    world.on(act, stuck)
    incident = await play.start()
    await stuck.started.wait()
    text = await refusal(incident.press(name))
    assert "cannot be undone" in text
    stuck.let_go.set()
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert [(o.name, o.accepted) for o in report.overrides] == [(name, False)]


@pytest.mark.parametrize("act", [*BEFORE_NO_RETURN, *AFTER_NO_RETURN, ActivityName.IDENTIFY_NODE])
async def test_failed_act_parks_with_a_sentence_and_resume_tries_again(
    play: Play, world: World, act: ActivityName
) -> None:
    world.on(act, fails(ErrorType.ACCESS_DENIED, "AWS refuses this call. Grant the action."))
    incident = await play.start()
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "AWS refuses this call. Grant the action." in report.summary
    assert "resume" in report.summary
    await incident.press(OverrideName.RESUME)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_parked_before_the_replacement_gives_its_permit_back_and_asks_again(play: Play, world: World) -> None:
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    assert world.names().count("return_permits") == 1
    await incident.press(OverrideName.RESUME)
    await incident.result()
    assert world.names().count("ask_permit") == 2


@pytest.mark.parametrize("step", [Step.DISRUPT, Step.REPLACE])
async def test_gate_waits_for_an_approval(play: Play, world: World, step: Step) -> None:
    world.policy = fast(approve_before=(step,))
    incident = await play.start()
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert f"Before {step} the policy asks for an approval." in report.summary
    assert "mark_instance_unhealthy" not in world.names()
    await incident.press(OverrideName.APPROVE)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_one_approval_opens_one_gate(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT, Step.REPLACE))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.APPROVE, reason="drain it")
    report = await incident.until(lambda report: "Before replace" in report.summary)
    assert "mark_instance_unhealthy" not in world.names()
    await incident.press(OverrideName.APPROVE, reason="replace it")
    report = await incident.result()
    assert [o.reason for o in report.overrides] == ["drain it", "replace it"]


@pytest.mark.parametrize("verdict", [Verdict.AMBIGUOUS, Verdict.REPAIRABLE])
async def test_doubtful_fault_waits_for_a_human_who_may_have_it_replaced(
    play: Play, world: World, verdict: Verdict
) -> None:
    incident = await play.start(finding(verdict=verdict))
    await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "drain_node" not in world.names()
    await incident.press(OverrideName.APPROVE, by="grace", reason="counters moved")
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.plan
    assert any("grace" in reason and "counters moved" in reason for reason in report.plan.reasons)


async def test_doubtful_fault_goes_on_by_itself_when_a_certain_one_joins(play: Play) -> None:
    incident = await play.start(finding(verdict=Verdict.AMBIGUOUS))
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.report(finding(seq=101, signature="certain"))
    assert (await incident.result()).outcome is Outcome.REPLACED


@pytest.mark.parametrize("found", [acts.Identified.NODE_ABSENT, acts.Identified.STALE])
async def test_machine_that_went_away_while_a_human_was_waited_for_ends_the_incident(
    play: Play, world: World, found: acts.Identified
) -> None:
    gone = acts.NodeFacts(identified=found, explanation="It is gone.")
    world.on(
        ActivityName.IDENTIFY_NODE, lambda argument: world.answer(ActivityName.IDENTIFY_NODE, argument), lambda _: gone
    )
    incident = await play.start(finding(verdict=Verdict.AMBIGUOUS))
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.RESUME)
    report = await asyncio.wait_for(incident.result(), 20)
    assert report.summary == "It is gone."
    assert world.names()[-2:] == ["return_permits", "write_record"]


async def test_obstacle_in_the_group_parks_before_the_instance_is_touched(play: Play, world: World) -> None:
    world.on(
        ActivityName.SURVEY_GROUP,
        lambda argument: World.usual(argument).model_copy(update={"obstacles": ("its process Launch is suspended",)}),
    )
    incident = await play.start()
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "Launch is suspended" in report.summary
    assert "mark_instance_unhealthy" not in world.names()
    await incident.press(OverrideName.RESUME)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_verification_that_fails_never_ends_in_silence(play: Play, world: World) -> None:
    world.on(ActivityName.VERIFY_REPLACEMENT, fails(ErrorType.NOT_VERIFIED, "node-2 has 15 of 16 devices."))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.ABORT, reason="we take it from here")
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED_UNVERIFIED


@pytest.mark.parametrize(
    "payload",
    [None, {}, "ada", {"by": "ada"}, {"by": " ", "reason": "x"}, {"by": "ada", "reason": "x", "force": True}, [1]],
)
async def test_malformed_override_is_answered_and_recorded(play: Play, world: World, payload: object) -> None:
    stuck = Stuck()
    world.on(ActivityName.DRAIN_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    text = await refusal(incident.handle.execute_update(OverrideName.ABORT, payload))
    assert '{"by": "you", "reason": "why"}' in text
    await incident.handle.signal(OverrideName.ABORT, payload)
    report = await incident.until(lambda report: len(report.overrides) == 2)
    assert not any(override.accepted for override in report.overrides)
    assert stuck.cancelled == 0
    stuck.let_go.set()
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_signal_and_update_of_the_same_act_apply_once(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT, Step.REPLACE))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    act = {"by": "ada", "reason": "yes", "id": "act-1"}
    await incident.handle.signal(OverrideName.APPROVE, act)
    await incident.handle.execute_update(OverrideName.APPROVE, act)
    report = await incident.until(lambda report: "Before replace" in report.summary)
    await incident.handle.execute_update(OverrideName.APPROVE, act)
    report = await incident.now()
    assert len(report.overrides) == 1
    assert "mark_instance_unhealthy" not in world.names()
    await incident.handle.terminate()


async def test_signal_works_as_the_update_does(play: Play, world: World) -> None:
    stuck = Stuck()
    world.on(ActivityName.DRAIN_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.handle.signal(OverrideName.ABORT, {"by": "ada", "reason": "stop"})
    assert (await incident.result()).outcome is Outcome.ABORTED


@pytest.mark.parametrize("act", BEFORE_NO_RETURN)
async def test_request_cancellation_of_the_ui_leaves_the_node_quarantined(
    play: Play, world: World, act: ActivityName
) -> None:
    stuck = Stuck()
    world.on(act, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.handle.cancel()
    report = await incident.result()
    assert report.outcome is Outcome.ABORTED
    assert stuck.cancelled == 1
    assert not {"give_back_node", "mark_instance_unhealthy"} & set(world.names())


@pytest.mark.parametrize("act", AFTER_NO_RETURN[1:])
async def test_request_cancellation_after_the_call_is_not_told_as_an_abort(
    play: Play, world: World, act: ActivityName
) -> None:
    stuck = Stuck()
    world.on(act, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.handle.cancel()
    assert (await incident.result()).outcome is Outcome.REPLACED_UNVERIFIED


async def test_overrides_are_described_for_the_ui(play: Play, world: World) -> None:
    stuck = Stuck()
    world.on(ActivityName.DRAIN_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    metadata = await incident.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    for definitions in (metadata.definition.signal_definitions, metadata.definition.update_definitions):
        described = {item.name: item.description for item in definitions}
        assert all('"reason"' in described[name] for name in OverrideName)
    assert "You can send" in metadata.current_details
    stuck.let_go.set()
    await asyncio.wait_for(incident.result(), 20)


async def test_acknowledging_is_in_the_record_and_moves_nothing(play: Play, world: World) -> None:
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.ACKNOWLEDGE, by="grace")
    assert (await incident.now()).phase is Phase.NEEDS_HUMAN
    await incident.press(OverrideName.RESUME)
    report = await incident.result()
    assert [(o.name, o.by, o.accepted) for o in report.overrides] == [
        (OverrideName.ACKNOWLEDGE, "grace", True),
        (OverrideName.RESUME, "ada", True),
    ]


async def test_wrong_argument_is_in_the_record_with_whoever_it_names(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT,))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    wrong = [{"by": "ada", "reason": "it is in", "foo": 1}, {"by": "ada"}, "ada", None, {"by": 7, "reason": ["x"]}]
    for argument in wrong:
        await incident.handle.signal(OverrideName.APPROVE, argument)
    report = await incident.until(lambda report: len(report.overrides) == len(wrong))
    assert not any(one.accepted for one in report.overrides)
    assert [(one.by, one.reason) for one in report.overrides] == [
        ("ada", "it is in"),
        ("ada", ""),
        ("unknown", ""),
        ("unknown", ""),
        ("unknown", ""),
    ]
    await incident.press(OverrideName.ABORT)
    await incident.result()


async def test_signal_that_nothing_takes_is_noted_with_the_name_that_was_meant(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT,))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.handle.signal("retry-step", {"by": "ada", "reason": "r"})
    await incident.handle.signal("frobnicate")
    report = await incident.until(lambda report: sum("nothing has that name" in note for note in report.notes) == 2)
    first, second = [note for note in report.notes if "nothing has that name" in note]
    assert "`retry_step` is what was meant" in first
    assert "what was meant" not in second
    await incident.press(OverrideName.ABORT)
    await incident.result()
