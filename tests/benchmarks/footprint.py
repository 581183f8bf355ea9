"""What Nodemend costs while nothing happens: calls of the Kubernetes API, and a worker's memory with parked incidents.

Bounded: less than five minutes on two cores.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client
from temporalio.client import Client
from temporalio.service import RPCError

from contract.names import REMEDIATE_NODE
from deploy.components import Component
from deploy.local.scene import create_node_group
from deploy.local.stack import CLUSTER, Stack
from tests.benchmarks.figures import Figure, at_most
from tests.benchmarks.latency import rss_mib
from tests.detecting.running import ROOT
from tests.harness import connect, report_about, running_worker, send, write_policy

_NODES: Final = 20
_COURIERS: Final = 3
_COURIERS_PER_HOUR: Final = 3600 / 240
"""``detector.watch``: one every 240 s while nothing is wrong."""
_QUIET_S: Final = 60.0
_REAP_S: Final = 30
_USUAL_REAP_S: Final = 600
_FLEET: Final = 1000
"""Nodes that share what the cluster-wide processes call."""
_PARKED: Final = 1000
_AT_ONCE: Final = 50
_PATIENCE_S: Final = 240.0


def measure(stack: Stack, folder: Path) -> Iterator[Figure]:
    """First quiet, then with a thousand incidents that wait for a human."""
    group = create_node_group(stack, "quiet", _NODES)
    node = group.nodes[0]
    yield from _quiet(stack, folder, node, group.instance_ids[0])
    yield asyncio.run(_parked(stack, folder, node))


def _quiet(stack: Stack, folder: Path, node: str, instance: str) -> Iterator[Figure]:
    _courier(stack, folder, node, instance)  # the first one makes what later ones renew
    before = _calls(stack)
    for _ in range(_COURIERS):
        _courier(stack, folder, node, instance)
    detector = (_calls(stack) - before)[Component.DETECTOR.user] / _COURIERS * _COURIERS_PER_HOUR
    environment = {
        **os.environ,
        **stack.environment_of(Component.WATCH_CLUSTER),
        "NODEMEND_WATCH_ADDRESS": "127.0.0.1:0",
        "NODEMEND_EC2_POLL_S": "0",
    }
    policy = write_policy(folder / "policy.yaml")
    with (
        running_worker(stack, policy, folder, NODEMEND_REAP_INTERVAL_S=str(_REAP_S)),
        (folder / "watch.log").open("wb") as log,
    ):
        watching = subprocess.Popen([sys.executable, "-m", "detector.cluster"], env=environment, cwd=ROOT, stderr=log)
        try:
            time.sleep(20)  # past what they do when they start
            before = _calls(stack)
            time.sleep(_QUIET_S)
            seen = _calls(stack) - before
        finally:
            watching.terminate()
            watching.wait()
    watch = seen[Component.WATCH_CLUSTER.user] * 3600 / _QUIET_S
    worker = seen[Component.WORKER.user] * 3600 / _QUIET_S * _REAP_S / _USUAL_REAP_S
    note = (
        f"its detector's {detector:.0f}; for {_FLEET} nodes together watch-cluster's {watch:.0f}, worker's {worker:.0f}"
    )
    yield at_most("idle_api_calls_per_node_hour", detector + (watch + worker) / _FLEET, "calls", 60, note)


def _courier(stack: Stack, folder: Path, node: str, instance: str) -> None:
    """What the detector starts every few minutes."""
    spool = folder / "spool"
    spool.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        **stack.environment_of(Component.DETECTOR, node),
        "NODEMEND_CLUSTER": CLUSTER,
        "NODE_NAME": node,
        "NODEMEND_INSTANCE_ID": instance,
        "NODEMEND_DELIVERY": "node",
    }
    subprocess.run([sys.executable, "-m", "detector.courier", str(spool)], env=environment, cwd=ROOT, check=True)


def _calls(stack: Stack) -> "Counter[str]":
    """Calls so far that the API server has answered, by who made them; a watch counts once."""
    found: Counter[str] = Counter()
    with stack.kubernetes.audit_log.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                event: dict[str, Any] = json.loads(line)
                found[str(event.get("user", {}).get("username", ""))] += 1
    return found


async def _parked(stack: Stack, folder: Path, node: str) -> Figure:
    """A real worker that may read nothing, so that each incident asks for a human at once."""
    kubeconfig = _without_rights(stack, folder)
    temporal, report = await connect(stack), report_about(stack, node)
    with running_worker(stack, folder / "policy.yaml", folder, KUBECONFIG=kubeconfig) as worker:
        room = asyncio.Semaphore(_AT_ONCE)

        async def start(number: int) -> None:
            async with room:
                other = {"node": f"parked-{number}", "instance_id": f"i-{number:017x}"}
                await send(temporal, report.model_copy(update=other))

        await asyncio.gather(*(start(number) for number in range(_PARKED)))
        waiting = await _waiting(temporal)
        rss = rss_mib(worker.process.pid)
    note = f"{waiting} incidents wait for a human; one worker process"
    return at_most("worker_parked_1000_rss_mib", rss, "MiB", 250, note)


def _without_rights(stack: Stack, folder: Path) -> str:
    """A kubeconfig of a service account that may do nothing."""
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        request = {"spec": {"expirationSeconds": 3600}}
        token = core.create_namespaced_service_account_token("default", "default", request).status.token
    document = yaml.safe_load(Path(stack.environment_of(Component.WORKER)["KUBECONFIG"]).read_text())
    document["users"][0]["user"] = {"token": token}
    path = folder / "nobody"
    path.write_text(yaml.safe_dump(document))
    return str(path)


async def _waiting(temporal: Client) -> int:
    """Until all of them wait, or patience is at its end."""
    began = time.monotonic()
    while True:
        waiting = 0
        with suppress(RPCError):  # until the worker has registered the search attribute
            counted = await temporal.count_workflows(f'WorkflowType = "{REMEDIATE_NODE}" AND NeedsHuman = true')
            waiting = counted.count
        if waiting >= _PARKED or time.monotonic() - began > _PATIENCE_S:
            assert waiting >= _PARKED, f"{waiting} of {_PARKED} wait for a human"
            return waiting
        await asyncio.sleep(0.5)
