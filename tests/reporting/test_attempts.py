"""The report has every act with each attempt, its error, and what it wrote outside (issue 8, "Record")."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from activities.written import note
from contract.incident import IncidentReport
from contract.names import ActivityName, ErrorType, Outcome, OverrideName, Phase
from contract.trail import WRITES_MAX, ActRecord, System
from tests.runbook.world import Play, World, fails

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]


def wrote(thing: str, answer: Any = None) -> Callable[[Any], Any]:
    """An act that patches a Node, and then answers or fails."""

    def script(argument: Any) -> Any:
        note(System.KUBERNETES, "patch", thing, 200, version="17", request_id="audit-1")
        return answer(argument) if answer else World.usual(argument)

    return script


def of(report: IncidentReport, act: ActivityName) -> ActRecord:
    (record,) = [record for record in report.acts if record.act == act]
    return record


async def test_an_attempt_that_failed_and_what_it_wrote_are_told_by_the_one_that_succeeded(
    play: Play, world: World
) -> None:
    world.on(
        ActivityName.DRAIN_NODE,
        wrote("first", fails(ErrorType.UNREACHABLE, "No route to the API server.")),
        wrote("second"),
    )
    report = await (await play.start()).result()

    drain = of(report, ActivityName.DRAIN_NODE)
    assert drain.trail.attempts == 2
    assert [(one.number, one.error) for one in drain.trail.failed] == [(1, "No route to the API server.")]
    assert [(one.object, one.version, one.request_id) for one in drain.trail.writes] == [
        ("first", "17", "audit-1"),
        ("second", "17", "audit-1"),
    ]
    assert report.facts["drained"]


async def test_an_act_that_failed_for_good_tells_what_it_had_written(play: Play, world: World) -> None:
    world.on(ActivityName.QUARANTINE_NODE, wrote("node-1", fails(ErrorType.HUMAN_VETO, "Not this one.")))
    report = await (await play.start()).result()

    assert report.outcome is Outcome.VETOED
    quarantine = of(report, ActivityName.QUARANTINE_NODE)
    assert quarantine.error == "Not this one."
    assert [one.object for one in quarantine.trail.writes] == ["node-1"]


async def test_what_an_interrupted_act_wrote_is_told_by_the_next_one(play: Play, world: World) -> None:
    started = asyncio.Event()

    async def waits_forever(_argument: Any) -> None:
        note(System.KUBERNETES, "create", "eviction-of-a-pod", 201)
        started.set()
        await asyncio.Event().wait()

    world.on(ActivityName.DRAIN_NODE, waits_forever)
    incident = await play.start()
    await started.wait()
    await incident.press(OverrideName.HOLD)
    await incident.press(OverrideName.RESUME)
    report = await incident.result()
    assert "eviction-of-a-pod" in [write.object for act in report.acts for write in act.trail.writes]


async def test_what_an_act_does_to_a_thousand_objects_does_not_fill_the_report(play: Play, world: World) -> None:
    def many(argument: Any) -> Any:
        for number in range(1000):
            note(System.KUBERNETES, "create", f"/api/v1/namespaces/default/pods/{number}/eviction", 201)
        return World.usual(argument)

    world.on(ActivityName.DRAIN_NODE, many)
    report = await (await play.start()).result()
    drain = of(report, ActivityName.DRAIN_NODE)
    assert (len(drain.trail.writes), drain.trail.writes_total) == (WRITES_MAX, 1000)


async def test_the_memo_does_not_carry_what_was_written(play: Play, world: World) -> None:
    world.on(ActivityName.DRAIN_NODE, wrote("node-1"))
    incident = await play.start()
    assert (await incident.result()).acts
    memo = await (await incident.handle.describe()).memo_value("incident", type_hint=IncidentReport)
    assert memo.phase is Phase.CLOSED
    assert not memo.acts
