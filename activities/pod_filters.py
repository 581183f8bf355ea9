"""What a drain may do with each pod of a node: one pure function, run over all pods before the first eviction (D19)."""

from dataclasses import dataclass
from enum import StrEnum

from activities.claim import annotations
from activities.cluster import Json
from contract.names import MIRROR_POD_ANNOTATION, SKIP_ANNOTATION


class Verdict(StrEnum):
    """What to do with a pod."""

    EVICT = "evict"
    STAYS = "stays"
    """Of a DaemonSet, static, or finished: it never blocks."""
    ENDING = "ending"
    """Somebody deleted it already: it is waited for, not evicted again (D27)."""
    FORBIDDEN = "forbidden"
    """The policy does not allow its eviction."""


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
