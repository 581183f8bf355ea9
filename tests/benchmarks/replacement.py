"""What replacing costs beyond AWS's and the boot's own time: seconds, calls to AWS, and never a second machine.

The incidents run with a real worker while replies get lost, calls are throttled and launches fail; a part of them
while the worker is killed again and again.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from contract.incident import IncidentReport
from contract.names import Outcome, Step
from deploy.local.fleet import FleetKnobs
from deploy.local.scene import NodeGroup, create_node_group
from deploy.local.stack import Stack
from tests.benchmarks.figures import Figure, at_most, percentile
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy

ALONE = 5
TOGETHER = 100
ROUNDS = 5
A_ROUND = 20
"""Incidents of a round with faults injected."""
BOOT_S, DEVICES_S, END_S, SOAK_S = 0.5, 0.5, 0.1, 0.5
_RULES: dict[str, Any] = {
    **QUICK_POLICY,
    "max_concurrent": 200,
    "deadlines": {**QUICK_POLICY["deadlines"], "replacement": "PT300S", "verification": "PT300S"},
}


def measure(stack: Stack, folder: Path) -> Iterator[Figure]:
    """One at a time, many at once, and many with everything going wrong that passes."""
    stack.fleet.knobs = FleetKnobs(
        boot_delay_s=BOOT_S, device_delay_s=DEVICES_S, terminate_delay_s=END_S, node_removal_delay_s=0.5
    )
    alone = create_node_group(stack, "bench-alone", ALONE + 1)
    with _worker(stack, folder / "alone", alone):
        before = _calls(stack)
        overheads = [_overhead(_play(stack, [node])[0]) for node in alone.nodes[:ALONE]]
        calls = (_calls(stack) - before) / ALONE
    note = (
        f"{ALONE} incidents, one at a time; from the mark to the proof, less {END_S + BOOT_S + DEVICES_S + SOAK_S:g} s"
    )
    yield at_most("replacement_overhead_s", percentile(overheads, 0.5), "s", 5.0, note)
    yield at_most("aws_calls_per_incident", calls, "calls", 40.0, f"{ALONE} incidents, one at a time")

    many = create_node_group(stack, "bench-together", TOGETHER + 1)
    with _worker(stack, folder / "together", many):
        before = _calls(stack)
        reports = _play(stack, list(many.nodes[:TOGETHER]))
        calls = _calls(stack) - before
    failed = sum(report.outcome is not Outcome.REPLACED for report in reports)
    yield at_most("aws_calls_per_100_at_once", calls * 100 / TOGETHER, "calls", 1500.0, f"{TOGETHER} at once")
    yield at_most("incidents_failed_of_100_at_once", failed, "incidents", 0.0, f"{TOGETHER} at once")
    yield from _under_faults(stack, folder)


def _under_faults(stack: Stack, folder: Path) -> Iterator[Figure]:
    twice, failed = 0, 0
    for number in range(ROUNDS):
        group = create_node_group(stack, f"bench-faults-{number}", A_ROUND + 1)
        victims = set(group.instance_ids[:A_ROUND])
        launched, ended = len(stack.fleet.launched), len(stack.fleet.terminated)
        stack.fleet.knobs.fail_launches = 3
        stack.aws.note(
            throttle={"DescribeAutoScalingGroups": 5, "DescribeAutoScalingInstances": 5, "SetInstanceHealth": 5},
            lose_reply={"SetInstanceHealth": 5, "DescribeInstances": 2},
        )
        reports = _play_while_workers_die(stack, folder / f"faults-{number}", group)
        failed += sum(report.outcome is not Outcome.REPLACED for report in reports)
        new, gone = stack.fleet.launched[launched:], stack.fleet.terminated[ended:]
        twice += len(new) - len(victims) + len(set(gone) - victims)
        stack.fleet.remove_group(group.name)
    note = f"{ROUNDS * A_ROUND} incidents: lost replies, throttled calls, failed launches, killed workers"
    yield at_most("double_replacements", twice, "machines", 0.0, note)
    yield at_most("incidents_failed_under_faults", failed, "incidents", 0.0, note)


def _play(stack: Stack, nodes: list[str]) -> list[IncidentReport]:
    faults = [report_about(stack, node) for node in nodes]

    async def run() -> list[IncidentReport]:
        client = await connect(stack)
        handles = [await send(client, fault) for fault in faults]
        return list(await asyncio.gather(*(handle.result() for handle in handles)))

    return asyncio.run(run())


def _play_while_workers_die(stack: Stack, folder: Path, group: NodeGroup) -> list[IncidentReport]:
    """A worker is killed every few seconds, and another takes over."""
    faults = [report_about(stack, node) for node in group.nodes[:A_ROUND]]

    async def run() -> list[IncidentReport]:
        client = await connect(stack)
        handles = [await send(client, fault) for fault in faults]
        results = asyncio.gather(*(handle.result() for handle in handles))
        for life in range(3):
            with _worker(stack, folder / str(life), group) as worker:
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(results), 8.0 if life < 2 else 400.0)
                worker.process.kill()
        return list(await results)

    return asyncio.run(run())


def _worker(stack: Stack, folder: Path, group: NodeGroup) -> Any:
    folder.mkdir(parents=True)
    return running_worker(stack, write_policy(folder / "policy.yaml", **{group.name: _RULES}), folder)


def _overhead(report: IncidentReport) -> float:
    assert report.outcome is Outcome.REPLACED, report.summary
    steps = {step.step: step for step in report.steps}
    ended = steps[Step.VERIFY].ended_at
    assert ended
    took = (ended - steps[Step.REPLACE].started_at).total_seconds()
    return took - (END_S + BOOT_S + DEVICES_S + SOAK_S)


def _calls(stack: Stack) -> int:
    """Of the worker alone: the local cloud's own are not counted."""
    return int(sum(stack.aws.note()["calls"].values()))
