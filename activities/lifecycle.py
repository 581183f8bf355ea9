"""Kubernetes' node lifecycle conditions, set by us while we work on a node and taken away with the work (C17).

By them an administrator, or a controller in its name, tells everybody that a node is being drained or repaired
(KEP-5683; well-known since Kubernetes 1.37, which reads them nowhere itself). They decide nothing here, so one that
cannot be written stops no repair. An API server of before knows them not, and is told nothing.
"""

import re
import threading
import time
from datetime import UTC, datetime
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.cluster import Cluster, Json
from contract.names import LIFECYCLE_REASON

DRAINING: Final = "DrainInProgress"
DRAINED: Final = "Drained"
REPAIRING: Final = "MaintenanceInProgress"
OURS: Final = (DRAINING, DRAINED, REPAIRING)
"""What we write; the admission policy of the worker allows no other condition (``deploy/admission/worker.yaml``)."""
_SINCE: Final = (1, 37)
_VERSION_EVERY_S: Final = 3600.0


class Lifecycle:
    """Tells the lifecycle of nodes to those who watch them. Safe to use from several threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._served = False
        self._looked_at = -_VERSION_EVERY_S

    def tell(self, node: Json, **conditions: bool) -> None:
        """Set conditions on a Node that was just read; those that are so already are left alone (C4)."""
        found = {c["type"]: c for c in node["status"].get("conditions", [])}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write(
            node,
            [
                {
                    "type": kind,
                    "status": str(so),
                    "reason": LIFECYCLE_REASON,
                    "message": "Nodemend repairs this node (annotation nodemend.io/owner says which incident).",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind, so in conditions.items()
                if found.get(kind, {}).get("status") != str(so)
            ],
        )

    def forget(self, node: Json) -> None:
        """Take away what is ours; what others said of the node stays."""
        found = [c["type"] for c in node["status"].get("conditions", []) if c.get("reason") == LIFECYCLE_REASON]
        self._write(node, [{"type": kind, "$patch": "delete"} for kind in OURS if kind in found])

    def _write(self, node: Json, conditions: list[Json]) -> None:
        if not conditions:
            return
        try:
            if self._serves():
                self._cluster.patch_conditions(node, conditions)
        except ApplicationError as error:
            activity.logger.warning("The lifecycle of the node could not be told: %s", error.message)

    def _serves(self) -> bool:
        """Whether the API server knows these conditions; asked again now and then, for it may be upgraded."""
        with self._lock:
            if time.monotonic() >= self._looked_at + _VERSION_EVERY_S:
                self._looked_at = time.monotonic()
                told = self._cluster.read("/version", "get version") or {}
                numbers = re.findall(r"\d+", f"{told.get('major', '')} {told.get('minor', '')}")
                self._served = tuple(map(int, numbers[:2])) >= _SINCE
            return self._served
