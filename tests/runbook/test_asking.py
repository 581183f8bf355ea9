"""A human who does not come is asked again, where people look without a worker too."""

from datetime import timedelta

import pytest

from contract.incident import IncidentReport
from contract.names import INCIDENT_MEMO, ActivityName, ErrorType, Outcome, OverrideName
from contract.policy import Deadlines
from tests.runbook.world import Play, World, fails, fast

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]


async def test_wait_for_a_human_is_told_again_in_the_memo_until_somebody_comes(play: Play, world: World) -> None:
    deadlines = Deadlines(settle=timedelta(0), soak=timedelta(0), escalation=timedelta(milliseconds=300))
    world.policy = fast(deadlines=deadlines)
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    asked = await incident.until(lambda report: report.asked_again >= 2)
    assert asked.asked_at
    assert f"nodemend resume {incident.node} --reason why" in asked.summary
    memo = await (await incident.handle.describe()).memo_value(INCIDENT_MEMO, type_hint=IncidentReport)
    assert memo.asked_again >= 2
    await incident.press(OverrideName.RESUME)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert (report.asked_at, report.asked_again) == (None, 0)
