"""Records histories to replay: ``python -m tests.histories.record NAME-OF-THIS-SET [SCENARIO...]``.

A set is recorded once, when the workflows' commands have changed on purpose behind a patch, and is never written
again: incidents that were started by those workers must still replay.
"""

import asyncio
import gzip
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from contract import gang
from contract.fault import EvidenceEnd, Verdict
from contract.gates import Gate
from contract.names import ActivityName, ErrorType, OverrideName, Phase, Step
from contract.policy import Deadlines, Mode
from contract.replacement import RebootMode, ReplacementPolicy
from tests.checkpointing.gang_play import GangPlay
from tests.runbook.conftest import KEYS
from tests.runbook.world import Play, Stuck, World, fails, fast, finding, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker

FOLDER = Path(__file__).parent
Scenario = Callable[[Play, World], Awaitable[WorkflowHandle[object, object]]]


async def replaced(play: Play, _world: World) -> WorkflowHandle[object, object]:
    incident = await play.start(finding(), finding(seq=101, signature="another"))
    await incident.result()
    return incident.handle


async def shadowed(play: Play, world: World) -> WorkflowHandle[object, object]:
    world.policy = fast(mode=Mode.SHADOW)
    incident = await play.start()
    await incident.result()
    return incident.handle


async def shadow_followed(play: Play, world: World) -> WorkflowHandle[object, object]:
    world.policy = fast(mode=Mode.SHADOW, follow_shadow=timedelta(seconds=2.4))
    incident = await play.start()
    await incident.result()
    return incident.handle


async def parked_approved_held_resumed(play: Play, world: World) -> WorkflowHandle[object, object]:
    world.policy = fast(approve_before=(Step.DISRUPT,))
    stuck = Stuck()
    world.on(ActivityName.REQUEST_CHECKPOINTS, stuck)
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.APPROVE)
    await stuck.started.wait()
    await incident.press(OverrideName.HOLD)
    await incident.until(lambda report: "Held by" in report.summary)
    await incident.press(OverrideName.RESUME)
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.RESUME, reason="mended")
    await incident.result()
    return incident.handle


async def doubtful_released(play: Play, _world: World) -> WorkflowHandle[object, object]:
    incident = await play.start(finding(verdict=Verdict.AMBIGUOUS))
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.RELEASE)
    await incident.result()
    return incident.handle


async def vetoed(play: Play, world: World) -> WorkflowHandle[object, object]:
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.HUMAN_VETO))
    incident = await play.start()
    await incident.result()
    return incident.handle


async def cancelled(play: Play, world: World) -> WorkflowHandle[object, object]:
    stuck = Stuck()
    world.on(ActivityName.DRAIN_NODE, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.handle.cancel()
    await incident.result()
    return incident.handle


async def rank_of_a_gang(play: Play, world: World) -> WorkflowHandle[object, object]:
    job = gang.JobOnNode(job="default/Job/train", uid="uid-1", declared=True, pods=1, nodes=4, ranks=4)
    world.scripts[ActivityName.FIND_JOBS] = lambda _: gang.JobsOnNode(jobs=(job,), jobs_total=1)
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.RESUME)
    await incident.result()
    return incident.handle


async def gang_of_two(play: Play, world: World) -> WorkflowHandle[object, object]:
    gang_play = GangPlay(play.client, play.task_queue, world)
    for node in ("a", "b"):
        await gang_play.join(node)
        await gang_play.until_released(node)
        await gang_play.leave(node, drained=True)
    for node in ("a", "b"):
        await gang_play.leave(node)
    await gang_play.handle.result()
    return gang_play.handle


async def gang_that_grows(play: Play, world: World) -> WorkflowHandle[object, object]:
    """A node joins while the gang is queued, and another once the first are drained."""
    stuck = Stuck()
    world.on(ActivityName.ASK_PERMIT, stuck)
    gang_play = GangPlay(play.client, play.task_queue, world)
    await gang_play.join("a")
    await stuck.started.wait()
    for node in ("b", "a"):
        await gang_play.until_released(node)
        await gang_play.leave(node, drained=True)
    await gang_play.join("c")
    await gang_play.until_released("c")
    for node in ("a", "b", "c"):
        await gang_play.leave(node)
    await gang_play.handle.result()
    return gang_play.handle


async def approved_by_two_as_the_plan_changes(play: Play, world: World) -> WorkflowHandle[object, object]:
    """A human who does not come is asked again; the first approval is void when a finding changes the plan."""
    deadlines = Deadlines(settle=timedelta(0), soak=timedelta(0), escalation=timedelta(milliseconds=300))
    rules = ReplacementPolicy(reboot=RebootMode.REPAIRABLE)
    gates = (Gate(before=Step.DISRUPT, approvals=2), Gate(before=Step.REPLACE))
    world.policy = fast(gates=gates, replacement=rules, deadlines=deadlines)
    mendable = finding(verdict=Verdict.REPAIRABLE, evidence_end=EvidenceEnd.BOOT, signature="mendable")
    incident = await play.start(mendable)
    asked = await incident.until(lambda report: report.asked_again >= 1)
    await incident.press(OverrideName.APPROVE)
    await incident.report(finding(seq=200))
    await incident.until(lambda report: report.gates[-1].plan != asked.gates[-1].plan)
    for by in ("ada", "grace"):
        await incident.press(OverrideName.APPROVE, by=by)
    await incident.until(lambda report: report.gates[-1].before is Step.REPLACE)
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.APPROVE)
    await incident.result()
    return incident.handle


SCENARIOS: tuple[Scenario, ...] = (
    replaced,
    shadowed,
    shadow_followed,
    parked_approved_held_resumed,
    doubtful_released,
    vetoed,
    cancelled,
    rank_of_a_gang,
    gang_of_two,
    gang_that_grows,
    approved_by_two_as_the_plan_changes,
)


async def main(name: str, *only: str) -> None:
    """Play every scenario, or those named, and write its history."""
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        search_attributes=KEYS,
        dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
        dev_server_log_level="error",
    ) as environment:
        client: Client = environment.client
        with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
            async with make_worker(client, scripted_acts(), executor, "record", beat=timedelta(seconds=0.1)):
                for scenario in [s for s in SCENARIOS if not only or s.__name__ in only]:
                    world = World()
                    handle = await scenario(Play(client, "record", world), world)
                    history = await handle.fetch_history()
                    target = FOLDER / f"{name}-{scenario.__name__}.json.gz"
                    target.write_bytes(gzip.compress(history.to_json().encode(), mtime=0))
                    print(f"{target.name}: {len(history.events)} events")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
