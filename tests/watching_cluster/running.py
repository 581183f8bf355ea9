"""``watch-cluster`` as users run it, as processes of their own, and what it left in Temporal and on the cluster."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubernetes import client
from temporalio.client import Client

from contract.fault import FaultReport
from contract.names import WATCH_CLUSTER, incident_id
from deploy.components import Component
from deploy.local.stack import CLUSTER, Stack
from tests.detecting.running import PATIENCE_S, ROOT, reports_in, wait_until
from tests.harness import connect, http

AT_ONCE = """
conditions:
  - type: ToasterReady
    bad_status: "False"
    component: toaster
    hold_s: 0
    provenance: a test
    rules:
      - id: toaster-burns
        reason: 'Burns(?P<code>\\w+)'
        verdict: ambiguous
taints:
  - key: example.com/broken-device
    component: toaster
    hold_s: 0
    provenance: a test
    rules:
      - id: toaster-tainted
        reason: '(?P<code>burnt)'
        verdict: repairable
"""
"""Rules of a user's own, for things that are reported without waiting."""

NEVER = {"NODEMEND_EC2_POLL_S": "0"}
_PORT = re.compile(r"healthz are on 127\.0\.0\.1:(\d+)")


def stamp(ago_s: float = 0.0) -> str:
    """A time as the API writes it."""
    return (datetime.now(UTC) - timedelta(seconds=ago_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Replica:
    """One process."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def get(self, path: str) -> tuple[int, str]:
        found = _PORT.search(self.text())
        assert found, self.text()
        return http(f"http://127.0.0.1:{found[1]}{path}")

    def metric(self, name: str) -> float:
        """A metric of watch-cluster; 0 where it is not there (yet)."""
        with suppress(OSError, AssertionError):
            for line in self.get("/metrics")[1].splitlines():
                if line.startswith(f"nodemend_watch_{name} "):
                    return float(line.rpartition(" ")[2])
        return 0.0

    def is_healthy(self) -> bool:
        with suppress(OSError, AssertionError):
            return self.get("/healthz")[0] == 200
        return False


@dataclass
class Cluster:
    """The stack's cluster, and a namespace for one ``watch-cluster``."""

    stack: Stack
    namespace: str
    folder: Path
    core: Any
    leases: Any
    environment: dict[str, str] = field(default_factory=dict)
    replicas: list[Replica] = field(default_factory=list)

    def __post_init__(self) -> None:
        rules = self.folder / "rules"
        rules.mkdir(exist_ok=True)
        (rules / "mine.yaml").write_text(AT_ONCE)
        self.environment = {
            **self.stack.environment_of(Component.WATCH_CLUSTER),
            **NEVER,
            "POD_NAMESPACE": self.namespace,
            "NODEMEND_CLUSTER_RULES_DIR": str(rules),
            "NODEMEND_WATCH_ADDRESS": "127.0.0.1:0",
            "NODEMEND_LEASE_POLL_S": "0.5",
            "NODEMEND_OUTAGE_SHARE": "1.0",
        }

    def start(self, **more: str) -> Replica:
        name = f"replica-{len(self.replicas) + 1}"
        environment = {**os.environ, **self.environment, "POD_NAME": name, **more}
        environment.pop("PYTEST_CURRENT_TEST", None)
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "detector.cluster"], env=environment, cwd=ROOT, stderr=output, stdout=output
            )
        self.replicas.append(Replica(process, log))
        return self.replicas[-1]

    @contextmanager
    def watching(self, **more: str) -> Iterator[Replica]:
        """A replica that is active and has all Nodes."""
        replica = self.start(**more)
        try:
            wait_until(lambda: replica.metric("active") and replica.is_healthy(), f"watching: {replica.text()}")
            yield replica
        finally:
            replica.process.terminate()
            replica.process.wait(PATIENCE_S)

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.core.read_node(name, _preload_content=False).data)
        return found

    def annotation(self, name: str, key: str) -> str:
        return str((self.node(name)["metadata"].get("annotations") or {}).get(key, ""))

    def condition(
        self, node: str, kind: str, status: str, reason: str, message: str = "", *, ago_s: float = 0, beat_s: float = 0
    ) -> None:
        """Write a condition as its owner would."""
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message or f"{kind} is {status}",
            "lastTransitionTime": stamp(ago_s),
            "lastHeartbeatTime": stamp(beat_s),
        }
        self.core.patch_node_status(
            node,
            {"status": {"conditions": [condition]}},
            _content_type="application/strategic-merge-patch+json",
        )

    def annotate(self, node: str, key: str, value: str | None) -> None:
        self.patch(node, {"metadata": {"annotations": {key: value}}})

    def patch(self, node: str, patch: dict[str, Any]) -> None:
        self.core.patch_node(node, patch, _content_type="application/merge-patch+json")

    def instance(self, node: str) -> str:
        return str(self.node(node)["spec"]["providerID"].rpartition("/")[2])

    def ledger(self) -> dict[str, str]:
        with suppress(client.ApiException):
            answer = self.core.read_namespaced_config_map(WATCH_CLUSTER, self.namespace, _preload_content=False)
            return json.loads(answer.data).get("data") or {}
        return {}

    def events(self, node: str) -> list[dict[str, Any]]:
        answer = self.core.list_namespaced_event(
            "default", field_selector=f"involvedObject.name={node}", _preload_content=False
        )
        found: list[dict[str, Any]] = json.loads(answer.data)["items"]
        return [event for event in found if event["source"].get("component") == WATCH_CLUSTER]

    def incident(self, node: str) -> str:
        return incident_id(CLUSTER, node, self.instance(node))

    async def reports(self, node: str) -> list[FaultReport]:
        """What Temporal has of a node: all signals of its incident."""
        temporal = self.stack.temporal
        return await reports_in(temporal.address, temporal.namespace, self.incident(node))

    async def runs(self, node: str) -> int:
        """How often its incident was started."""
        temporal: Client = await connect(self.stack)
        return len([run async for run in temporal.list_workflows(f'WorkflowId = "{self.incident(node)}"')])
