"""FleetBudget's gauges: what moves to another worker is told there, and the newer time says who tells the truth."""

import re
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client

from activities.permits import PermitActivities, open_desk
from contract.names import budget_id
from deploy.monitoring.queries import TOLD_AT
from tests.budgeting.conftest import FLEETS, Budget, Fleet, count_cluster, end, no_mark
from tests.harness import http
from tests.telemetry.test_metrics import documented, served
from worker.main import make_budget_worker
from worker.temporal import connect, make_runtime


class Process:
    """A worker's runtime: it serves what it saw as long as it lives, also once another has the budget."""

    def __init__(self, temporal: Client) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.runtime = make_runtime(self.address)
        self.config = {"target_host": temporal.service_client.config.target_host, "namespace": temporal.namespace}

    @property
    def text(self) -> str:
        return http(f"http://{self.address}/metrics")[1]

    def gauge(self, name: str) -> float:
        return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", self.text, re.M))


@asynccontextmanager
async def working(process: Process, cluster: str) -> AsyncIterator[Budget]:
    client = await connect(process.config, process.runtime, "worker")  # type: ignore[arg-type]
    async with open_desk(client, cluster) as desk:
        acts = PermitActivities(client, desk, no_mark())
        async with make_budget_worker(client, [count_cluster, acts.deliver_grants]):
            yield Budget(client, cluster, FLEETS[budget_id(cluster)], desk)


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_worker_that_had_the_budget_before_is_told_from_the_one_that_has_it(temporal: Client) -> None:
    cluster = f"test-{uuid.uuid4().hex[:8]}"
    FLEETS[budget_id(cluster)] = Fleet()
    before, now = Process(temporal), Process(temporal)
    async with working(before, cluster) as budget:
        await budget.ask("n0", "n1", "n2")
    assert before.gauge("nodemend_permits_held") == 2
    assert before.gauge("nodemend_permits_queued") == 1
    assert {name for name in documented("Worker") if name.startswith(("nodemend_permits", "nodemend_budget"))} == {
        name for name in served(before.text) if name.startswith(("nodemend_permits", "nodemend_budget"))
    }
    async with working(now, cluster) as budget:
        await budget.give_back("n0", "n1", "n2")
    assert now.gauge("nodemend_permits_held") == now.gauge("nodemend_permits_queued") == 0
    assert before.gauge("nodemend_permits_held") == 2, "it knows no better"
    assert now.gauge(TOLD_AT) > before.gauge(TOLD_AT) > 0
    await end(temporal, cluster)
