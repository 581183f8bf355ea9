"""A storm: a thousand nodes report within ten seconds, on the whole embedded stack, with two workers.

A node is decided when it is quarantined (a real write to its Node), or queued with a reason. The quarantine limit is
nine of ten, so both happen.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client
from temporalio.client import Client
from temporalio.service import RPCError

from contract.names import BUDGET_QUERY, INCIDENT_LABEL, budget_id
from contract.permit import BudgetState, PermitKind
from deploy.local.scene import create_node_group, nodes
from deploy.local.stack import CLUSTER, Stack
from tests.benchmarks.figures import Figure, at_most
from tests.harness import QUICK_POLICY, connect, prove, report_about, running_worker, send, write_policy

GROUPS: Final = 10
SHARE: Final = 0.9
WITHIN_S: Final = 10.0
_SMALL, _LARGE = 100, 1000
_PATIENCE_S: Final = 240.0


@dataclass(frozen=True)
class Outcome:
    """One storm."""

    decided_s: float
    quarantined: int
    over_limit: int
    events: int
    """Of FleetBudget's run at the end."""


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


def storm(stack: Stack, folder: Path, size: int) -> Outcome:
    """Make the nodes, let them all report, and wait until each is decided."""
    folder.mkdir()
    groups = [create_node_group(stack, f"storm-{size}-{number}", size // GROUPS) for number in range(GROUPS)]
    # Everything that is reported stays quarantined: nothing is disrupted while the storm is measured.
    rules = {**QUICK_POLICY, "max_quarantined_share": SHARE, "deadlines": {"settle": "PT1H"}}
    policy = write_policy(folder / "policy.yaml", **{group.name: rules for group in groups})
    names = [node for group in groups for node in group.nodes]
    limit = sum(int(SHARE * len(group.nodes)) for group in groups)
    with ExitStack() as exits:
        for number in range(2):
            place = folder / f"worker-{number}"
            place.mkdir()
            exits.enter_context(running_worker(stack, policy, place))
        return asyncio.run(_play(stack, names, limit))


async def _play(stack: Stack, names: list[str], limit: int) -> Outcome:
    temporal = await connect(stack)
    facts = {node.metadata.name: node for node in nodes(stack)}
    model = report_about(stack, names[0])
    reports = [
        model.model_copy(
            update={
                "node": name,
                "instance_id": facts[name].spec.provider_id.rpartition("/")[2],
                "boot_id": facts[name].status.node_info.boot_id,
            }
        )
        for name in names
    ]
    for proof in reports:
        await asyncio.to_thread(prove, stack, proof)
    started = time.monotonic()

    async def report(number: int) -> None:
        await asyncio.sleep(WITHIN_S * number / _LARGE)
        await send(temporal, reports[number])

    sending = asyncio.gather(*(report(number) for number in range(len(reports))))
    quarantined = queued = over = 0
    async with asyncio.timeout(_PATIENCE_S):
        while quarantined + queued < len(names):
            await asyncio.sleep(0.5)
            quarantined = await asyncio.to_thread(_quarantined, stack, set(names))
            queued = await _queued(temporal, set(names))
            over = max(over, quarantined - limit)
    decided = time.monotonic() - started
    await sending
    history = await temporal.get_workflow_handle(budget_id(CLUSTER)).fetch_history()
    return Outcome(decided, quarantined, max(0, over), len(history.events))


def _quarantined(stack: Stack, names: set[str]) -> int:
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        found = core.list_node(label_selector=INCIDENT_LABEL).items
    return sum(node.metadata.name in names for node in found)


async def _queued(temporal: Client, names: set[str]) -> int:
    with suppress(RPCError):
        state: BudgetState = await temporal.get_workflow_handle(budget_id(CLUSTER)).query(
            BUDGET_QUERY, result_type=BudgetState
        )
        return sum(
            bool(item.reason) and item.request.kind is PermitKind.QUARANTINE and item.request.node in names
            for item in state.queue
        )
    return 0
