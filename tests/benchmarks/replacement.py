"""What replacing costs beyond AWS's and the boot's own time: seconds, calls to AWS, and never a second machine.

The incidents run with a real worker. In the second part replies get lost, calls are throttled, launches fail and the
worker is killed again and again. Nothing waits for ever: an incident that does not end in time is counted as failed,
its reason is told with the figure, and rounds are played until there are enough of them or the time is over. What is
missing then is played by the next run of the same commit, which adds to the figures of those before it.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from contract.incident import IncidentReport
from contract.names import INCIDENT_QUERY, Outcome, Step
from deploy.local.fleet import FleetKnobs
from deploy.local.scene import NodeGroup, create_node_group
from deploy.local.stack import Stack
from tests.benchmarks.figures import ROOT, Figure, at_most, percentile
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy

ALONE = 5
TOGETHER = 100
UNDER_FAULTS = 500
A_ROUND = 25
"""Incidents of a round with faults injected."""
LIVES_S = (4.0, 7.0, 10.0)
"""How long a worker of such a round works before it is killed; the last one finishes the round."""
BOOT_S, DEVICES_S, END_S, SOAK_S = 0.5, 0.5, 0.1, 0.5
_PATIENCE_S = 240.0
"""For the incidents of one batch, all together."""
_A_RUN_S = 280.0
"""For all the rounds of one run. None begins that would end later, if it took as long as the longest one so far."""
_PARTS = ROOT / "build" / "replacement-faults.json"
_RULES: dict[str, Any] = {
    **QUICK_POLICY,
    "max_concurrent": 200,
    "checkpoints": {"gather": "PT0S", "resume": "PT1S"},
    "deadlines": {**QUICK_POLICY["deadlines"], "replacement": "PT200S", "verification": "PT200S"},
}


@dataclass(frozen=True)
class Played:
    """What became of a batch of incidents."""

    reports: list[IncidentReport]
    """Of those that ended in time."""
    stuck: list[str]
    """What the others waited for."""

    @property
    def failed(self) -> list[str]:
        """Why incidents did not end with a proven replacement."""
        return self.stuck + [r.summary for r in self.reports if r.outcome is not Outcome.REPLACED]


def measure(stack: Stack, folder: Path) -> Iterator[Figure]:
    """One at a time, then many at once."""
    _quicken(stack)
    alone = create_node_group(stack, "bench-alone", ALONE + 1)
    with _worker(stack, folder / "alone", alone):
        before = _calls(stack)
        overheads = [_overhead(asyncio.run(_play(stack, [node])).reports[0]) for node in alone.nodes[:ALONE]]
        calls = (_calls(stack) - before) / ALONE
    note = (
        f"{ALONE} incidents, one at a time; from the mark to the proof, less {END_S + BOOT_S + DEVICES_S + SOAK_S:g} s"
    )
    yield at_most("replacement_overhead_s", percentile(overheads, 0.5), "s", 5.0, note)
    yield at_most("aws_calls_per_incident", calls, "calls", 40.0, f"{ALONE} incidents, one at a time")

    many = create_node_group(stack, "bench-together", TOGETHER + 1)
    stack.aws.note(throttle=dict.fromkeys(("DescribeAutoScalingGroups", "DescribeInstances", "SetInstanceHealth"), 10))
    with _worker(stack, folder / "together", many):
        before = _calls(stack)
        played = asyncio.run(_play(stack, list(many.nodes[:TOGETHER])))
        calls = _calls(stack) - before
    note = f"{TOGETHER} at once in one group, 30 calls throttled"
    yield at_most("aws_calls_per_100_at_once", calls * 100 / TOGETHER, "calls", 1500.0, note)
    yield at_most(
        "incidents_failed_of_100_at_once", len(played.failed), "incidents", 0.0, _because(note, played.failed)
    )


def measure_under_faults(stack: Stack, folder: Path) -> Iterator[Figure]:
    """Everything goes wrong that passes by itself, round after round."""
    _quicken(stack)
    began, longest = time.monotonic(), 0.0
    parts = _parts()
    while len(parts) * A_ROUND < UNDER_FAULTS and (spent := time.monotonic() - began) + longest < _A_RUN_S:
        parts.append(_play_round(stack, folder, len(parts), _A_RUN_S - spent))
        longest = max(longest, time.monotonic() - began - spent)
        _PARTS.parent.mkdir(exist_ok=True)
        _PARTS.write_text(json.dumps({"commit": _commit(), "parts": parts}))
    failed = [why for part in parts for why in part["failed"]]
    note = f"{len(parts) * A_ROUND} incidents: lost replies, throttled calls, failed launches, killed workers"
    yield at_most("double_replacements", sum(part["twice"] for part in parts), "machines", 0.0, note)
    yield at_most("incidents_failed_under_faults", len(failed), "incidents", 0.0, _because(note, failed))


def _play_round(stack: Stack, folder: Path, number: int, ends_in_s: float) -> dict[str, Any]:
    ends_at = time.monotonic() + ends_in_s
    group = create_node_group(stack, f"bench-faults-{number}", A_ROUND + 1)
    victims = set(group.instance_ids[:A_ROUND])
    launched, ended = len(stack.fleet.launched), len(stack.fleet.terminated)
    stack.fleet.knobs.fail_launches = 3
    stack.aws.note(
        throttle={"DescribeAutoScalingGroups": 5, "DescribeAutoScalingInstances": 5, "SetInstanceHealth": 5},
        lose_reply={"SetInstanceHealth": 5, "DescribeInstances": 2},
    )
    played = asyncio.run(_play_while_workers_die(stack, folder / f"faults-{number}", group, ends_at))
    new, gone = stack.fleet.launched[launched:], set(stack.fleet.terminated[ended:])
    stack.fleet.remove_group(group.name)
    # More launches than machines of ours that ended, and machines that ended and were none of ours.
    twice = max(0, len(new) - len(gone & victims)) + len(gone - victims)
    return {"twice": twice, "failed": played.failed}


def _parts() -> list[dict[str, Any]]:
    """The rounds that earlier runs of this commit played; all of them anew once there were enough."""
    kept = json.loads(_PARTS.read_text()) if _PARTS.exists() else {}
    parts: list[dict[str, Any]] = kept["parts"] if kept.get("commit") == _commit() else []
    return parts if len(parts) * A_ROUND < UNDER_FAULTS else []


def _commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def _quicken(stack: Stack) -> None:
    stack.fleet.knobs = FleetKnobs(
        boot_delay_s=BOOT_S, device_delay_s=DEVICES_S, terminate_delay_s=END_S, node_removal_delay_s=0.5
    )


def _because(note: str, failed: list[str]) -> str:
    return f"{note}. The first that failed: {failed[0]}" if failed else note


async def _play(stack: Stack, nodes: list[str]) -> Played:
    """While the worker of the caller lives."""
    handles = await _begin(stack, nodes)
    waiting = [asyncio.ensure_future(handle.result()) for handle in handles]
    await asyncio.wait(waiting, timeout=_PATIENCE_S)
    return await _over(handles, waiting)


async def _play_while_workers_die(stack: Stack, folder: Path, group: NodeGroup, ends_at: float) -> Played:
    """A worker is killed every few seconds, and another takes over."""
    handles = await _begin(stack, list(group.nodes[:A_ROUND]))
    waiting = [asyncio.ensure_future(handle.result()) for handle in handles]
    for life, lives_s in enumerate(LIVES_S):
        with _worker(stack, folder / str(life), group) as worker:
            while "Working on task queue" not in worker.text() and time.monotonic() < ends_at:
                await asyncio.sleep(0.1)
            await asyncio.wait(waiting, timeout=lives_s)
            worker.process.kill()
    with _worker(stack, folder / "last", group):
        await asyncio.wait(waiting, timeout=max(0.0, ends_at - time.monotonic()))
        # While somebody is there to answer for those that are stuck.
        return await _over(handles, waiting)


async def _begin(stack: Stack, nodes: list[str]) -> list[WorkflowHandle[Any, IncidentReport]]:
    client = await connect(stack)
    faults = [await asyncio.to_thread(report_about, stack, node) for node in nodes]
    return [await send(client, fault) for fault in faults]


async def _over(
    handles: list[WorkflowHandle[Any, IncidentReport]], waiting: list["asyncio.Future[IncidentReport]"]
) -> Played:
    """Those that ended, and why the others did not; they are ended here, so that the next batch is alone."""
    reports, stuck = [], []
    for handle, result in zip(handles, waiting, strict=True):
        why = "" if result.done() else await _why_stuck(handle)
        with suppress(RPCError):
            # It may have come to its end since.
            await handle.terminate("the benchmark is over")
        try:
            reports.append(await result)
        except WorkflowFailureError:
            stuck.append(why)
    return Played(reports, stuck)


async def _why_stuck(handle: WorkflowHandle[Any, IncidentReport]) -> str:
    try:
        report = await handle.query(INCIDENT_QUERY, result_type=IncidentReport)
    except RPCError as error:
        return f"nobody answers for it ({error.message})"
    return report.summary


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
