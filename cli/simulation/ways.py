"""Ways to answer a report: as today, by taking the node at once; or as FleetBudget does, by the very same functions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypedDict

from cli.simulation.events import Befalls
from cli.simulation.model import FleetModel
from contract.budget import Area, RepairResult
from contract.maintenance import opens_at
from contract.permit import (
    ClusterCount,
    GroupCount,
    GroupLimits,
    HeldPermit,
    PermitKind,
    PermitRequest,
    QueuedRequest,
)
from contract.policy import Policy
from workflows.budget.admission import Memory, admit

START: Final = datetime(2026, 1, 5, tzinfo=UTC)
"""A Monday."""


@dataclass(frozen=True)
class View:
    """What can be counted: which nodes do no work."""

    model: FleetModel
    lost: frozenset[int]


class Way(Protocol):
    """Who may be taken, and when."""

    saves: bool
    """Whether a job is asked for a checkpoint before its node is taken."""

    def report(self, befalls: Befalls, now_s: float) -> None:
        """A node is reported."""
        ...

    def decide(self, view: View, now_s: float) -> tuple[list[int], list[int]]:
        """Nodes to close to new work, and nodes to take away."""
        ...

    def replaced(self, node: int, now_s: float) -> None:
        """Its replacement is there."""
        ...

    def withdraw(self, nodes: Iterable[int]) -> None:
        """People found that nothing is wrong with them."""
        ...

    @property
    def waits(self) -> bool:
        """Whether time alone may decide something."""
        ...


@dataclass
class AtOnce:
    """Each reported node is marked unhealthy at once, whatever else goes on."""

    saves: bool = False
    _reported: list[int] = field(default_factory=list)

    def report(self, befalls: Befalls, now_s: float) -> None:  # noqa: ARG002
        """It is as good as taken."""
        self._reported.append(befalls.node)

    def decide(self, view: View, now_s: float) -> tuple[list[int], list[int]]:  # noqa: ARG002
        """All that were reported."""
        taken, self._reported = self._reported, []
        return [], taken

    def replaced(self, node: int, now_s: float) -> None:
        """Nothing is remembered."""

    def withdraw(self, nodes: Iterable[int]) -> None:
        """Nobody waits."""

    @property
    def waits(self) -> bool:
        """Never."""
        return False


class Budgeted:
    """FleetBudget with a policy: a permit to close a node, and another to take it."""

    saves = True

    def __init__(self, model: FleetModel, policy: Policy) -> None:
        self._model = model
        self._policy = policy
        self._queue: dict[str, QueuedRequest] = {}
        self._held: dict[str, HeldPermit] = {}
        self._memory = Memory()
        self._generation = [0] * model.nodes

    def report(self, befalls: Befalls, now_s: float) -> None:
        """It asks to be closed first."""
        request = PermitRequest(
            kind=PermitKind.QUARANTINE,
            incident_id=f"{self._name(befalls.node)}/{befalls.fault}",
            run_id="",
            cluster="simulated",
            group=self._group(befalls.node),
            node=self._name(befalls.node),
            zone=self._zone(befalls.node),
            rule=befalls.fault,
            severity=2 if befalls.kills else 1,
        )
        if not any(permit.request.node == request.node for permit in self._held.values()):
            self._queue.setdefault(request.token, QueuedRequest(request=request, asked_at=moment(now_s)))

    def decide(self, view: View, now_s: float) -> tuple[list[int], list[int]]:
        """Passes until nothing more is granted: who is closed asks to be taken."""
        closed: list[int] = []
        taken: list[int] = []
        while self._queue:
            now = moment(now_s)
            queue, held = list(self._queue.values()), list(self._held.values())
            admission = admit(self._count(view, now), queue, held, self._memory, now)
            self._memory = admission.memory
            for grant in admission.granted:
                request = grant.request
                del self._queue[request.token]
                self._held[request.token] = HeldPermit(request=request, granted_at=now)
                if request.kind is PermitKind.DISRUPTION:
                    taken.append(_index(request.node))
                else:
                    closed.append(_index(request.node))
                    further = request.model_copy(update={"kind": PermitKind.DISRUPTION})
                    self._queue[further.token] = QueuedRequest(request=further, asked_at=now)
            if not any(grant.request.kind is PermitKind.QUARANTINE for grant in admission.granted):
                break
        return closed, taken

    def replaced(self, node: int, now_s: float) -> None:
        """Its permits come back, and the repair is remembered."""
        old = self._name(node)
        self._generation[node] += 1
        fault = next((item.request.fault for item in self._held.values() if item.request.node == old), "")
        done = RepairResult(
            incident_id=old,
            run_id="",
            group=self._group(node),
            fault=fault,
            node=old,
            replacement=self._name(node),
            failed=False,
            at=moment(now_s),
        )
        self._memory = replace(self._memory, repairs=(*self._memory.repairs, done))
        self._forget({old})

    def withdraw(self, nodes: Iterable[int]) -> None:
        """Released by people: what is not taken yet is open again."""
        taken = {item.request.node for item in self._held.values() if item.request.kind is PermitKind.DISRUPTION}
        self._forget({self._name(node) for node in nodes} - taken)

    @property
    def waits(self) -> bool:
        """Whether somebody waits."""
        return bool(self._queue)

    def _forget(self, names: set[str]) -> None:
        self._queue = {token: item for token, item in self._queue.items() if item.request.node not in names}
        self._held = {token: item for token, item in self._held.items() if item.request.node not in names}

    def _count(self, view: View, now: datetime) -> ClusterCount:
        lost = {self._name(node) for node in view.lost}
        permits = [item.request for item in self._held.values()]
        closed = {request.node for request in permits if request.kind is PermitKind.QUARANTINE} - lost
        asking = [item.request for item in self._queue.values()]
        named = {request.node for request in [*permits, *asking]}
        rules = self._policy.default
        limits = GroupLimits.of(rules)
        whole = Area(name="the cluster", **_tally(range(self._model.nodes), lost, closed, named, self._name))
        zones = [range(zone, self._model.nodes, self._model.zones) for zone in range(self._model.zones)]
        groups = [range(group, self._model.nodes, self._model.groups) for group in range(self._model.groups)]
        return ClusterCount(
            groups=tuple(
                GroupCount(
                    group=self._group(members[0]),
                    limits=limits,
                    opens_at=opens_at(rules.maintenance, now),
                    **_tally(members, lost, closed, named, self._name),
                )
                for members in groups
            ),
            counted_at=now,
            cluster=whole,
            zones=tuple(
                Area(name=self._zone(members[0]), **_tally(members, lost, closed, named, self._name))
                for members in zones
            ),
            policy=self._policy.budget,
        )

    def _name(self, node: int) -> str:
        return f"{node}.{self._generation[node]}"

    def _group(self, node: int) -> str:
        return f"group-{node % self._model.groups}"

    def _zone(self, node: int) -> str:
        return f"zone-{node % self._model.zones}"


def _index(name: str) -> int:
    return int(name.partition(".")[0])


class _Tally(TypedDict):
    desired: int
    working: tuple[str, ...]
    quarantined: tuple[str, ...]
    others_working: int


def _tally(members: range, lost: set[str], closed: set[str], named: set[str], name: Callable[[int], str]) -> _Tally:
    """As FleetBudget counts it: those that matter by name, the others as a number."""
    # Of a large fleet few are lost, closed or named: only these are looked at.
    marked = {mark for mark in lost | closed | named if _index(mark) in members and mark == name(_index(mark))}
    at_work = marked - lost
    return _Tally(
        desired=len(members),
        working=tuple(sorted(at_work - closed)),
        quarantined=tuple(sorted(at_work & closed)),
        others_working=len(members) - len(marked),
    )


def moment(now_s: float) -> datetime:
    """A moment of the run as a date."""
    return START + timedelta(seconds=now_s)
