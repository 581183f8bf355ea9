"""From the kernel line to the incident, and on to the closed node, over many incidents, one at a time."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kubernetes import client, watch
from temporalio.client import Client
from temporalio.service import RPCError

from contract.names import TASK_QUEUE, incident_id
from deploy.components import Component
from deploy.local.scene import create_node_group
from deploy.local.stack import CLUSTER, Stack
from tests.benchmarks.figures import Figure, at_most, percentile
from tests.harness import QUICK_POLICY, connect, running_worker, write_policy

INCIDENTS = 60


class Cordons:
    """When each node was closed, as seen by a watch on the API server."""

    def __init__(self, stack: Stack) -> None:
        self.at: dict[str, float] = {}
        self._stack = stack
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with self._stack.kubernetes.connected() as api, suppress(Exception):
            core: Any = client.CoreV1Api(api)
            for event in watch.Watch().stream(core.list_node):
                node = event["object"]
                if node.spec.unschedulable:
                    self.at.setdefault(node.metadata.name, time.time())


def measure(stack: Stack, folder: Path) -> Iterator[Figure]:
    """Play the incidents. They stop at an approval, so that every one starts on a quiet machine."""
    group = create_node_group(stack, "bench-latency", INCIDENTS)
    policy = write_policy(folder / "policy.yaml", **{group.name: {**QUICK_POLICY, "approve_before": ["disrupt"]}})
    cordons = Cordons(stack)
    with running_worker(stack, policy, folder) as worker:
        times, watch_rss = asyncio.run(_play(stack, folder, group.nodes, group.instance_ids, cordons))
        worker_rss = rss_mib(worker.process.pid)
    to_workflow = [started - written for written, started, _ in times]
    to_cordon = [closed - started for _, started, closed in times]
    note = f"{len(times)} incidents, one at a time; the largest"
    yield at_most("line_to_workflow_p50_s", percentile(to_workflow, 0.5), "s", 1.0, f"{len(times)} incidents")
    yield at_most("line_to_workflow_p99_s", percentile(to_workflow, 0.99), "s", 1.0, note)
    yield at_most("workflow_to_cordon_p50_s", percentile(to_cordon, 0.5), "s", 1.0, f"{len(times)} incidents")
    yield at_most("workflow_to_cordon_p99_s", percentile(to_cordon, 0.99), "s", 3.0, note)
    yield at_most("watch_rss_mib", watch_rss, "MiB", 20.0, "the largest of them, after its finding")
    yield at_most("worker_rss_mib", worker_rss, "MiB", 400.0, f"with {len(times)} incidents open")


async def _play(
    stack: Stack, folder: Path, nodes: tuple[str, ...], instances: tuple[str, ...], cordons: Cordons
) -> tuple[list[tuple[float, float, float]], float]:
    temporal = await connect(stack)
    times, largest = [], 0.0
    for node, instance in zip(nodes, instances, strict=True):
        with running_detector(stack, node, instance, folder / node) as (pid, log):
            written = time.time()
            with log.open("a") as handle:
                handle.write(
                    f"3,1,{time.monotonic_ns() // 1000},-;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR "
                    f"instance-id={instance} hostname={node} nd-id=3 nc-id=1 action=TERMINATE_INSTANCE\n"
                )
            started = await _started(temporal, incident_id(CLUSTER, node, instance))
            while node not in cordons.at:
                await asyncio.sleep(0.02)
            largest = max(largest, rss_mib(pid))
            times.append((written, started, cordons.at[node]))
    return times, largest


async def _started(temporal: Client, workflow_id: str) -> float:
    while True:
        with suppress(RPCError):
            description = await temporal.get_workflow_handle(workflow_id).describe()
            assert description.task_queue == TASK_QUEUE
            return description.start_time.timestamp()
        await asyncio.sleep(0.02)


@contextmanager
def running_detector(stack: Stack, node: str, instance: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """A detector on a file, ready and past its first heartbeat."""
    folder.mkdir(parents=True)
    log = folder / "kmsg"
    log.touch()
    environment = {
        **os.environ,
        **stack.environment_of(Component.DETECTOR, node),
        "NODE_NAME": node,
        "NODEMEND_INSTANCE_ID": instance,
        "NODEMEND_KMSG": str(log),
        "NODEMEND_SPOOL_DIR": str(folder),
        "NODEMEND_DETECTOR_ADDRESS": "127.0.0.1:0",
    }
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "detector"], env=environment, stderr=output)
    try:
        _wait_for_heartbeat(stack, node)
        yield process.pid, log
    finally:
        process.terminate()
        process.wait()


def _wait_for_heartbeat(stack: Stack, node: str) -> None:
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        while True:
            conditions = json.loads(core.read_node(node, _preload_content=False).data)["status"]["conditions"]
            if any(condition["type"] == "NeuronHealth" for condition in conditions):
                return
            time.sleep(0.05)


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
