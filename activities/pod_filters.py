"""What a drain may do with each pod of a node: one pure function, run over all pods before the first eviction (D19)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Final

from activities.claim import annotations
from activities.cluster import Json
from contract.names import MIRROR_POD_ANNOTATION, SKIP_ANNOTATION

HANGS_AFTER: Final = timedelta(minutes=2)
"""Past the end of its grace period, a pod that is still there hangs: its node is silent, or a finalizer holds it."""


class Verdict(StrEnum):
    """What to do with a pod."""

    EVICT = "evict"
    STAYS = "stays"
    """Of a DaemonSet, static, or finished: it never blocks."""
    ENDING = "ending"
    """Somebody deleted it already: it is waited for, not evicted again (D27)."""
    FORBIDDEN = "forbidden"
    """The policy does not allow its eviction."""


class Wave(IntEnum):
    """Pods leave in waves, each when the one before is gone: what serves the others stays to their end."""

    WORK = 0
    CLUSTER_CRITICAL = 1
    NODE_CRITICAL = 2


_WAVES: Final = {
    "system-cluster-critical": Wave.CLUSTER_CRITICAL,
    "system-node-critical": Wave.NODE_CRITICAL,
}
"""By the two priority classes that Kubernetes itself brings along."""


@dataclass(frozen=True)
class Filtered:
    """One pod and what is to become of it."""

    pod: Json
    verdict: Verdict
    why: str

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return pod_name(self.pod)

    @property
    def uid(self) -> str:
        """What tells it from its successors of the same name."""
        return str(self.pod["metadata"]["uid"])

    @property
    def wave(self) -> Wave:
        """When it leaves."""
        return _WAVES.get(self.pod["spec"].get("priorityClassName", ""), Wave.WORK)


def filter_pod(
    pod: Json,
    *,
    daemon_set_exists: bool,
    evict_unmanaged: bool,
    evict_local_storage: bool,
    opted_out: bool = False,
) -> Filtered:
    """The verdict on one pod.

    Args:
        pod: the pod.
        daemon_set_exists: whether the DaemonSet that controls it, if one does, is still there (D14).
        evict_unmanaged: the policy's word on pods that nothing brings back (D18).
        evict_local_storage: the policy's word on pods whose emptyDir would be lost (D17).
        opted_out: whether the pod or its namespace carries ``nodemend.io/skip``.
    """
    controller = controller_of(pod)
    if MIRROR_POD_ANNOTATION in annotations(pod):
        return Filtered(pod, Verdict.STAYS, "static pod of the kubelet")
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return Filtered(pod, Verdict.STAYS, "finished")
    if controller and controller["kind"] == "DaemonSet" and daemon_set_exists:
        return Filtered(pod, Verdict.STAYS, f"of DaemonSet {controller['name']}")
    if "deletionTimestamp" in pod["metadata"]:
        return Filtered(pod, Verdict.ENDING, "being deleted already")
    if opted_out or SKIP_ANNOTATION in annotations(pod):
        return Filtered(pod, Verdict.FORBIDDEN, f"it or its namespace carries {SKIP_ANNOTATION}")
    if not evict_unmanaged and (controller is None or controller["kind"] == "DaemonSet"):
        return Filtered(pod, Verdict.FORBIDDEN, "no controller brings it back")
    if not evict_local_storage and any("emptyDir" in volume for volume in pod["spec"].get("volumes", [])):
        return Filtered(pod, Verdict.FORBIDDEN, "its emptyDir would be lost")
    return Filtered(pod, Verdict.EVICT, "")


def hangs(pod: Filtered, now: datetime) -> bool:
    """Whether a pod that was told to end should be gone by now. Its clock is in the pod: nothing restarts it (D28)."""
    if pod.verdict is not Verdict.ENDING:
        return False
    # Of an ending pod this is when its grace period is over (API reference, ObjectMeta).
    return now >= datetime.fromisoformat(pod.pod["metadata"]["deletionTimestamp"]) + HANGS_AFTER


def controller_of(pod: Json) -> Json | None:
    """The owner reference of the pod's controller."""
    owners: list[Json] = pod["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)


def pod_name(pod: Json) -> str:
    """``namespace/name``."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def grace_period_s(pod: Json) -> int:
    """Seconds that the pod may take to end (Kubernetes' default is 30)."""
    return int(pod["spec"].get("terminationGracePeriodSeconds", 30))
