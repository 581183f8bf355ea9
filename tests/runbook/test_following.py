"""After a decision in mode shadow the incident looks on what becomes of its node, for as long as the policy says."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from contract.aftermath import Fate, Seen
from contract.names import ActivityName, Outcome, OverrideName
from contract.policy import Mode
from tests.runbook.world import Play, World, fast, finding

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]

SHORT = timedelta(seconds=2.4)
LONG = timedelta(days=1)


def shadow(window: timedelta) -> Any:
    return fast(mode=Mode.SHADOW, follow_shadow=window)


def sees(fate: Fate, *, acts_now: bool = False) -> Callable[[Any], Any]:
    return lambda _argument: Seen(fate=fate, explanation="So it is.", acts_now=acts_now)


class Look:
    """A look at the node that waits until the test lets it see."""

    def __init__(self, fate: Fate, *, acts_now: bool = False) -> None:
        self.begun, self.may_see = asyncio.Event(), asyncio.Event()
        self._seen = Seen(fate=fate, explanation="So it is.", acts_now=acts_now)

    async def __call__(self, _argument: Any) -> Seen:
        self.begun.set()
        await self.may_see.wait()
        return self._seen


async def test_another_repairer_that_replaces_it_is_seen_at_once(play: Play, world: World) -> None:
    world.policy = shadow(SHORT)
    world.on(ActivityName.SEE_AFTERMATH, sees(Fate.CORDONED), sees(Fate.REPLACED))
    report = await (await play.start()).result()
    assert report.outcome is Outcome.SHADOWED
    assert report.aftermath is not None
    assert (report.aftermath.fate, report.facts["afterwards"]) == (Fate.REPLACED, "So it is.")
    assert len(world.arguments(ActivityName.SEE_AFTERMATH)) == 2
    # The record that is written has it.
    (written,) = world.arguments(ActivityName.WRITE_RECORD)
    assert written.report.aftermath == report.aftermath


async def test_a_node_that_goes_on_is_looked_at_until_the_window_is_over(play: Play, world: World) -> None:
    world.policy = shadow(SHORT)
    report = await (await play.start()).result()
    assert report.aftermath is not None
    assert report.aftermath.fate is Fate.RECOVERED
    assert report.aftermath.followed_until - report.opened_at >= SHORT
    # When it was first seen so, and not when the looking ended.
    assert report.aftermath.at < report.aftermath.followed_until


async def test_a_fault_that_shows_again_is_no_recovery(play: Play, world: World) -> None:
    world.policy = shadow(SHORT)
    second = Look(Fate.RECOVERED)
    world.on(ActivityName.SEE_AFTERMATH, sees(Fate.RECOVERED), second)
    incident = await play.start()
    await second.begun.wait()
    await incident.report(finding(count=5))
    second.may_see.set()
    report = await incident.result()
    assert report.aftermath is not None
    assert report.aftermath.fate is Fate.STILL_FAILING


async def test_where_the_policy_has_come_to_act_what_joined_is_acted_on(play: Play, world: World) -> None:
    """Loosening holds for new incidents; one that only looks on must not keep a new fault from being one."""
    world.policy = shadow(SHORT)
    look = Look(Fate.RECOVERED, acts_now=True)
    world.on(ActivityName.SEE_AFTERMATH, look)
    incident = await play.start()
    await look.begun.wait()
    world.policy = fast()
    await incident.report(finding(count=5))
    look.may_see.set()
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED


async def test_where_it_acts_now_and_nothing_joined_the_next_fault_is_an_incident_of_its_own(
    play: Play, world: World
) -> None:
    world.policy = shadow(SHORT)
    world.on(ActivityName.SEE_AFTERMATH, sees(Fate.RECOVERED, acts_now=True))
    report = await (await play.start()).result()
    assert report.outcome is Outcome.SHADOWED
    assert len(world.arguments(ActivityName.SEE_AFTERMATH)) == 1


async def test_a_human_can_end_the_looking(play: Play, world: World) -> None:
    world.policy = shadow(LONG)
    incident = await play.start()
    await incident.until(lambda report: any("Looking on" in step.summary for step in report.steps))
    await incident.press(OverrideName.ABORT)
    report = await incident.result()
    assert report.outcome is Outcome.ABORTED
    assert world.names() == ["identify_node", "write_record"]


@pytest.mark.parametrize(
    ("order", "more"), [(OverrideName.EXTEND_DEADLINE, {"extension": "PT20H"}), (OverrideName.RETRY_STEP, {})]
)
async def test_what_is_told_about_the_looking_is_obeyed_once(
    play: Play, world: World, order: OverrideName, more: dict[str, str]
) -> None:
    world.policy = shadow(LONG)
    incident = await play.start()
    before = await incident.until(lambda report: any("Looking on" in step.summary for step in report.steps))
    looked = Look(Fate.RECOVERED)
    world.on(ActivityName.SEE_AFTERMATH, looked)
    await incident.press(order, **more)
    await looked.begun.wait()
    looked.may_see.set()
    if more:
        # "until" is another time now.
        await incident.until(lambda report: report.steps[-1].summary != before.steps[-1].summary)
    await incident.press(OverrideName.ABORT)
    assert (await incident.result()).outcome is Outcome.ABORTED
    # One look at once, and then it waits again: an order that stays would have it look without end.
    assert len(world.arguments(ActivityName.SEE_AFTERMATH)) == 1


async def test_a_rehearsal_is_not_followed(play: Play, world: World) -> None:
    world.policy = fast(follow_shadow=LONG)
    report = await (await play.start(finding(drill=True, facility=1), drill=True)).result()
    assert (report.outcome, report.aftermath) == (Outcome.SHADOWED, None)
