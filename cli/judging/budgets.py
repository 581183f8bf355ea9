"""What the fleet's budget would say to one node, by the very function that admits: the rest of the fleet is healthy."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from contract.budget import Area, Limit
from contract.fault import FaultReport
from contract.identity import NodeIdentity
from contract.maintenance import opens_at
from contract.model import Message
from contract.permit import (
    ClusterCount,
    GroupCount,
    GroupLimits,
    HeldPermit,
    PermitKind,
    PermitRequest,
    QueuedRequest,
    severity_of,
)
from contract.policy import GroupPolicy, Policy
from contract.words import counted
from workflows.budget.admission import Memory, admit

USUAL_SIZE: Final = 16
"""Nodes of a group about which nothing was said."""


class Permit(Message):
    """What would be asked of the budget, and its answer."""

    kind: PermitKind
    granted: bool
    says: str
    """Why it would wait, and what would release it; of a grant, the limits that it would be held against."""
    limit: Limit | None = None


@dataclass
class Budget:
    """The budget of a fleet of one group, in which this node alone fails."""

    policy: Policy
    rules: GroupPolicy
    identity: NodeIdentity
    size: int = USUAL_SIZE
    _memory: Memory = field(default_factory=Memory)
    _held: list[HeldPermit] = field(default_factory=list)

    def ask(self, kind: PermitKind, findings: tuple[FaultReport, ...], now: datetime, incident: str) -> Permit:
        """Ask as an incident would. What was granted is held until it is given back."""
        request = PermitRequest(
            kind=kind,
            incident_id=incident,
            run_id=incident,
            cluster=self.identity.cluster,
            group=self.identity.group or "",
            node=self.identity.node,
            zone=self.identity.zone,
            signature=findings[0].signature,
            rule=findings[0].rule,
            severity=severity_of(findings),
        )
        admitted = admit(
            self._count(now), (QueuedRequest(request=request, asked_at=now),), self._held, self._memory, now
        )
        self._memory = admitted.memory
        if admitted.granted:
            self._held.append(HeldPermit(request=request, granted_at=now))
            return Permit(kind=kind, granted=True, says=self._limits(kind))
        (waiting,) = admitted.waiting
        return Permit(kind=kind, granted=False, says=f"{waiting.reason}. {waiting.releases}", limit=waiting.limit)

    def give_back(self, incident: str) -> None:
        """The incident is over."""
        self._held = [held for held in self._held if held.request.incident_id != incident]

    def _count(self, now: datetime) -> ClusterCount:
        node, others = (self.identity.node,), max(0, self.size - 1)
        rules = self.rules
        group = GroupCount(
            group=self.identity.group or "",
            desired=self.size,
            working=node,
            others_working=others,
            opens_at=opens_at(rules.maintenance, now),
            limits=GroupLimits.of(rules),
        )
        fleet = Area(name="the cluster", desired=self.size, working=node, others_working=others)
        return ClusterCount(groups=(group,), counted_at=now, cluster=fleet, policy=self.policy.budget)

    def _limits(self, kind: PermitKind) -> str:
        rules, fleet, place = self.rules, self.policy.budget, self.identity.group or "nodes of no group"
        if kind is PermitKind.QUARANTINE:
            zone, cluster = fleet.zone.max_quarantined_share, fleet.cluster.max_quarantined_share
            return (
                f"at most {rules.max_quarantined_share:.0%} of {place}, {zone:.0%} of its zone, {cluster:.0%} of the "
                f"cluster may be closed (one node at least), and {fleet.quarantines.per_hour:g} an hour."
            )
        window = ", in a maintenance window" if rules.maintenance else ""
        spare = f", {rules.min_working} go on working" if rules.min_working else ""
        zone, cluster = fleet.zone.max_disrupted_share, fleet.cluster.max_disrupted_share
        return (
            f"no more than {rules.max_concurrent} of {place} may be disturbed at once{spare}; at most "
            f"{rules.max_disrupted_share:.0%} of the group, {zone:.0%} of its zone, {cluster:.0%} of the cluster (one "
            f"node at least), {counted(fleet.max_disrupted, 'node')} in all, and "
            f"{fleet.disruptions.per_hour:g} an hour{window}."
        )
