"""What the world has left of each group, each zone and the cluster, while a pass goes on.

Counted from the world: desired size minus the nodes that work, so a machine that is gone and not yet replaced still
costs. Permits that are out and whose effect cannot be seen yet are taken off.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from contract.budget import Area
from contract.permit import ClusterCount, GroupCount, HeldPermit, PermitKind, PermitRequest, QueuedRequest


@dataclass
class Scope:
    """One group, zone or cluster. Nodes that nobody asks about are only counted."""

    name: str
    desired: int
    at_work: set[str]
    open: set[str]
    others_at_work: int
    others_open: int
    disrupted: set[str] = field(default_factory=set)
    """Nodes that hold a disruption permit."""

    @classmethod
    def of(cls, count: GroupCount | Area, name: str) -> "Scope":
        """As it was counted."""
        return cls(
            name=name,
            desired=count.desired,
            at_work={*count.working, *count.quarantined},
            open=set(count.working),
            others_at_work=count.others_working + count.others_quarantined,
            others_open=count.others_working,
        )

    def working(self) -> int:
        """Nodes at work."""
        return len(self.at_work) + self.others_at_work

    def lost(self, kind: PermitKind, node: str) -> int:
        """Nodes out of work, or closed to the scheduler, the asking one aside: it costs nothing where it is already."""
        left = self.working() if kind is PermitKind.DISRUPTION else len(self.open) + self.others_open
        return max(0, self.desired - 1 - (left - self.has(kind, node)))

    def has(self, kind: PermitKind, node: str) -> bool:
        """Whether the node is one that such a permit would take away."""
        return node in (self.at_work if kind is PermitKind.DISRUPTION else self.open)

    def take(self, kind: PermitKind, node: str) -> None:
        """A permit for this node is out."""
        self.open.discard(node)
        if kind is PermitKind.DISRUPTION:
            self.at_work.discard(node)
            self.disrupted.add(node)

    def spare(self, node: str) -> None:
        """That this node is closed costs nothing: it counts as open, where it is there."""
        if node in self.at_work:
            self.open.add(node)


@dataclass
class GroupBook:
    """A group with its own limits."""

    count: GroupCount
    scope: Scope


class Ledger:
    """All scopes of one pass."""

    def __init__(self, count: ClusterCount, held: Sequence[HeldPermit], queue: Iterable[QueuedRequest]) -> None:
        self.groups = {
            group.group: GroupBook(group, Scope.of(group, group.group or "no group")) for group in count.groups
        }
        self.zones = {area.name: Scope.of(area, area.name) for area in count.zones}
        self.cluster = Scope.of(count.cluster, "the cluster") if count.cluster else None
        self._useless_are_free = bool(count.policy and count.policy.useless_costs_nothing)
        self.disrupted: set[str] = set()
        """Every node that holds a disruption permit."""
        self._holders: dict[tuple[PermitKind, str], str] = {}
        self._faults: dict[tuple[str, str], set[str]] = {}
        self._add_absent(count, [item.request for item in held] + [item.request for item in queue])
        self._leave = {permit.request.token: permit.request for permit in held}
        for permit in held:
            self.take(permit.request)

    def to_judge(self, request: PermitRequest) -> list[PermitRequest]:
        """The parts that it has no leave for yet.

        A gang that has leave for some of what it asks for is being disturbed anyway: who joined just then goes along.
        """
        leave, asked = self._leave.get(request.token), [part for part in request.judged if not part.out]
        if leave and any(part.node in leave.nodes for part in asked):
            return []
        return asked

    def is_free(self, request: PermitRequest) -> bool:
        """Whether the policy has it cost nothing."""
        return self._useless_are_free and request.useless and request.kind is PermitKind.QUARANTINE

    def take(self, request: PermitRequest) -> None:
        """A permit is out."""
        kind = request.kind
        for part in request.parts:
            for scope in self.scopes(part):
                if self.is_free(request):
                    scope.spare(part.node)
                else:
                    scope.take(kind, part.node)
        if not request.job:
            self._holders[kind, request.node] = request.incident_id
        if kind is PermitKind.DISRUPTION:
            self.disrupted.update(request.nodes)
            for part in request.judged:
                self._faults.setdefault((part.group, part.fault), set()).add(part.node)

    def scopes(self, request: PermitRequest) -> list[Scope]:
        """Where it costs something."""
        book = self.groups.get(request.group)
        found = [book.scope if book else None, self.zones.get(request.zone), self.cluster]
        return [scope for scope in found if scope]

    def holder(self, request: PermitRequest) -> str:
        """The incident that holds this kind of permit for its node; empty when none does, or for a gang.

        A gang's permit stands beside those of its nodes' incidents: they work together.
        """
        return "" if request.job else self._holders.get((request.kind, request.node), "")

    def repairs_of(self, request: PermitRequest) -> set[str]:
        """Other nodes of its group that are being repaired for the same fault."""
        return self._faults.get((request.group, request.fault), set()) - {request.node}

    def _add_absent(self, count: ClusterCount, requests: list[PermitRequest]) -> None:
        """A node that is asked about and has no Node object is still missing from its zone."""
        absent = set(count.absent)
        parts = [part for request in requests for part in request.judged]
        for zone, _ in {(part.zone, part.node) for part in parts if part.node in absent}:
            if scope := self.zones.get(zone):
                scope.desired += 1
