"""Counts, requests and policies for tests of admission, with as little said as the test needs."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from contract.budget import Area, HealthyNodes, Traits
from contract.budget_policy import AreaLimits, BudgetPolicy, CorrelationGuard, Rate
from contract.permit import (
    ClusterCount,
    GroupCount,
    GroupLimits,
    HeldPermit,
    PermitApproval,
    PermitKind,
    PermitRequest,
    QueuedRequest,
)
from workflows.budget.admission import Admission, Memory, admit

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
ADA = PermitApproval(by="ada", reason="looked at it")

WIDE = BudgetPolicy(
    cluster=AreaLimits(max_disrupted_share=1, max_quarantined_share=1),
    zone=AreaLimits(max_disrupted_share=1, max_quarantined_share=1),
    max_disrupted=10_000,
    disruptions=Rate(per_hour=1e6, burst=10_000),
    quarantines=Rate(per_hour=1e6, burst=10_000),
    correlation=CorrelationGuard(nodes=10_000),
)
"""Admits everything: a test tightens what it is about."""


def wide(**tightened: Any) -> BudgetPolicy:
    return WIDE.model_copy(update=tightened)


def request(
    node: str,
    kind: PermitKind = PermitKind.DISRUPTION,
    group: str = "g",
    *,
    zone: str = "a",
    rule: str = "hbm",
    severity: int = 0,
    traits: Traits | None = None,
    approval: PermitApproval | None = None,
    incident: str = "",
) -> PermitRequest:
    return PermitRequest(
        kind=kind,
        incident_id=incident or f"remediate-{node}",
        run_id="r",
        cluster="c",
        group=group,
        node=node,
        zone=zone,
        rule=rule,
        severity=severity,
        traits=traits or {},
        approval=approval,
    )


def queued(node: str, kind: PermitKind = PermitKind.DISRUPTION, age_s: float = 0, **more: Any) -> QueuedRequest:
    return QueuedRequest(request=request(node, kind, **more), asked_at=NOW - timedelta(seconds=age_s))


def held(node: str, kind: PermitKind = PermitKind.DISRUPTION, **more: Any) -> HeldPermit:
    return HeldPermit(request=request(node, kind, **more), granted_at=NOW)


def group(
    desired: int,
    working: int | Iterable[str],
    quarantined: int = 0,
    *,
    name: str = "g",
    concurrent: int = 100,
    share: float = 1.0,
    closed: float = 1.0,
    **more: Any,
) -> GroupCount:
    """A group whose nodes are n0, n1, … in that order: the working, then the quarantined."""
    names = tuple(f"n{i}" for i in range(working)) if isinstance(working, int) else tuple(working)
    limits = {key: more.pop(key) for key in ("min_working",) if key in more}
    return GroupCount(
        group=name,
        desired=desired,
        working=names,
        quarantined=tuple(f"n{i}" for i in range(len(names), len(names) + quarantined)),
        limits=GroupLimits(
            max_concurrent=concurrent, max_disrupted_share=share, max_quarantined_share=closed, **limits
        ),
        **more,
    )


def world(
    *groups: GroupCount,
    policy: BudgetPolicy | None = WIDE,
    zones: Sequence[Area] = (),
    cluster: Area | None = None,
    healthy: HealthyNodes | None = None,
    absent: tuple[str, ...] = (),
) -> ClusterCount:
    whole = cluster or Area(
        name="c",
        desired=sum(count.desired for count in groups),
        working=tuple(node for count in groups for node in count.working),
        quarantined=tuple(node for count in groups for node in count.quarantined),
    )
    return ClusterCount(
        groups=groups,
        counted_at=NOW,
        cluster=whole,
        zones=tuple(zones),
        policy=policy,
        healthy=healthy or HealthyNodes(),
        absent=absent,
    )


def decide(
    count: ClusterCount,
    queue: Sequence[QueuedRequest],
    out: Sequence[HeldPermit] = (),
    memory: Memory | None = None,
    now: datetime = NOW,
) -> Admission:
    return admit(count, queue, out, memory or Memory(), now)


def granted(admission: Admission) -> list[str]:
    """Nodes in the order in which they were let go."""
    return [grant.request.node for grant in admission.granted]


def why(admission: Admission, node: str) -> str:
    """The reason of one that waits."""
    (item,) = [item for item in admission.waiting if item.request.node == node]
    return item.reason
