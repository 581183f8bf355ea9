"""What people wait for, and what an incident leaves in Temporal: sizes, override to effect, `status` of a thousand.

The acts are scripted (``tests.runbook.world``): what is measured is Temporal, the workflow and the command line.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from contract.gates import Gate
from contract.model import MESSAGE_MAX
from contract.names import INCIDENT_MEMO, ActivityName, ErrorType, OverrideName, Phase, Step
from deploy.local.stack import Stack
from tests.benchmarks.figures import Figure, at_most, percentile
from tests.runbook.conftest import KEYS
from tests.runbook.world import Incident, Play, Stuck, World, fails, fast, finding, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker

INCIDENTS = 1000
_PRESSES = 100
_AT_ONCE = 50
_QUEUE = "operators"
_BIN = Path(sys.executable).parent


def measure(_stack: Stack, _folder: Path) -> Iterator[Figure]:
    """On a Temporal server of its own, with one worker as in production."""
    # A thousand acts that fail as told would be a thousand tracebacks.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    logging.getLogger("worker").setLevel(logging.CRITICAL)
    yield from asyncio.run(_measure())


async def _measure() -> list[Figure]:
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        search_attributes=KEYS,
        dev_server_existing_path=str(_BIN / "temporal"),
        dev_server_log_level="error",
    ) as environment:
        client = environment.client
        with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
            async with make_worker(client, scripted_acts(), executor, _QUEUE):
                sizes = [*await _sizes(client, stormy=False), *await _sizes(client, stormy=True)]
                return [*sizes, await _effect(client), await _status(client)]


async def _sizes(client: Client, *, stormy: bool) -> list[Figure]:
    """An incident without a hitch; and one in which everything fails once, with much found, pressed and approved."""
    world, name = World(), "stormy" if stormy else "quiet"
    if stormy:
        world.policy = fast(gates=(Gate(before=Step.DISRUPT, approvals=2), Gate(before=Step.REPLACE)))
        for act in (ActivityName.PRESERVE_EVIDENCE, ActivityName.DRAIN_NODE, ActivityName.VERIFY_REPLACEMENT):
            world.on(act, *[fails(ErrorType.ACCESS_DENIED, "words " * 100)] * 3)
    incident = await Play(client, _QUEUE, world).start(*(_findings() if stormy else ()))
    details = [await _details(incident)]
    if stormy:
        await _get_through(incident, details)
    await incident.result()
    details.append(await _details(incident))
    history = await incident.handle.fetch_history()
    memo = (await incident.handle.describe()).raw_description.workflow_execution_info.memo.fields[INCIDENT_MEMO]
    size = sum(event.ByteSize() for event in history.events)
    return [
        at_most(f"details_{name}_bytes", max(details), "bytes", 4096),
        at_most(f"memo_{name}_bytes", len(memo.data), "bytes", 32 * 1024),
        at_most(f"history_{name}_events", len(history.events), "events", 500 if stormy else 120),
        at_most(f"history_{name}_kib", size / 1024, "KiB", 2048 if stormy else 512),
    ]


def _findings() -> list[object]:
    return [finding(seq=number, signature=f"storm/{number}", message="x" * MESSAGE_MAX) for number in range(20)]


async def _get_through(incident: Incident, details: list[int]) -> None:
    """Approve and try again, as often as it is asked for."""
    for number in range(200):
        report = await incident.until(lambda now: now.phase is Phase.NEEDS_HUMAN or now.outcome is not None)
        details.append(await _details(incident))
        if report.outcome:
            return
        gates = report.gates
        waits = bool(gates) and gates[-1].passed_at is None
        await incident.press(
            OverrideName.APPROVE if waits else OverrideName.RESUME, by=f"person-{number}", reason="words " * 50
        )
        await incident.until(
            lambda now, before=report: now.outcome is not None or now.overrides != before.overrides  # type: ignore[misc]
        )


async def _details(incident: Incident) -> int:
    """Of what the page of the Temporal UI shows now."""
    metadata = await incident.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return len(metadata.current_details.encode())


async def _effect(client: Client) -> Figure:
    """From pressing `hold` until the act that runs has stopped."""
    world, times = World(), []
    stuck = Stuck()
    world.scripts[ActivityName.DRAIN_NODE] = stuck
    incident = await Play(client, _QUEUE, world).start()
    for number in range(_PRESSES):
        await stuck.started.wait()
        stopped, began = stuck.cancelled, time.perf_counter()
        await incident.press(OverrideName.HOLD, id=f"hold-{number}")
        while stuck.cancelled == stopped:
            await asyncio.sleep(0.01)
        times.append(time.perf_counter() - began)
        await incident.press(OverrideName.RESUME, id=f"resume-{number}")
    await stuck.started.wait()
    stuck.let_go.set()
    await incident.result()
    note = f"p50 {percentile(times, 0.5):.2f} s; an act hears of it with its next heartbeat, every 2 s"
    return at_most("override_to_effect_p99_s", percentile(times, 0.99), "s", 5, note)


async def _status(client: Client) -> Figure:
    """`nodemend status`, from its start to its end, while a thousand incidents need a human."""
    world = World(policy=fast())
    world.scripts[ActivityName.IDENTIFY_NODE] = fails(ErrorType.ACCESS_DENIED)
    play, room = Play(client, _QUEUE, world), asyncio.Semaphore(_AT_ONCE)

    async def open_one() -> None:
        async with room:
            await (await play.start()).until_phase(Phase.NEEDS_HUMAN)

    await asyncio.gather(*(open_one() for _ in range(INCIDENTS)))
    environment = {
        **os.environ,
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "NODEMEND_CLUSTER": "test",
    }
    times = []
    for _ in range(5):
        began = time.perf_counter()
        await asyncio.to_thread(
            subprocess.run, [_BIN / "nodemend", "status"], env=environment, check=True, capture_output=True
        )
        times.append(time.perf_counter() - began)
    return at_most(f"status_{INCIDENTS}_open_s", sorted(times)[len(times) // 2], "s", 2, "median of 5, with its start")
