"""The admission decision alone: 10,000 nodes and 1,000 requests, as after a storm."""

import time
from collections.abc import Iterator
from pathlib import Path

from contract.budget import Area, HealthyNodes
from contract.budget_policy import BudgetPolicy
from contract.permit import ClusterCount, PermitKind, QueuedRequest
from deploy.local.stack import Stack
from tests.benchmarks.figures import Figure, at_most
from tests.budgeting.world import NOW, group, queued, wide, world
from workflows.budget.admission import Memory, admit

NODES, REQUESTS, GROUPS, ZONES = 10_000, 1_000, 40, 4
_REPEATS = 15


def measure(_stack: Stack, _folder: Path) -> Iterator[Figure]:
    """A pass in which all is granted, and one in which the guard holds all; the slower one counts."""
    times = []
    for policy in (wide(), BudgetPolicy()):
        count, queue = scene(policy)
        runs = []
        for _ in range(_REPEATS):
            started = time.perf_counter()
            admit(count, queue, (), Memory(), NOW)
            runs.append((time.perf_counter() - started) * 1000)
        times.append(min(runs))
    granted, held = times
    note = f"best of {_REPEATS}; all granted {granted:.0f} ms, all held by the guard {held:.0f} ms"
    yield at_most("admission_10000_nodes_1000_requests_ms", max(times), "ms", 50, note)


def scene(policy: BudgetPolicy) -> tuple[ClusterCount, list[QueuedRequest]]:
    """Every node named: more than a count of the cluster would hold."""
    size = NODES // GROUPS
    names = [[f"g{g}-{n}" for n in range(size)] for g in range(GROUPS)]
    groups = [group(size, nodes, name=f"g{g}", concurrent=size) for g, nodes in enumerate(names)]
    flat = [(node, f"g{g}") for g, nodes in enumerate(names) for node in nodes]
    zones = [
        Area(name=f"z{z}", desired=NODES // ZONES, working=tuple(node for node, _ in flat[z::ZONES]))
        for z in range(ZONES)
    ]
    queue = [
        queued(
            node,
            PermitKind.QUARANTINE,
            age_s=number % 60,
            group=name,
            zone=f"z{number * 10 % ZONES}",
            traits={
                "AMI": "ami-1",
                "driver": "2.30.2" if number % 10 else "2.29.0",
                "kernel": "6.1",
                "instance type": "trn1.32xlarge",
                "zone": f"z{number * 10 % ZONES}",
                "detector": "0.3",
                "job": f"ml/Job/{number % 50}",
                "switch": f"nn-{number % 300}",
            },
        )
        for number, (node, name) in enumerate(flat[:: NODES // REQUESTS])
    ]
    healthy = HealthyNodes(
        total=9000, traits={"driver": {"2.29.0": 9000}, "kernel": {"6.1": 9000}, "AMI": {"ami-1": 9000}}
    )
    return world(*groups, zones=zones, policy=policy, healthy=healthy), queue
