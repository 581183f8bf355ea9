"""Incidents on the embedded stack: a real worker process, and findings sent as the detector sends them."""

import asyncio
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client as kubernetes
from kubernetes.client import ApiException
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from contract.fault import FaultReport, RemediationRequest
from contract.incident import IncidentReport
from contract.names import INCIDENT_QUERY, REMEDIATE_NODE, REPORT_FAULT, TASK_QUEUE, incident_id
from contract.proof import annotation_of, digest, with_digest
from deploy.components import Component
from deploy.local.scene import nodes
from deploy.local.stack import CLUSTER, Stack
from tests.runbook.world import finding

PATIENCE_S = 60.0
QUICK_POLICY: dict[str, Any] = {
    "mode": "act",
    "max_concurrent": 5,
    "max_disrupted_share": 1.0,
    "max_quarantined_share": 1.0,
    "checkpoints": {"gather": "PT0.5S", "resume": "PT1S"},
    "deadlines": {"settle": "PT0S", "soak": "PT0.5S", "drain": "PT20S", "replacement": "PT60S"},
}

WIDE_BUDGET: dict[str, Any] = {
    "cluster": {"max_disrupted_share": 1.0, "max_quarantined_share": 1.0},
    "zone": {"max_disrupted_share": 1.0, "max_quarantined_share": 1.0},
    "max_disrupted": 10_000,
    "disruptions": {"per_hour": 1_000_000, "burst": 10_000},
    "quarantines": {"per_hour": 1_000_000, "burst": 10_000},
    "correlation": {"nodes": 10_000},
}
"""The tests share one cluster: what one leaves behind must not hold another one's incident."""


@dataclass
class WorkerProcess:
    """One worker, as ``python -m worker`` runs it."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def text(self) -> str:
        """What it logged."""
        return self.log.read_text(errors="replace")


def write_policy(path: Path, *, budget: dict[str, Any] | None = None, **groups: dict[str, Any]) -> Path:
    """A policy file that acts on the groups given and shadows everything else, in a fleet that can lose anything."""
    wide = {**WIDE_BUDGET, **(budget or {})}
    path.write_text(yaml.safe_dump({"default": {"mode": "shadow"}, "groups": groups, "budget": wide}))
    return path


def worker_environment(stack: Stack, policy: Path, records: Path, **more: str) -> dict[str, str]:
    """The environment of a worker on the stack, with its own rights there and no more."""
    return {
        **os.environ,
        **stack.environment_of(Component.WORKER),
        "NODEMEND_POLICY_FILE": str(policy),
        "NODEMEND_RECORD_DIR": str(records),
        "NODEMEND_HEALTH_ADDRESS": "127.0.0.1:0",
        "NODEMEND_METRICS_ADDRESS": "",
        # Tests terminate incidents on purpose, on a cluster that they share.
        "NODEMEND_REAP_INTERVAL_S": "0",
        **more,
    }


@contextmanager
def running_worker(
    stack: Stack, policy: Path, folder: Path, *, module: str = "worker", **environment: str
) -> Iterator[WorkerProcess]:
    """Run a worker for the length of the block."""
    log = folder / "worker.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            env=worker_environment(stack, policy, folder / "records", **environment),
            stderr=output,
            cwd=Path(__file__).parents[1],
        )
        try:
            yield WorkerProcess(process, log)
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(40)
            process.kill()
            process.wait()


@contextmanager
def worker_that_comes_back(
    stack: Stack, policy: Path, folder: Path, module: str, **environment: str
) -> Iterator[list[int]]:
    """Run a worker and start another whenever it dies, as a Deployment does. Yields the exit codes so far."""
    codes: list[int] = []
    over = threading.Event()

    def keep() -> None:
        while not over.is_set():
            with running_worker(stack, policy, folder, module=module, **environment) as worker:
                while worker.process.poll() is None and not over.is_set():
                    time.sleep(0.1)
                if worker.process.returncode is not None:
                    codes.append(worker.process.returncode)

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield codes
    finally:
        over.set()
        keeper.join()


async def connect(stack: Stack) -> Client:
    """A client of the stack's Temporal."""
    return await Client.connect(
        stack.temporal.address, namespace=stack.temporal.namespace, data_converter=pydantic_data_converter
    )


def instance_of(stack: Stack, node: str) -> str:
    """The EC2 instance of a node."""
    (found,) = [n for n in nodes(stack) if n.metadata.name == node]
    return str(found.spec.provider_id.rpartition("/")[2])


def report_about(stack: Stack, node: str, **changes: Any) -> FaultReport:
    """The demo's fault, found now on a node of the stack, whose detector says so."""
    now = datetime.now(UTC)
    (found,) = [n for n in nodes(stack) if n.metadata.name == node] or [None]
    usual: dict[str, Any] = {
        "cluster": CLUSTER,
        "node": node,
        "instance_id": found.spec.provider_id.rpartition("/")[2] if found else "i-0123456789abcdef0",
        "boot_id": found.status.node_info.boot_id if found else "boot",
        "first_seen": now,
        "last_seen": now,
    }
    report = finding(**{**usual, **changes})
    prove(stack, report)
    return report


def prove(stack: Stack, report: FaultReport) -> None:
    """Put the proof of a report on its Node, as the node's own detector does."""
    with stack.kubernetes.connected() as api, suppress(ApiException):
        core: Any = kubernetes.CoreV1Api(api)
        name = annotation_of(report.source)
        carried = (core.read_node(report.node).metadata.annotations or {}).get(name, "")
        patch = {"metadata": {"annotations": {name: with_digest(carried, digest(report))}}}
        core.patch_node_status(report.node, patch)


async def send(client: Client, report: FaultReport) -> WorkflowHandle[Any, IncidentReport]:
    """Start the incident of a report, or join it."""
    return await client.start_workflow(
        REMEDIATE_NODE,
        RemediationRequest(
            cluster=report.cluster, node=report.node, instance_id=report.instance_id, drill=report.drill
        ),
        id=incident_id(report.cluster, report.node, report.instance_id, drill=report.drill),
        task_queue=TASK_QUEUE,
        start_signal=REPORT_FAULT,
        start_signal_args=[report],
        result_type=IncidentReport,
    )


async def until(
    handle: WorkflowHandle[Any, IncidentReport],
    wanted: Callable[[IncidentReport], bool],
    patience_s: float = PATIENCE_S,
) -> IncidentReport:
    """Look until the report is as wanted; workers may be away meanwhile."""

    async with asyncio.timeout(patience_s):
        while True:
            with suppress(RPCError):
                report = await handle.query(INCIDENT_QUERY, result_type=IncidentReport)
                if wanted(report):
                    return report
            await asyncio.sleep(0.1)


def http(url: str) -> tuple[int, str]:
    """Status and body of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
