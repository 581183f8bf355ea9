"""The floor of a storm: what the embedded stack needs for as many workflows that do nothing but the least.

One workflow a node, started with its report; one activity that reads the Node and closes it; one write of the memo. No
budget, no Auto Scaling, no proof, no retry, no sandbox: nobody would run it. A storm's time over this one says what
Nodemend costs, whatever the machine is.

Run as a program, it is a worker of these: ``python -m tests.benchmarks.floor ADDRESS KUBECONFIG``.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from contract.fault import FaultReport
from contract.names import INCIDENT_LABEL
from deploy.local.stack import Stack
from deploy.local.temporal import NAMESPACE
from tests.benchmarks.load import closed_nodes, cpu_s
from tests.harness import connect

_QUEUE: Final = "floor"
_THREADS: Final = 100
_LOOK_S: Final = 0.3
_PATIENCE_S: Final = 150.0
_CLOSED: Final = {"metadata": {"labels": {INCIDENT_LABEL: "true"}}, "spec": {"unschedulable": True}}
_READY: Final = "ready"


@workflow.defn(name="Floor")
class Floor:
    """The least that closes a node."""

    def __init__(self) -> None:
        self._reports: list[Any] = []

    @workflow.signal
    def report(self, report: Any) -> None:
        """As an incident is told of a fault."""
        self._reports.append(report)

    @workflow.run
    async def run(self, node: str) -> None:
        """Close the node, say so, stay open."""
        await workflow.execute_activity("close_node", node, start_to_close_timeout=timedelta(minutes=1))
        workflow.upsert_memo({"phase": "quarantined"})
        await asyncio.sleep(timedelta(hours=1).total_seconds())


def floor_s(stack: Stack, reports: Sequence[FaultReport], within_s: float) -> tuple[float, float]:
    """Seconds until the node of each report is closed, reports sent evenly in the time given; and CPU ms for a node."""
    with ExitStack() as exits:
        for _ in range(2):
            exits.enter_context(_worker(stack))
        return asyncio.run(_play(stack, reports, within_s))


async def _play(stack: Stack, reports: Sequence[FaultReport], within_s: float) -> tuple[float, float]:
    temporal = await connect(stack)
    before, started = sum(cpu_s().values()), time.monotonic()

    async def send(number: int, report: FaultReport) -> None:
        await asyncio.sleep(within_s * number / len(reports))
        await temporal.start_workflow(
            "Floor",
            report.node,
            id=f"floor-{report.node}",
            task_queue=_QUEUE,
            start_signal="report",
            start_signal_args=[report],
        )

    sending = asyncio.gather(*(send(*numbered) for numbered in enumerate(reports)))
    with closed_nodes(stack) as closed:
        while len(closed) < len(reports) and time.monotonic() - started < _PATIENCE_S:
            await asyncio.sleep(_LOOK_S)
        took, used = time.monotonic() - started, sum(cpu_s().values()) - before
    await sending
    return took, 1000 * used / max(1, len(closed))


@contextmanager
def _worker(stack: Stack) -> Iterator[None]:
    command = [sys.executable, "-m", __name__, stack.temporal.address, str(stack.kubernetes.kubeconfig)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == _READY
            yield
        finally:
            process.kill()


async def _work(address: str, kubeconfig: str) -> None:
    api: Any = config.new_client_from_config(config_file=kubeconfig)
    core: Any = client.CoreV1Api(api)

    @activity.defn
    def close_node(node: str) -> None:
        core.read_node(node, _preload_content=False)
        core.patch_node(node, _CLOSED, _preload_content=False)

    temporal = await Client.connect(address, namespace=NAMESPACE)
    with ThreadPoolExecutor(_THREADS) as threads:
        async with Worker(
            temporal,
            task_queue=_QUEUE,
            workflows=[Floor],
            activities=[close_node],
            activity_executor=threads,
            max_concurrent_activities=_THREADS,
            workflow_runner=UnsandboxedWorkflowRunner(),
        ):
            print(_READY, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_work(*sys.argv[1:]))
