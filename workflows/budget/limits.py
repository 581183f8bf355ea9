"""What the fleet may lose at once: per node, group, zone and cluster. A human's approval does not lift these.

Every share has a floor of one node, so that a group of one can be repaired at all, and rounds down above that.
"""

import heapq
import math
from typing import Final

from contract.budget import Limit
from contract.budget_policy import AreaLimits, BudgetPolicy
from contract.permit import PermitKind, PermitRequest
from contract.words import counted
from workflows.budget.ledger import GroupBook, Ledger, Scope
from workflows.budget.refusal import Refusal

_NAMED: Final = 3
_OUTAGE_NODES: Final = 3
_OUTAGE_SHARE: Final = 0.55


def node_refusal(ledger: Ledger, request: PermitRequest) -> Refusal | None:
    """One incident at a time works on a node. A new run of the same incident is the same incident."""
    holder = ledger.holder(request)
    if not holder or holder == request.incident_id:
        return None
    return Refusal(
        Limit.NODE,
        f"{holder} already has this permit for {request.node}",
        "It goes on when that incident has ended.",
    )


def group_refusal(book: GroupBook, request: PermitRequest, *, alone: bool = False) -> Refusal | None:
    """Concurrency, share and spares of its group.

    ``alone``: the group's limits are all there are, and dead nodes wait for each other. Workers before 0.2 decided so,
    and their histories must.
    """
    limits, scope = book.count.limits, book.scope
    if request.kind is PermitKind.DISRUPTION:
        others = len(scope.disrupted.difference(request.nodes))
        if others >= limits.max_concurrent:
            names = ", ".join(heapq.nsmallest(_NAMED, scope.disrupted.difference(request.nodes)))
            return Refusal(
                Limit.GROUP,
                f"{scope.name} already has {others} of at most {counted(limits.max_concurrent, 'node')} disrupted "
                f"({names})",
                "It goes on when one of them is repaired.",
            )
        if request.node in scope.at_work and scope.working() - 1 < limits.min_working:
            return Refusal(
                Limit.SPARE,
                f"{scope.name} has {counted(scope.working(), 'node')} at work and must keep {limits.min_working}: "
                "none is spare",
                "It goes on when another node of the group works.",
            )
    share = limits.max_disrupted_share if request.kind is PermitKind.DISRUPTION else limits.max_quarantined_share
    return _share_refusal(Limit.GROUP, scope, share, request, dead_go_ahead=not alone)


def zone_refusal(ledger: Ledger, policy: BudgetPolicy, request: PermitRequest) -> Refusal | None:
    """The share of its zone."""
    scope = ledger.zones.get(request.zone)
    if scope is None:
        return None
    return _share_refusal(Limit.ZONE, scope, _share(policy.zone, request.kind), request)


def cluster_refusal(ledger: Ledger, policy: BudgetPolicy, request: PermitRequest) -> Refusal | None:
    """The absolute cap, and the share of the cluster."""
    if request.kind is PermitKind.DISRUPTION:
        others = len(ledger.disrupted.difference(request.nodes))
        if others >= policy.max_disrupted:
            return Refusal(
                Limit.CLUSTER,
                f"the cluster already has {others} of at most {counted(policy.max_disrupted, 'node')} disrupted",
                "It goes on when one of them is repaired.",
            )
    if ledger.cluster is None:
        return None
    return _share_refusal(Limit.CLUSTER, ledger.cluster, _share(policy.cluster, request.kind), request)


def _share_refusal(
    limit: Limit, scope: Scope, share: float, request: PermitRequest, *, dead_go_ahead: bool = True
) -> Refusal | None:
    kind, node = request.kind, request.node
    lost, allowed = scope.lost(kind, node), max(1, math.floor(share * scope.desired))
    dead = dead_go_ahead and not scope.has(kind, node)
    outage = dead and _is_outage(scope, lost)
    if lost < allowed or (dead and not outage and _goes_ahead(scope, request)):
        return None
    releases = f"It goes on when fewer than {allowed} are: when a node comes back or a missing one is launched."
    if outage:
        releases = (
            f"Most of {scope.name} is lost, which is the network or the control plane more often than its machines: "
            f"{releases} If they are dead indeed, replace some by hand, or raise the share in the policy for a while."
        )
    word = "out of work" if kind is PermitKind.DISRUPTION else "closed to the scheduler"
    return Refusal(
        limit,
        f"{lost} of {counted(scope.desired, 'node')} of {scope.name} {'is' if lost == 1 else 'are'} {word} already, "
        f"{allowed} allowed",
        releases,
    )


def _goes_ahead(scope: Scope, request: PermitRequest) -> bool:
    """Whether a node that is lost itself may go past a share that is used up.

    Two dead nodes where one may be lost would wait for each other for ever. Closing a dead node takes nothing away;
    repairing one gives something back, one after another.
    """
    return request.kind is PermitKind.QUARANTINE or scope.disrupted <= set(request.nodes)


def _is_outage(scope: Scope, lost: int) -> bool:
    """Whether most of the scope is lost, with one more: then it is the network or the control plane.

    Replacing machines would make it worse. The bounds are those of Kubernetes' node lifecycle controller
    (``--unhealthy-zone-threshold``, and three nodes at least).
    """
    return lost + 1 >= _OUTAGE_NODES and lost + 1 >= _OUTAGE_SHARE * scope.desired


def _share(limits: AreaLimits, kind: PermitKind) -> float:
    return limits.max_disrupted_share if kind is PermitKind.DISRUPTION else limits.max_quarantined_share
