"""Many faults that are one: a roll-out, a switch, a job. Replacing machines for it makes an outage of a mistake.

Two signs. One fault on many nodes within a short time; and faults on nodes that share something which the healthy
nodes do not share. Once seen, everything of the kind waits until nothing new of it has come for a while.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from contract.budget import Guard, HealthyNodes, Limit, Sighting, Traits
from contract.budget_policy import CorrelationGuard
from contract.permit import PermitRequest, QueuedRequest
from workflows.budget.refusal import Refusal

JOB: Final = "job"
IMAGE: Final = "image"
_OF_WORK: Final = frozenset({JOB, IMAGE})
"""Traits of what ran on the node: they are looked at for longer, for each restart of a job takes a while."""
_CHANCE: Final = 0.001
"""Sharing that would come about by chance less often than this is no chance."""
_WORTH_NAMING: Final = 0.5
"""What fewer than this share of the nodes have in common is not worth naming."""
_REMEMBERED: Final = 2000


@dataclass(frozen=True)
class SharedTrait:
    """Something that faulty nodes have in common."""

    trait: str
    value: str
    sharing: int
    of: int
    healthy: int | None
    """Healthy nodes that have it too; None where that is not known."""
    healthy_total: int
    chance: float
    """Of as many sharing it, were they any nodes; 1 where the healthy ones are not known."""

    @property
    def words(self) -> str:
        """As a clause."""
        shared = f"{self.sharing} of {self.of} share {self.trait} {self.value}"
        if self.healthy is None:
            return shared
        return f"{shared}; {self.healthy} of the {self.healthy_total} healthy nodes do"


@dataclass(frozen=True)
class Watch:
    """What the guard sees in one pass."""

    policy: CorrelationGuard
    healthy: HealthyNodes
    fleet: int
    """Nodes of the cluster."""
    now: datetime

    @property
    def many(self) -> int:
        """Nodes with one fault that are too many for chance, in a fleet of this size."""
        return max(self.policy.nodes, math.ceil(self.policy.share * self.fleet))

    def window(self, trait: str = "") -> timedelta:
        """How far back it looks."""
        return self.policy.job_window if trait in _OF_WORK else self.policy.window


def remember(
    sightings: Iterable[Sighting], queue: Iterable[QueuedRequest], policy: CorrelationGuard, now: datetime
) -> tuple[Sighting, ...]:
    """What was seen lately, with what is asked about now. Asking again is not seeing again."""
    oldest = now - max(policy.window, policy.job_window)
    known = {(item.node, item.fault): item for item in sightings if item.at > oldest}
    for item in queue:
        request = item.request
        if request.job:
            # Its nodes were seen when each of them asked for its quarantine.
            continue
        key = request.node, request.fault
        seen = known.get(key)
        if item.asked_at > oldest and (seen is None or seen.incident_id != request.incident_id):
            known[key] = Sighting(
                node=request.node,
                fault=request.fault,
                incident_id=request.incident_id,
                at=item.asked_at,
                traits=request.traits,
            )
    return tuple(sorted(known.values(), key=lambda item: (item.at, item.node, item.fault))[-_REMEMBERED:])


def watch(guards: Sequence[Guard], sightings: Sequence[Sighting], look: Watch) -> tuple[Guard, ...]:
    """The guards as of now: those that are over are cleared, those that go on know what is new, new ones are raised."""
    kept = [_go_on(guard, sightings, look) for guard in guards]
    kept = [guard for guard in kept if guard.cleared_at is None or look.now - guard.cleared_at < look.window(JOB)]
    return (*kept, *_raise(kept, sightings, look))


def refusal(guards: Iterable[Guard], request: PermitRequest, traits: Traits, look: Watch) -> Refusal | None:
    """Whether a guard holds it."""
    for guard in guards:
        if guard.cleared_at is None and _holds(guard, request.fault, traits):
            return Refusal(
                Limit.CORRELATION,
                f"a common cause is suspected: {guard.words}",
                f"Find it first. `approve` lets this node go; without another such fault all go on at "
                f"{guard.last + look.policy.cooldown:%Y-%m-%d %H:%M} UTC.",
            )
    return None


def candidates(sightings: Iterable[Sighting], policy: CorrelationGuard) -> tuple[str, ...]:
    """Jobs that left faults on so many nodes that it matters where else they run."""
    nodes: dict[str, set[str]] = {}
    for item in sightings:
        if job := item.traits.get(JOB):
            nodes.setdefault(job, set()).add(item.node)
    return tuple(sorted(job for job, where in nodes.items() if len(where) >= policy.nodes))


def chance_of_sharing(sharing: int, of: int, base: float) -> float:
    """Upper bound of the chance that as many of ``of`` nodes share what a part ``base`` of all nodes has (Chernoff)."""
    part = sharing / of
    if part <= base:
        return 1.0
    tail = part * math.log(part / base)
    if part < 1:
        tail += (1 - part) * math.log((1 - part) / (1 - base))
    return math.exp(-of * tail)


def _go_on(guard: Guard, sightings: Sequence[Sighting], look: Watch) -> Guard:
    if guard.cleared_at is not None:
        return guard
    matching = [item for item in sightings if _holds(guard, item.fault, item.traits)]
    last = max((item.at for item in matching), default=guard.last)
    if look.now - last >= look.policy.cooldown:
        return guard.model_copy(update={"cleared_at": look.now, "last": last})
    if last == guard.last:
        return guard
    nodes = len({item.node for item in matching if item.at >= guard.since - look.window(guard.trait)})
    words = _fault_words(guard.fault, matching, look) if guard.fault else guard.words
    return guard.model_copy(update={"last": last, "nodes": nodes, "words": words})


def _raise(guards: Sequence[Guard], sightings: Sequence[Sighting], look: Watch) -> Iterator[Guard]:
    """New guards for what no guard explains yet: first for single faults, then for what faulty nodes share."""
    up = [guard for guard in guards if guard.cleared_at is None]
    cleared = {guard.key: guard.cleared_at for guard in guards if guard.cleared_at is not None}
    new = [item for item in sightings if not any(_holds(guard, item.fault, item.traits) for guard in up)]
    for fault in sorted({item.fault for item in new}):
        seen = _recent([item for item in new if item.fault == fault], cleared.get(fault), look.window(), look.now)
        nodes = {item.node for item in seen}
        if len(nodes) >= look.many:
            yield Guard(
                fault=fault,
                since=look.now,
                last=max(item.at for item in seen),
                nodes=len(nodes),
                words=_fault_words(fault, seen, look),
            )
            new = [item for item in new if item.fault != fault]
    # One cause shows in several traits (a driver comes with an image): the most telling one stands for them.
    while shared := _most_telling(new, look, cleared):
        seen = [item for item in new if item.traits.get(shared.trait) == shared.value]
        yield Guard(
            trait=shared.trait,
            value=shared.value,
            since=look.now,
            last=max(item.at for item in seen),
            nodes=shared.sharing,
            words=f"{shared.sharing} nodes failed within {_span(look.window(shared.trait))}, and {shared.words}",
        )
        new = [item for item in new if item.traits.get(shared.trait) != shared.value]


def _most_telling(
    sightings: Sequence[Sighting], look: Watch, cleared: Mapping[str, datetime | None]
) -> SharedTrait | None:
    found = []
    for trait in look.healthy.traits:
        recent = [
            item
            for item in _recent(sightings, None, look.window(trait), look.now)
            if (since := cleared.get(f"{trait}={item.traits.get(trait)}")) is None or item.at > since
        ]
        found += [
            shared
            for shared in shared_trait(trait, recent, look.healthy)
            if shared.sharing >= look.policy.nodes and shared.chance <= _CHANCE
        ]
    return min(found, key=_telling, default=None)


def shared_trait(trait: str, sightings: Iterable[Sighting], healthy: HealthyNodes) -> Iterator[SharedTrait]:
    """What the nodes have in common in one trait, value by value, against the healthy ones."""
    nodes = {item.node: item.traits.get(trait) for item in sightings}
    counts = Counter(value for value in nodes.values() if value)
    known = healthy.traits.get(trait)
    for value, sharing in counts.items():
        # Of jobs and images only those are counted that were asked about.
        also = known.get(value, None if trait in _OF_WORK else 0) if known is not None else None
        # One more of each kind than was seen (Laplace): what was never seen is not impossible.
        chance = 1.0 if also is None else chance_of_sharing(sharing, counts.total(), (also + 1) / (healthy.total + 2))
        yield SharedTrait(trait, value, sharing, counts.total(), also, healthy.total, chance)


def _telling(shared: SharedTrait) -> tuple[float, int, str, str]:
    """Sort key: what says the most comes first. Where the healthy nodes say nothing, what most nodes share."""
    return shared.chance, -shared.sharing, shared.trait, shared.value


def _fault_words(fault: str, seen: Sequence[Sighting], look: Watch) -> str:
    nodes = {item.node for item in seen}
    words = f"{fault} on {len(nodes)} nodes within {_span(look.window())}, {look.many} are too many for chance"
    traits = sorted({trait for item in seen for trait in item.traits})
    found = [shared for trait in traits for shared in shared_trait(trait, seen, look.healthy)]
    telling = [shared for shared in found if shared.sharing >= _WORTH_NAMING * len(nodes)]
    return f"{words}; {min(telling, key=_telling).words}" if telling else words


def _recent(sightings: Iterable[Sighting], after: datetime | None, window: timedelta, now: datetime) -> list[Sighting]:
    return [item for item in sightings if now - item.at <= window and (after is None or item.at > after)]


def _holds(guard: Guard, fault: str, traits: dict[str, str]) -> bool:
    return guard.fault == fault if guard.fault else traits.get(guard.trait) == guard.value


def _span(duration: timedelta) -> str:
    minutes = round(duration / timedelta(minutes=1))
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:g} h"
