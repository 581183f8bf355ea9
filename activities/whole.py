"""Whether a machine is whole: what a Node object, its Lease and its pods have to say before work may land on it.

Used for a replacement, for a machine after its reboot and after a reset: the same questions, one by one.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from activities.claim import annotations
from activities.cluster import Cluster, Json
from activities.identities import is_ready
from contract.names import FINDING_DIGESTS_ANNOTATION, FINDINGS_ANNOTATION, KERNEL_LOG_HEALTH

_FRESH_LEASE: Final = timedelta(seconds=40)
"""Older than that the node lifecycle controller calls the node Unknown."""


def missing_on(node: Json, devices: dict[str, int], condition_types: tuple[str, ...]) -> list[str]:
    """What a Node object lacks of a whole machine; empty when nothing. Pure."""
    missing = []
    if not is_ready(node):
        missing.append("it is not Ready")
    conditions = {c["type"]: c for c in node["status"].get("conditions", [])}
    if conditions.get("NetworkUnavailable", {}).get("status") == "True":
        missing.append("its network is not set up (V4)")
    for kind in condition_types:
        found = conditions.get(kind, {})
        if found.get("status") == "True":
            missing.append(f"its own detector says {kind}: {found.get('reason', 'faulty')} (V8)")
    allocatable = {name: int(n) for name, n in node["status"].get("allocatable", {}).items() if "/" in name}
    for name, count in devices.items():
        if allocatable.get(name, 0) != count:
            missing.append(f"it has {allocatable.get(name, 0)} of {count} {name}")
    return missing


def findings_on(node: Json) -> list[str]:
    """What the node's own detector has found on it, for a machine that must have none (V8). Pure."""
    found = annotations(node)
    if found.get(FINDING_DIGESTS_ANNOTATION) or found.get(FINDINGS_ANNOTATION):
        return ["its own detector has found something in its kernel log since it booted (V8)"]
    return []


def heard_of_log(node: Json) -> str:
    """What is known of the node's kernel log, where nothing was found in it: that may be for want of a reader. Pure."""
    told = next((c for c in node["status"].get("conditions", []) if c["type"] == KERNEL_LOG_HEALTH), None)
    if told is None:
        return "its own detector has not spoken: nothing is known of its kernel log"
    if told["status"] == "True":
        return f"its own detector does not see its whole kernel log: {told.get('reason', 'no reason given')}"
    return "nothing found by its own detector"


def stale_lease(cluster: Cluster, node: str, now: datetime | None = None) -> list[str]:
    """Whether the kubelet is silent (V3)."""
    lease = cluster.node_lease(node)
    renewed = lease["spec"].get("renewTime") if lease else None
    if renewed is None or (now or datetime.now(UTC)) - datetime.fromisoformat(renewed) > _FRESH_LEASE:
        return ["its kubelet's Lease is not renewed"]
    return []


def missing_daemons(cluster: Cluster, node: str, required: tuple[str, ...]) -> list[str]:
    """Which of the required DaemonSets have no ready pod on a node (V7)."""
    if not required:
        return []
    ready = set()
    for pod in cluster.pods_on(node):
        owners = [o["name"] for o in pod["metadata"].get("ownerReferences", []) if o["kind"] == "DaemonSet"]
        conditions = pod.get("status", {}).get("conditions", [])
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            ready |= {f"{pod['metadata']['namespace']}/{owner}" for owner in owners}
    return [f"DaemonSet {name} has no ready pod on it (V7)" for name in required if name not in ready]
