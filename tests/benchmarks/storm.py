"""A storm: a thousand nodes report within ten seconds, on the whole embedded stack, with two workers.

A node is decided when it is quarantined (a real write to its Node), or queued with a reason. The quarantine limit is
nine of ten of each group, so both happen.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client
from temporalio.client import Client
from temporalio.service import RPCError

from contract.fault import FaultReport
from contract.names import BUDGET_QUERY, INCIDENT_LABEL, budget_id
from contract.permit import BudgetState, PermitKind
from contract.proof import annotation_of, digest
from deploy.local.scene import NodeGroup, create_node_group, nodes
from deploy.local.stack import CLUSTER, Stack
from deploy.local.waiting import wait_for
from tests.benchmarks.figures import Figure, at_most, told
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy

GROUPS: Final = 10
SHARE: Final = 0.9
WITHIN_S: Final = 10.0
_SMALL, _LARGE = 100, 1000
_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.5
_ASKED_EVERY: Final = 10
"""Looks."""
_WORKS: Final = "Working on task queue"
"""What a worker logs once it takes work."""
_NAMES_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Of an API answer. Whole Nodes, twice a second, would be half of what the machine does (API concepts)."""


@dataclass(frozen=True)
class Outcome:
    """One storm."""

    decided_s: float
    quarantined: int
    over_limit: int
    events: int
    """The most that a run of FleetBudget had."""
    history_kib: float
    """The largest history of its runs."""


def measure(stack: Stack, folder: Path) -> Iterator[Figure]:
    """A small storm, then a large one, each in groups of its own."""
    small = storm(stack, folder / "small", _SMALL)
    large = storm(stack, folder / "large", _LARGE)
    note = f"{large.quarantined} quarantined with a Node write each, the others queued with a reason; two workers"
    yield at_most("storm_1000_nodes_decided_s", large.decided_s, "s", 30, note)
    yield at_most("storm_permits_over_limit", large.over_limit + small.over_limit, "permits", 0)
    growth = large.decided_s / small.decided_s
    yield at_most("storm_growth_100_to_1000", growth, "times", 10, f"{small.decided_s:.1f} s for {_SMALL} nodes")
    yield at_most("storm_budget_history_events", large.events, "events", 2500, "FleetBudget, continued as new at 2,000")
    yield told("storm_budget_history_kib", large.history_kib, "KiB", "continued as new at 4 MiB at the latest")


def storm(stack: Stack, folder: Path, size: int) -> Outcome:
    """Make the nodes, let them all report, and wait until each is decided."""
    folder.mkdir()
    groups = [create_node_group(stack, f"storm-{size}-{number}", size // GROUPS) for number in range(GROUPS)]
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
        wait_for(lambda: all(_WORKS in worker.text() for worker in workers), "both workers to work", _PATIENCE_S)
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
        await asyncio.sleep(WITHIN_S * number / _LARGE)
        await send(temporal, reports[number])

    sending = asyncio.gather(*(report(number) for number in range(len(reports))))
    quarantined: set[str] = set()
    queued: set[str] = set()
    over = events = size = looks = 0
    with stack.kubernetes.connected() as api:
        async with asyncio.timeout(_PATIENCE_S):
            while len(quarantined | queued) < len(group_of):
                await asyncio.sleep(_LOOK_S)
                quarantined = await asyncio.to_thread(_quarantined, api) & set(group_of)
                looks += 1
                # The budget's answer has every permit: it is asked seldom while nodes are still being quarantined.
                if len(quarantined) >= sum(limits.values()) or not looks % _ASKED_EVERY:
                    queued = await _queued(temporal) & set(group_of)
                by_group = Counter(group_of[node] for node in quarantined)
                over = max(over, sum(max(0, number - limits[name]) for name, number in by_group.items()))
                with suppress(RPCError):
                    info = (await budget.describe()).raw_description.workflow_execution_info
                    events, size = max(events, info.history_length), max(size, info.history_size_bytes)
    decided = time.monotonic() - started
    await sending
    return Outcome(decided, len(quarantined), over, events, size / 1024)


def _quarantined(api: Any) -> set[str]:
    call = api.param_serialize(
        "GET",
        "/api/v1/nodes",
        query_params=[("labelSelector", INCIDENT_LABEL)],
        header_params={"Accept": _NAMES_ONLY},
        auth_settings=["BearerToken"],
    )
    answer = api.call_api(*call)
    answer.read()
    return {item["metadata"]["name"] for item in json.loads(answer.data)["items"] or ()}


async def _queued(temporal: Client) -> set[str]:
    with suppress(RPCError):
        state: BudgetState = await temporal.get_workflow_handle(budget_id(CLUSTER)).query(
            BUDGET_QUERY, result_type=BudgetState
        )
        return {item.request.node for item in state.queue if item.reason and item.request.kind is PermitKind.QUARANTINE}
    return set()
