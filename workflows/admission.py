"""Who may go next: one pure function over what was counted and who waits.

Capacity is counted from the world: a group's desired size minus the nodes that work, so a node that is gone and not
yet replaced still costs. Permits that are out and whose effect cannot be seen yet are added. Every limit has an
absolute floor of one, so that a small group can be repaired at all.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from contract.permit import GroupCount, HeldPermit, PermitKind, PermitRequest, QueuedRequest


@dataclass(frozen=True)
class Admission:
    """The outcome of one pass over the queue."""

    granted: tuple[PermitRequest, ...]
    waiting: tuple[QueuedRequest, ...]
    """In their order, each with the reason in words."""


@dataclass
class _Group:
    """What one group has left while the pass goes on."""

    count: GroupCount
    held: dict[PermitKind, set[str]] = field(default_factory=lambda: {kind: set() for kind in PermitKind})
    """Names of the nodes that hold a permit of the kind."""


def admit(groups: Iterable[GroupCount], queue: Sequence[QueuedRequest], held: Sequence[HeldPermit]) -> Admission:
    """Grant what the limits allow, oldest first; a request that must wait does not stop those of other groups."""
    books = {count.group: _Group(count) for count in groups}
    for permit in held:
        if book := books.get(permit.request.group):
            book.held[permit.request.kind].add(permit.request.node)
    granted: list[PermitRequest] = []
    waiting: list[QueuedRequest] = []
    for queued in sorted(queue, key=lambda item: (item.asked_at, item.request.token)):
        request = queued.request
        book = books.get(request.group)
        reason = "its group could not be counted" if book is None else _refusal(book, request)
        if reason or book is None:
            waiting.append(queued.model_copy(update={"reason": reason}))
        else:
            book.held[request.kind].add(request.node)
            granted.append(request)
    return Admission(tuple(granted), tuple(waiting))


def _refusal(book: _Group, request: PermitRequest) -> str:
    """Why it must wait; empty when it may go."""
    count, limits, name = book.count, book.count.limits, request.group or "no group"
    if request.kind is PermitKind.DISRUPTION:
        others = book.held[PermitKind.DISRUPTION] - {request.node}
        if len(others) >= limits.max_concurrent:
            return (
                f"{name} already has {len(others)} of at most {limits.max_concurrent} nodes disrupted "
                f"({', '.join(sorted(others)[:3])})"
            )
        lost, share, word = _out_of_work(book, request.node), limits.max_disrupted_share, "out of work"
    else:
        lost, share, word = _closed(book, request.node), limits.max_quarantined_share, "closed to the scheduler"
    allowed = max(1, math.floor(share * count.desired))
    if lost + 1 > allowed:
        return f"{lost} of {count.desired} nodes of {name} are {word} already, {allowed} allowed"
    return ""


def _out_of_work(book: _Group, node: str) -> int:
    """Nodes of the group that do no work, the asking one aside: it costs nothing where it works no more."""
    at_work = ({*book.count.working, *book.count.quarantined} - book.held[PermitKind.DISRUPTION]) - {node}
    return max(0, book.count.desired - 1 - len(at_work))


def _closed(book: _Group, node: str) -> int:
    """Nodes of the group that take no new work, the asking one aside."""
    open_to_work = (set(book.count.working) - book.held[PermitKind.QUARANTINE] - book.held[PermitKind.DISRUPTION]) - {
        node
    }
    return max(0, book.count.desired - 1 - len(open_to_work))
