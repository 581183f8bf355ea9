"""When another repairer will act on a machine by itself, and an incident's waits cut to be done before it. Pure (A23).

EKS's node auto repair and Karpenter's node repair act when a condition of the Node has been bad for ten minutes
(accelerated hardware) or thirty (EKS user guide, Node auto repair; Karpenter, Disruption, Node repair). Auto Scaling's
own EC2 check acts when EC2 says that an instance is impaired (Auto Scaling user guide, Health checks). Neither waits
for a checkpoint.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from activities.cluster import Json
from contract.fault import FaultReport
from contract.identity import Fuse, MachineKind
from contract.names import ClusterSource
from contract.policy import GroupPolicy

_USUAL: Final = timedelta(minutes=30)
_WATCHED: Final = {
    "Ready": _USUAL,
    "AcceleratedHardwareReady": timedelta(minutes=10),
    "ContainerRuntimeReady": _USUAL,
    "KernelReady": _USUAL,
    "NetworkingReady": _USUAL,
    "StorageReady": _USUAL,
}
"""Condition types that both repairers watch, and for how long each has to be bad."""
_SHARE: Final = 3
"""Saving, draining and the rest get a third each of what is left."""
_LEAST: Final = timedelta(seconds=30)
"""Each wait keeps this much: a job that is not asked at all loses more than one that is asked late."""


def fuse_of(
    node: Json, kind: MachineKind, nodegroup: dict[str, Any] | None, reports: tuple[FaultReport, ...]
) -> Fuse | None:
    """Who will act on a machine first, and when; None where nobody is known to.

    Args:
        node: its Node.
        kind: who replaces it.
        nodegroup: EKS's description of its managed node group, where there is one.
        reports: what was found on it.
    """
    lit = [*_by_conditions(node, kind, nodegroup), *_by_auto_scaling(kind, reports)]
    return min(lit, key=lambda fuse: fuse.at, default=None)


def is_lit(node: Json) -> bool:
    """Whether a condition is bad that another repairer would act on, if there is one."""
    return any(_is_bad(condition) for condition in node["status"].get("conditions", []))


def hurried(rules: GroupPolicy, fuse: Fuse | None, now: datetime) -> GroupPolicy:
    """The policy with its waits cut so that the work is saved and off the machine before the other one acts."""
    if fuse is None:
        return rules
    most = max(_LEAST, (fuse.at - now) / _SHARE)
    waits, asking = rules.deadlines, rules.checkpoints
    return rules.model_copy(
        update={
            "deadlines": waits.model_copy(
                update={
                    "settle": min(waits.settle, _LEAST),
                    "checkpoint": min(waits.checkpoint, most),
                    "drain": min(waits.drain, most),
                    "group": min(waits.group, most),
                }
            ),
            "checkpoints": asking.model_copy(
                update={
                    "gather": min(asking.gather, _LEAST),
                    "urgent": min(asking.urgent, most),
                    "longest": min(asking.longest, most),
                }
            ),
        }
    )


def _by_conditions(node: Json, kind: MachineKind, nodegroup: dict[str, Any] | None) -> Iterator[Fuse]:
    repairs = (nodegroup or {}).get("nodeRepairConfig") or {}
    if kind is MachineKind.KARPENTER:
        who = "Karpenter's node repair, where it is switched on,"
    elif repairs.get("enabled"):
        who = f"EKS's node auto repair of {(nodegroup or {}).get('nodegroupName')}"
    else:
        return
    for condition in node["status"].get("conditions", []):
        if not _is_bad(condition) or "lastTransitionTime" not in condition:
            continue
        waits = _overridden(condition, repairs) or _WATCHED[condition["type"]]
        at = datetime.fromisoformat(condition["lastTransitionTime"]).astimezone(UTC) + waits
        yield Fuse(at=at, says=f"{who} acts on it at {at:%H:%M} UTC, for {condition['type']} is {condition['status']}")


def _is_bad(condition: Json) -> bool:
    return condition["type"] in _WATCHED and condition["status"] != "True"


def _overridden(condition: Json, repairs: dict[str, Any]) -> timedelta | None:
    """What the node group itself says of this condition (EKS API reference, NodeRepairConfigOverrides)."""
    for override in repairs.get("nodeRepairConfigOverrides") or []:
        reason = override.get("nodeUnhealthyReason")
        if override.get("nodeMonitoringCondition") == condition["type"] and reason in (None, condition.get("reason")):
            return timedelta(minutes=override.get("minRepairWaitTimeMins", 0))
    return None


def _by_auto_scaling(kind: MachineKind, reports: tuple[FaultReport, ...]) -> Iterator[Fuse]:
    if kind is not MachineKind.AUTO_SCALING:
        return
    for report in reports:
        if report.source == ClusterSource.EC2:
            yield Fuse(
                at=report.first_seen,
                says=f"Auto Scaling replaces it by itself at any moment, for EC2 says {report.reason}",
            )
