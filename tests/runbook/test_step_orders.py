"""`retry_step`, `skip_step` and `extend_deadline`, at each step that they are about, on a real Temporal server."""

from datetime import timedelta

import pytest

from contract import acts, gang
from contract.names import ActivityName, ErrorType, Outcome, OverrideName, Phase, Step
from contract.policy import Deadlines
from tests.runbook.test_overrides import refusal
from tests.runbook.world import Play, Stuck, World, fails, fast
from workflows.override_table import EXTENDABLE, SKIPPABLE, STEP_ORDERS

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]

ACT_OF = {
    Step.IDENTIFY: ActivityName.IDENTIFY_NODE,
    Step.QUARANTINE: ActivityName.QUARANTINE_NODE,
    Step.PRESERVE: ActivityName.PRESERVE_EVIDENCE,
    Step.DISRUPT: ActivityName.FIND_JOBS,
    Step.CHECKPOINT: ActivityName.REQUEST_CHECKPOINTS,
    Step.DRAIN: ActivityName.DRAIN_NODE,
    Step.AWAIT_REPLACEMENT: ActivityName.AWAIT_REPLACEMENT,
    Step.VERIFY: ActivityName.VERIFY_REPLACEMENT,
    Step.CLOSE: ActivityName.CLOSE_INCIDENT,
}
SKIPPED = [step for step in ACT_OF if step in SKIPPABLE]
EXTENDED = [step for step in ACT_OF if step in EXTENDABLE]
HOUR = {"extension": "PT1H"}


def ends_as(step: Step) -> Outcome:
    return Outcome.REPLACED_UNVERIFIED if step is Step.VERIFY else Outcome.REPLACED


@pytest.mark.parametrize("step", ACT_OF)
async def test_retry_cancels_the_act_and_starts_it_anew(play: Play, world: World, step: Step) -> None:
    stuck = Stuck()
    world.on(ACT_OF[step], stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(OverrideName.RETRY_STEP)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert stuck.cancelled == 1
    assert world.names().count(ACT_OF[step]) == 2


@pytest.mark.parametrize("step", SKIPPED)
@pytest.mark.parametrize("parked", [False, True], ids=["running", "parked"])
async def test_skip_goes_on_without_the_step_and_the_record_says_who_and_why(
    play: Play, world: World, step: Step, parked: bool
) -> None:
    stuck = Stuck()
    world.on(ACT_OF[step], fails(ErrorType.ACCESS_DENIED) if parked else stuck)
    incident = await play.start()
    if parked:
        await incident.until_phase(Phase.NEEDS_HUMAN)
    else:
        await stuck.started.wait()
    await incident.press(OverrideName.SKIP_STEP, by="grace", reason="not tonight")
    report = await incident.result()
    record = next(item for item in report.steps if item.step is step)
    assert report.outcome is ends_as(step)
    assert record.status == "skipped"
    assert "Skipped by grace: not tonight" in record.summary
    assert world.names().count(ACT_OF[step]) == 1
    assert world.names().count("mark_instance_unhealthy") == 1


async def test_skip_of_settle_ends_the_quiet_time(play: Play, world: World) -> None:
    world.policy = fast(deadlines=Deadlines(settle=timedelta(hours=1)))
    incident = await play.start()
    await incident.until(lambda report: any(step.step is Step.SETTLE for step in report.steps))
    await incident.press(OverrideName.SKIP_STEP)
    assert (await incident.result()).outcome is Outcome.REPLACED


@pytest.mark.parametrize("step", [step for step in ACT_OF if step not in SKIPPABLE])
async def test_what_makes_the_rest_safe_is_never_skipped(play: Play, world: World, step: Step) -> None:
    stuck = Stuck()
    world.on(ACT_OF[step], stuck)
    incident = await play.start()
    await stuck.started.wait()
    assert f"{step} is never skipped" in await refusal(incident.press(OverrideName.SKIP_STEP))
    assert stuck.cancelled == 0
    await incident.press(OverrideName.RETRY_STEP)
    assert (await incident.result()).outcome is Outcome.REPLACED


@pytest.mark.parametrize("step", EXTENDED)
@pytest.mark.parametrize("parked", [False, True], ids=["running", "parked"])
async def test_extension_starts_the_act_anew_with_more_time(play: Play, world: World, step: Step, parked: bool) -> None:
    """Running: what was left and an hour. Parked: an hour, for nothing was left."""
    stuck = Stuck()
    world.on(ACT_OF[step], fails(ErrorType.ACCESS_DENIED) if parked else stuck)
    incident = await play.start()
    if parked:
        await incident.until_phase(Phase.NEEDS_HUMAN)
    else:
        await stuck.started.wait()
    await incident.press(OverrideName.EXTEND_DEADLINE, **HOUR)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    first, second = world.arguments(ACT_OF[step])
    if not isinstance(first, acts.PreserveEvidence):
        left = timedelta(0) if parked else first.deadline
        assert left + timedelta(minutes=59) < second.deadline <= left + timedelta(hours=1)


@pytest.mark.parametrize("name", sorted(STEP_ORDERS))
async def test_the_irreversible_act_is_neither_cancelled_nor_made_twice(
    play: Play, world: World, name: OverrideName
) -> None:
    stuck = Stuck()
    world.on(ActivityName.MARK_INSTANCE_UNHEALTHY, stuck)
    incident = await play.start()
    await stuck.started.wait()
    more = HOUR if name is OverrideName.EXTEND_DEADLINE else {}
    await refusal(incident.press(name, **more))
    stuck.let_go.set()
    assert (await incident.result()).outcome is Outcome.REPLACED
    assert stuck.cancelled == 0
    assert world.names().count("mark_instance_unhealthy") == 1


async def test_an_extension_sent_as_signal_and_as_update_counts_once(play: Play, world: World) -> None:
    stuck = Stuck()
    world.on(ActivityName.DRAIN_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    act = {"by": "ada", "reason": "a long save", "id": "act-1", **HOUR}
    await incident.handle.signal(OverrideName.EXTEND_DEADLINE, act)
    await incident.handle.execute_update(OverrideName.EXTEND_DEADLINE, act)
    report = await incident.result()
    first, second = world.arguments(ActivityName.DRAIN_NODE)
    assert second.deadline <= first.deadline + timedelta(hours=1)
    assert len(report.overrides) == 1


@pytest.mark.parametrize("payload", [{}, {"extension": "PT25H"}, {"extension": "-PT1H"}, {"extension": "soon"}])
async def test_an_extension_that_makes_no_sense_is_refused_with_an_example(
    play: Play, world: World, payload: dict[str, str]
) -> None:
    stuck = Stuck()
    world.on(ActivityName.DRAIN_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    assert '"extension": "PT30M"' in await refusal(incident.press(OverrideName.EXTEND_DEADLINE, **payload))
    assert stuck.cancelled == 0
    stuck.let_go.set()
    await incident.result()


async def test_a_gang_that_is_not_waited_for_is_not_waited_for_again(play: Play, world: World) -> None:
    """Its nodes are asked as one: retrying is the gang's, leaving it is the incident's."""
    job = gang.JobOnNode(job="default/Job/train", uid="u", nodes=2, declared=True)
    world.on(ActivityName.FIND_JOBS, *[lambda _: gang.JobsOnNode(jobs=(job,), jobs_total=1)] * 9)
    stuck = Stuck()
    world.on(ActivityName.AWAIT_GANG, stuck)
    incident = await play.start()
    await stuck.started.wait()
    assert "DisruptGang" in await refusal(incident.press(OverrideName.RETRY_STEP))
    await incident.press(OverrideName.SKIP_STEP)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert world.names().count("await_gang") == 1


async def test_held_step_is_skipped_when_it_goes_on(play: Play, world: World) -> None:
    stuck = Stuck()
    world.on(ActivityName.DRAIN_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(OverrideName.HOLD)
    await incident.until(lambda report: "Held by" in report.summary)
    await incident.press(OverrideName.SKIP_STEP)
    assert (await incident.now()).outcome is None
    await incident.press(OverrideName.RESUME)
    assert (await incident.result()).outcome is Outcome.REPLACED
    assert world.names().count("drain_node") == 1
