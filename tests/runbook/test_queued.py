"""An incident that has to wait for its quarantine: what it was told is not asked again, and every change is."""

from typing import Any

import pytest

from contract.names import ActivityName, Outcome, OverrideName
from contract.permit import AskPermit, PermitAnswer
from tests.runbook.world import Play, Stuck, World

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]

NO = PermitAnswer(token="t", granted=False, reason="4 of 4 are in use")


def heard_no(world: World) -> None:
    """The budget says no to what ``identify`` asks."""

    def script(argument: Any) -> Any:
        return world.answer(ActivityName.IDENTIFY_NODE, argument).model_copy(update={"permit": NO})

    world.scripts[ActivityName.IDENTIFY_NODE] = script


def asks(world: World) -> list[AskPermit]:
    return world.arguments(ActivityName.ASK_PERMIT)


async def test_what_the_budget_said_with_identify_is_carried_into_the_wait(play: Play, world: World) -> None:
    heard_no(world)
    incident = await play.start()
    assert (await incident.result()).outcome is Outcome.REPLACED
    assert asks(world)[0].heard == NO


async def test_nudge_makes_it_ask_for_a_nudge_says_that_what_it_heard_is_out_of_date(play: Play, world: World) -> None:
    heard_no(world)
    waits = Stuck()
    world.on(ActivityName.ASK_PERMIT, waits)
    incident = await play.start()
    await waits.started.wait()
    await incident.handle.signal("permit_granted", {"token": "look again"})
    assert (await incident.result()).outcome is Outcome.REPLACED
    first, *_, last = [ask for ask in asks(world) if ask.request.kind == "quarantine"]
    assert (first.heard, last.heard) == (NO, None)


async def test_approval_is_put_to_the_budget_not_answered_with_what_it_said_before(play: Play, world: World) -> None:
    heard_no(world)
    waits = Stuck()
    world.on(ActivityName.ASK_PERMIT, waits)
    incident = await play.start()
    await waits.started.wait()
    await incident.press(OverrideName.APPROVE)
    assert (await incident.result()).outcome is Outcome.REPLACED
    asked = [ask for ask in asks(world) if ask.request.kind == "quarantine"][-1]
    assert asked.request.approval
    assert asked.heard is None
