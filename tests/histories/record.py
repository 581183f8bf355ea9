"""Records histories to replay: ``python -m tests.histories.record NAME-OF-THIS-SET``.

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

from contract.fault import Verdict
from contract.names import ActivityName, ErrorType, OverrideName, Phase, Step
from contract.policy import Mode
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
    await incident.until(lambda report: "Held by a human" in report.summary)
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


SCENARIOS: tuple[Scenario, ...] = (
    replaced,
    shadowed,
    parked_approved_held_resumed,
    doubtful_released,
    vetoed,
    cancelled,
)


async def main(name: str) -> None:
    """Play every scenario and write its history."""
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        search_attributes=KEYS,
        dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
        dev_server_log_level="error",
    ) as environment:
        client: Client = environment.client
        with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
            async with make_worker(client, scripted_acts(), executor, "record", beat=timedelta(seconds=0.1)):
                for scenario in SCENARIOS:
                    world = World()
                    handle = await scenario(Play(client, "record", world), world)
                    history = await handle.fetch_history()
                    target = FOLDER / f"{name}-{scenario.__name__}.json.gz"
                    target.write_bytes(gzip.compress(history.to_json().encode(), mtime=0))
                    print(f"{target.name}: {len(history.events)} events")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
