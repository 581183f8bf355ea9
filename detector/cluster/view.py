"""The small part of a Node that ``watch-cluster`` keeps: of ten thousand, whole ones would take a gigabyte. Pure."""

import sys
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from contract.names import FINDINGS_ANNOTATION
from detector.cluster.documents import Rules
from detector.conditions import LOG_HEALTH
from detector.node_side import instance_of

Json = dict[str, Any]

_GOING: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/spot-itn",
    }
)
"""Taints by which other controllers say that they are removing a node: that it stops then is no failure (C20)."""


class Condition(NamedTuple):
    """A condition that a rule speaks of and whose status is the bad one."""

    type: str
    reason: str
    message: str
    since: float
    """Of its last transition, in seconds since the epoch."""
    heartbeat: float


class Taint(NamedTuple):
    """A taint that a rule speaks of."""

    key: str
    value: str
    since: float | None
    """Only taints that evict say when they were added."""


class NodeView(NamedTuple):
    """A Node, as far as it matters here."""

    name: str
    uid: str
    instance_id: str | None
    boot_id: str
    ready: bool
    ready_since: float
    """When that changed last."""
    ready_reason: str
    created: float
    going: bool
    """Somebody is removing it."""
    watched_since: float
    """Heartbeat of its own detector's condition, which says that all is read; 0 where none says so."""
    conditions: tuple[Condition, ...]
    taints: tuple[Taint, ...]
    findings: str
    """Whole reports of its detector, as its annotation has them; empty where it delivers them itself."""

    @property
    def plain(self) -> bool:
        """Nothing is said against it."""
        return self.ready and not self.conditions and not self.taints and not self.findings


class Lens:
    """What to look at, and what to leave out."""

    def __init__(self, rules: Rules) -> None:
        self._bad = {entry.type: entry.bad_status for entry in rules.conditions}
        self._taints = {entry.key for entry in rules.taints}

    def view(self, node: Json) -> NodeView:
        """The small part of a Node."""
        metadata, status = node["metadata"], node.get("status", {})
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        taints = node.get("spec", {}).get("taints") or ()
        ready = conditions.get("Ready", {})
        created = metadata.get("creationTimestamp")
        log = conditions.get(LOG_HEALTH, {})
        return NodeView(
            name=metadata["name"],
            uid=metadata["uid"],
            instance_id=instance_of(node),
            boot_id=str(status.get("nodeInfo", {}).get("bootID", "")),
            ready=ready.get("status") == "True",
            ready_since=seconds(ready.get("lastTransitionTime") or created),
            ready_reason=sys.intern(str(ready.get("reason", ""))),
            created=seconds(created),
            going="deletionTimestamp" in metadata or any(taint["key"] in _GOING for taint in taints),
            watched_since=seconds(log.get("lastHeartbeatTime")) if log.get("status") == "False" else 0.0,
            conditions=tuple(
                Condition(
                    sys.intern(kind),
                    str(condition.get("reason", "")),
                    str(condition.get("message", ""))[:2048],
                    seconds(condition.get("lastTransitionTime")),
                    seconds(condition.get("lastHeartbeatTime")),
                )
                for kind, condition in conditions.items()
                if self._bad.get(kind) == condition.get("status")
            ),
            taints=tuple(
                Taint(
                    taint["key"],
                    str(taint.get("value", "")),
                    seconds(taint["timeAdded"]) if taint.get("timeAdded") else None,
                )
                for taint in taints
                if taint["key"] in self._taints
            ),
            findings=str((metadata.get("annotations") or {}).get(FINDINGS_ANNOTATION, "")),
        )


def seconds(stamp: str | None) -> float:
    """A time of the Kubernetes API in seconds since the epoch; 0 for none."""
    try:
        return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
    except ValueError:
        return 0.0


def moment(at: float) -> datetime:
    """The other way round."""
    return datetime.fromtimestamp(at, UTC)
