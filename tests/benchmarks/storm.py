"""A storm: a thousand nodes report within ten seconds, on the whole embedded stack, with two workers.

A node is decided when it is quarantined (a real write to its Node), or queued with a reason. The quarantine limit is
nine of ten of each group, so both happen. Bounded: a storm that does not end in time is told as it stood then.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client
from temporalio.client import Client
from temporalio.service import RPCError

from contract.fault import FaultReport
from contract.names import BUDGET_QUERY, budget_id
from contract.permit import BudgetState, PermitKind
from contract.proof import annotation_of, digest
from deploy.local.fleet import FleetKnobs
from deploy.local.scene import NodeGroup, create_node_group, nodes
from deploy.local.stack import CLUSTER, Stack, running_stack
from deploy.local.waiting import wait_for
from tests.benchmarks.figures import Figure, at_most, told
from tests.benchmarks.floor import floor_s
from tests.benchmarks.load import closed_nodes, cpu_s
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy

GROUPS: Final = 10
SHARE: Final = 0.9
WITHIN_S: Final = 10.0
SIZES: Final = (100, 300, 1000)
_KUBELET_LEASE_S: Final = 400
"""Of the kubelets that are played here. With the usual 40 s a thousand of them keep two thirds of a core busy, which in
earnest is not a core of Nodemend's."""
_START_S: Final = 60.0
"""For the workers to start."""
_DECIDING_S: Final = 150.0
"""What is not decided then is told as undecided."""
_LOOK_S: Final = 0.5
_ASKED_EVERY: Final = 10
"""Looks, while quarantines are still awaited: the budget's answer has every permit."""
_WORKS: Final = "Working on task queue"
"""What a worker logs once it takes work."""


@dataclass(frozen=True)
class Outcome:
    """One storm."""

    size: int
    decided: int
    decided_s: float
    """Until all were, or until patience ended."""
    quarantined: int
    over_limit: int
    events: int
    """The most that a run of FleetBudget had."""
    history_kib: float
    """The largest history of its runs."""
    cpu_ms: Mapping[str, float]
    """CPU time for each decided node, by program. The machine's other load changes it little, unlike the time."""

    @property
    def per_second(self) -> float:
        """Nodes decided a second."""
        return self.decided / self.decided_s


def measure(_stack: None, folder: Path) -> Iterator[Figure]:
    """Small storms, then the large one, each in a cluster of its own: what one leaves behind is no load of another."""
    storms = [_storm_of(size, folder / str(size)) for size in SIZES]
    small, large = storms[0], storms[-1]
    note = (
        f"{large.quarantined} quarantined with a Node write each, the others queued with a reason; two workers; "
        f"kubelets renew their Leases every {_KUBELET_LEASE_S / 4:.0f} s"
    )
    if large.decided < large.size:
        note = f"**{large.decided} of {large.size} decided by then**; " + note
    yield at_most("storm_1000_nodes_decided_s", large.decided_s, "s", 30, note, held=large.decided == large.size)
    floor, floor_ms = _floor_of(large.size, folder / "floor")
    yield told(
        "storm_1000_nodes_floor_s",
        floor,
        "s",
        f"the same nodes closed by workflows that do nothing else, on the same stack: {floor_ms:.0f} ms of CPU a node",
    )
    over_floor = sum(large.cpu_ms.values()) / floor_ms
    yield told("storm_over_floor", over_floor, "times", "CPU time of a node, a storm against that floor")
    yield told("storm_1000_nodes_per_s", large.per_second, "nodes/s", f"{large.decided} of {large.size} decided")
    used = ", ".join(f"{name} {spent:.0f}" for name, spent in sorted(large.cpu_ms.items(), key=lambda item: -item[1]))
    yield told("storm_cpu_ms_per_node", sum(large.cpu_ms.values()), "ms", used)
    over = sum(one.over_limit for one in storms)
    yield at_most("storm_permits_over_limit", over, "permits", 0)
    # By the CPU time of a node: the time until all are decided has ten seconds of reporting in it.
    growth = sum(large.cpu_ms.values()) / sum(small.cpu_ms.values())
    each = "; ".join(f"{one.size}: {one.decided_s:.1f} s, {sum(one.cpu_ms.values()):.0f} ms a node" for one in storms)
    yield at_most("storm_growth_100_to_1000", growth, "times", 1.5, f"CPU time of a node, 1,000 against 100. {each}")
    yield at_most("storm_budget_history_events", large.events, "events", 2500, "FleetBudget, continued as new at 2,000")
    yield told("storm_budget_history_kib", large.history_kib, "KiB", "continued as new at 4 MiB at the latest")


def _storm_of(size: int, folder: Path) -> Outcome:
    with _empty_stack(folder) as stack:
        return storm(stack, folder / "storm", size)


def _floor_of(size: int, folder: Path) -> tuple[float, float]:
    with _empty_stack(folder) as stack:
        groups = _groups(stack, size)
        return floor_s(stack, _reports(stack, [node for group in groups for node in group.nodes]), WITHIN_S)


@contextmanager
def _empty_stack(folder: Path) -> Iterator[Stack]:
    with running_stack(folder / "stack", kubelet_lease_s=_KUBELET_LEASE_S) as stack:
        stack.fleet.knobs = FleetKnobs(boot_delay_s=0.5, device_delay_s=0.5)
        yield stack


def _groups(stack: Stack, size: int) -> list[NodeGroup]:
    return [create_node_group(stack, f"storm-{size}-{number}", size // GROUPS) for number in range(GROUPS)]


def storm(stack: Stack, folder: Path, size: int) -> Outcome:
    """Make the nodes, let them all report, and wait until each is decided."""
    folder.mkdir()
    groups = _groups(stack, size)
    # Everything that is reported stays quarantined: nothing is disrupted while the storm is measured.
    rules = {**QUICK_POLICY, "max_quarantined_share": SHARE, "deadlines": {"settle": "PT1H"}}
    policy = write_policy(folder / "policy.yaml", **{group.name: rules for group in groups})
    reports = _reports(stack, [node for group in groups for node in group.nodes])
    _prove(stack, reports)
    with ExitStack() as exits:
        workers = []
        for number in range(2):
            place = folder / f"worker-{number}"
            place.mkdir()
            workers.append(exits.enter_context(running_worker(stack, policy, place)))
        # A fleet that reports has its workers running: what they load at their start is not of the storm.
        wait_for(lambda: all(_WORKS in worker.text() for worker in workers), "both workers to work", _START_S)
        return asyncio.run(_play(stack, groups, reports))


def _reports(stack: Stack, names: Sequence[str]) -> list[FaultReport]:
    facts = {node.metadata.name: node for node in nodes(stack)}
    model = report_about(stack, names[0])
    return [
        model.model_copy(
            update={
                "node": name,
                "instance_id": facts[name].spec.provider_id.rpartition("/")[2],
                "boot_id": facts[name].status.node_info.boot_id,
            }
        )
        for name in names
    ]


def _prove(stack: Stack, reports: Sequence[FaultReport]) -> None:
    """As each node's own detector does before it reports."""
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        for report in reports:
            patch = {"metadata": {"annotations": {annotation_of(report.source): digest(report)}}}
            core.patch_node_status(report.node, patch, _preload_content=False)


async def _play(stack: Stack, groups: Sequence[NodeGroup], reports: Sequence[FaultReport]) -> Outcome:
    temporal = await connect(stack)
    budget = temporal.get_workflow_handle(budget_id(CLUSTER))
    group_of = {node: group.name for group in groups for node in group.nodes}
    limits = {group.name: int(SHARE * len(group.nodes)) for group in groups}
    started = time.monotonic()

    async def report(number: int) -> None:
        await asyncio.sleep(WITHIN_S * number / SIZES[-1])
        await send(temporal, reports[number])

    before = cpu_s()
    sending = asyncio.gather(*(report(number) for number in range(len(reports))))
    queued: set[str] = set()
    over = events = size = looks = 0
    with closed_nodes(stack) as closed:
        while len(closed | queued) < len(group_of) and time.monotonic() - started < _DECIDING_S:
            await asyncio.sleep(_LOOK_S)
            looks += 1
            if len(closed) >= sum(limits.values()) or not looks % _ASKED_EVERY:
                queued = await _queued(temporal) & set(group_of)
                with suppress(RPCError):
                    info = (await budget.describe()).raw_description.workflow_execution_info
                    events, size = max(events, info.history_length), max(size, info.history_size_bytes)
            by_group = Counter(group_of[node] for node in set(closed) if node in group_of)
            over = max(over, sum(max(0, number - limits[name]) for name, number in by_group.items()))
        quarantined = set(closed) & set(group_of)
    took, decided = time.monotonic() - started, len(quarantined | queued)
    spent = {name: 1000 * (now - before.get(name, 0.0)) / max(1, decided) for name, now in cpu_s().items()}
    await sending
    return Outcome(len(group_of), decided, took, len(quarantined), over, events, size / 1024, spent)


async def _queued(temporal: Client) -> set[str]:
    with suppress(RPCError):
        state: BudgetState = await temporal.get_workflow_handle(budget_id(CLUSTER)).query(
            BUDGET_QUERY, result_type=BudgetState
        )
        return {item.request.node for item in state.queue if item.reason and item.request.kind is PermitKind.QUARANTINE}
    return set()
