"""One pass over the queue: every limit must admit a request, and the first that does not says why it waits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from contract.budget import Bucket, Guard, Limit, Pause, RepairResult, Sighting
from contract.budget_policy import BudgetPolicy
from contract.permit import ClusterCount, HeldPermit, PermitKind, PermitRequest, QueuedRequest
from workflows.budget import backoff, correlation
from workflows.budget.ledger import GroupBook, Ledger
from workflows.budget.limits import cluster_refusal, group_refusal, node_refusal, zone_refusal
from workflows.budget.ordering import turn
from workflows.budget.rate import Rates
from workflows.budget.refusal import Refusal


@dataclass(frozen=True)
class Memory:
    """What the budget knows beyond what can be counted. It is carried from pass to pass and from run to run."""

    pauses: tuple[Pause, ...] = ()
    buckets: dict[str, Bucket] = field(default_factory=dict)
    sightings: tuple[Sighting, ...] = ()
    guards: tuple[Guard, ...] = ()
    repairs: tuple[RepairResult, ...] = ()


@dataclass(frozen=True)
class Grant:
    """A permit that goes out."""

    request: PermitRequest
    released_from: str = ""
    """What held it, where a human's approval let it pass."""


@dataclass(frozen=True)
class Admission:
    """The outcome of one pass."""

    granted: tuple[Grant, ...]
    waiting: tuple[QueuedRequest, ...]
    """In their order, each with the reason in words."""
    memory: Memory


def admit(
    count: ClusterCount, queue: Sequence[QueuedRequest], held: Sequence[HeldPermit], memory: Memory, now: datetime
) -> Admission:
    """Grant what the limits allow, in turn; a request that must wait does not stop those of other groups."""
    ledger = Ledger(count, held, queue)
    guards = _Guards(count.policy, count, queue, memory, now) if count.policy else None
    granted: list[Grant] = []
    waiting: list[QueuedRequest] = []
    for queued in sorted(queue, key=turn):
        request = queued.request
        lifted = ""
        parts = ledger.to_judge(request)
        refusals = (each for part in parts for each in _refusals(memory.pauses, guards, ledger, part))
        for refusal, guard in refusals:
            if not (guard and request.approval):
                waiting.append(_waits(queued, refusal))
                break
            lifted = lifted or refusal.reason
        else:
            ledger.take(request)
            if guards and parts and not ledger.is_free(request):
                guards.rates.take(request.kind)
            granted.append(Grant(request, lifted))
    return Admission(tuple(granted), tuple(waiting), guards.memory() if guards else memory)


class _Guards:
    """What slows down and asks for a look, where the limits alone would admit. A human may overrule it."""

    def __init__(
        self,
        policy: BudgetPolicy,
        count: ClusterCount,
        queue: Sequence[QueuedRequest],
        memory: Memory,
        now: datetime,
    ) -> None:
        self.policy = policy
        self._now = now
        self.rates = Rates(policy, memory.buckets, now)
        fleet = count.cluster.desired if count.cluster else 0
        self._look = correlation.Watch(policy.correlation, count.healthy, fleet, now)
        sightings = correlation.remember(memory.sightings, queue, policy.correlation, now)
        self._memory = replace(
            memory,
            sightings=sightings,
            guards=correlation.watch(memory.guards, sightings, self._look),
            repairs=backoff.remember(memory.repairs, queue, policy.failed_repairs, now),
        )
        self._traits = {item.node: item.traits for item in sightings}
        self._backoff = backoff.Backoff(policy.failed_repairs, self._memory.repairs, now)

    def correlation(self, request: PermitRequest) -> Refusal | None:
        """Whether a common cause is suspected."""
        # A gang asks without traits: those of its nodes were told with their quarantines.
        traits = request.traits or self._traits.get(request.node, {})
        return correlation.refusal(self._memory.guards, request, traits, self._look)

    def failed_repairs(self, ledger: Ledger, request: PermitRequest) -> Refusal | None:
        """Whether repairs like this one have failed."""
        return self._backoff.refusal(ledger, request)

    def peace(self, request: PermitRequest) -> Refusal | None:
        """Whether its job has just started again."""
        if request.restarted_at is None or self._now >= (
            until := request.restarted_at + self.policy.peace_after_restart
        ):
            return None
        return Refusal(
            Limit.RESTARTED,
            f"{request.job} started again at {request.restarted_at:%H:%M:%S} UTC and is left in peace for a while",
            f"It goes on at {until:%Y-%m-%d %H:%M:%S} UTC, or when the job dies; `approve` does not wait for it.",
        )

    def memory(self) -> Memory:
        """What is to be remembered after this pass."""
        return replace(self._memory, buckets=self.rates.buckets())


_UNCOUNTED: Final = Refusal(Limit.UNCOUNTED, "its group could not be counted", "It is counted again by itself.")
_LIMIT, _GUARD = False, True
"""Whether a human's approval lets a request past it. Nobody's lifts what the fleet may lose at once."""


def _refusals(
    pauses: Iterable[Pause], guards: _Guards | None, ledger: Ledger, request: PermitRequest
) -> Iterator[tuple[Refusal, bool]]:
    """All that refuse one part, first those that say the most about why."""
    book = ledger.groups.get(request.group)
    if book is None:
        yield _UNCOUNTED, _LIMIT
        return
    if refusal := _paused(pauses, request):
        yield refusal, _LIMIT
    if guards:
        if refusal := node_refusal(ledger, request):
            yield refusal, _LIMIT
        if refusal := guards.correlation(request):
            yield refusal, _GUARD
        if refusal := guards.failed_repairs(ledger, request):
            yield refusal, _GUARD
        if refusal := guards.peace(request):
            yield refusal, _GUARD
        if refusal := _outside_window(book, request):
            yield refusal, _GUARD
    if ledger.is_free(request):
        return
    if refusal := group_refusal(book, request, alone=guards is None):
        yield refusal, _LIMIT
    if guards:
        if refusal := zone_refusal(ledger, guards.policy, request):
            yield refusal, _LIMIT
        if refusal := cluster_refusal(ledger, guards.policy, request):
            yield refusal, _LIMIT
        if refusal := guards.rates.refusal(request):
            yield refusal, _GUARD


def _paused(pauses: Iterable[Pause], request: PermitRequest) -> Refusal | None:
    for pause in pauses:
        if pause.group is None or pause.group == request.group:
            return Refusal(
                Limit.PAUSED,
                f"{pause.by} paused {pause.place} at {pause.at:%Y-%m-%d %H:%M} UTC: {pause.reason}",
                f"It goes on with `{pause.lifted_by}`.",
            )
    return None


def _outside_window(book: GroupBook, request: PermitRequest) -> Refusal | None:
    opens = book.count.opens_at
    if request.kind is not PermitKind.DISRUPTION or opens is None:
        return None
    return Refusal(
        Limit.WINDOW,
        f"{book.scope.name} may be disturbed in its maintenance windows only",
        f"The next one opens at {opens:%Y-%m-%d %H:%M} UTC; `approve` does not wait for it.",
    )


def _waits(queued: QueuedRequest, refusal: Refusal) -> QueuedRequest:
    if (queued.reason, queued.releases, queued.limit) == (refusal.reason, refusal.releases, refusal.limit):
        return queued
    return queued.model_copy(update={"reason": refusal.reason, "releases": refusal.releases, "limit": refusal.limit})
