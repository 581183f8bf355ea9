"""``watch-cluster`` over ten thousand Nodes: its memory, what it costs while nothing is wrong, how soon it reports."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from kubernetes import client, config
from temporalio.client import Client
from temporalio.service import RPCError

from contract.names import incident_id
from deploy.local.temporal import Temporal, running_temporal
from tests.benchmarks.figures import Figure, at_most, percentile
from tests.benchmarks.latency import rss_mib
from tests.detecting.running import ROOT
from tests.watching_cluster.large import api_server_alone, beat, break_node, create_nodes, name_of
from tests.watching_cluster.running import AT_ONCE, Replica

NODES = 10_000
QUIET_S = 30.0
BEATS_PER_S = NODES / 300
"""Kubelets write their status every five minutes when nothing changes (``nodeStatusReportFrequency``)."""
FAULTS = 20


def measure(_stack: object, folder: Path) -> Iterator[Figure]:
    """Measure on an API server of its own, without controllers."""
    with api_server_alone(folder / "large") as kubeconfig, running_temporal(folder) as temporal:
        create_nodes(kubeconfig, NODES)
        yield from over(kubeconfig, temporal, folder)


def over(kubeconfig: Path, temporal: Temporal, folder: Path) -> Iterator[Figure]:
    """Measure over the Nodes that are there."""
    api: Any = config.new_client_from_config(config_file=str(kubeconfig))
    core: Any = client.CoreV1Api(api)
    with watching(kubeconfig, temporal, folder) as (replica, synced_s):
        process = psutil.Process(replica.process.pid)
        before = sum(process.cpu_times()[:2])
        note = f"until it has {NODES} Nodes of 15 KB, start included; that took {synced_s:.0f} s"
        yield at_most("watch_cluster_sync_cpu_s", before, "s", 20.0, note)
        time.sleep(QUIET_S)
        idle = (sum(process.cpu_times()[:2]) - before) / QUIET_S * 100
        yield at_most("watch_cluster_idle_cpu_percent", idle, "%", 3.0, "of one core; nothing changes")
        busy = _beating(core, process)
        note = f"of one core; {BEATS_PER_S:.0f} heartbeats of kubelets a second"
        yield at_most("watch_cluster_heartbeats_cpu_percent", busy, "%", 10.0, note)
        times = asyncio.run(_faults(core, temporal))
        note = f"{FAULTS} faults, one at a time"
        yield at_most("condition_to_workflow_p50_s", percentile(times, 0.5), "s", 2.0, note)
        yield at_most("condition_to_workflow_p99_s", percentile(times, 0.99), "s", 4.0, f"{note}; the largest")
        yield at_most("watch_cluster_rss_mib", rss_mib(process.pid), "MiB", 150.0, f"{NODES} Nodes, after all that")
    api.close()


def _beating(core: Any, process: psutil.Process) -> float:
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    number = 0
    while (passed := time.monotonic() - began) < QUIET_S:
        while number < passed * BEATS_PER_S:
            beat(core, number % NODES)
            number += 1
        time.sleep(0.01)
    return (sum(process.cpu_times()[:2]) - before) / passed * 100


async def _faults(core: Any, temporal: Temporal) -> list[float]:
    connection = await Client.connect(temporal.address, namespace=temporal.namespace)
    times = []
    for number in range(FAULTS):
        broken = time.time()
        break_node(core, number)
        workflow = incident_id("large", name_of(number), f"i-{number:017x}")
        while True:
            with suppress(RPCError):
                description = await connection.get_workflow_handle(workflow).describe()
                times.append(description.start_time.timestamp() - broken)
                break
            await asyncio.sleep(0.02)
    return times


@contextmanager
def watching(kubeconfig: Path, temporal: Temporal, folder: Path) -> Iterator[tuple[Replica, float]]:
    """A replica that has all Nodes, and how long that took."""
    rules = folder / "rules"
    rules.mkdir()
    (rules / "mine.yaml").write_text(AT_ONCE)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
        "NODEMEND_CLUSTER": "large",
        "NODEMEND_CLUSTER_RULES_DIR": str(rules),
        "NODEMEND_WATCH_ADDRESS": "127.0.0.1:0",
        "NODEMEND_EC2_POLL_S": "0",
    }
    log = folder / "watch-cluster.log"
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "detector.cluster"], env=environment, cwd=ROOT, stderr=output, stdout=output
        )
    replica = Replica(process, log)
    try:
        while not (replica.metric("active") and replica.metric("nodes") == NODES and replica.is_healthy()):
            assert process.poll() is None, replica.text()
            time.sleep(0.1)
        yield replica, time.monotonic() - began
    finally:
        process.terminate()
        process.wait()
