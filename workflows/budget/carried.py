"""The state of FleetBudget as one message: what it carries to its next run, and what its query answers.

A payload may have two megabytes (Temporal's default limit), and a run that cannot hand over its state stops for ever.
So the next run gets no reasons, which its first pass finds again, and no traits beside those that the sightings have;
of a queue that is longer than all that, the newest ask again by themselves; and what is still large is compressed.
"""

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from contract.budget import Sighting
from contract.permit import BudgetState, PermitKind, QueuedRequest

T = TypeVar("T")

_QUEUE_MAX: Final = 2000
_PLAIN_MAX: Final = 256 * 1024
"""Bytes up to which the state is carried so that a person can read it as the input of the next run."""
_NAMED_MAX: Final = 1000
"""Held permits, and requests that wait, in one answer: about a megabyte and a half where names are long."""


def carry(state: BudgetState) -> BudgetState:
    """What the next run starts from."""
    plain = state.model_copy(update={"queue": pack(state.queue), "carried": True})
    text = plain.model_dump_json()
    if len(text) <= _PLAIN_MAX:
        return plain
    # Not ``carried``: a worker that cannot read it asks the incidents what they hold.
    return BudgetState(
        cluster=state.cluster,
        history_limit=state.history_limit,
        packed=base64.b64encode(zlib.compress(text.encode())).decode(),
    )


def carried(state: BudgetState) -> BudgetState:
    """What the run before carried."""
    if not state.packed:
        return state
    return BudgetState.model_validate_json(zlib.decompress(base64.b64decode(state.packed)))


def answer(state: BudgetState) -> BudgetState:
    """The state as an answer of the query: the oldest of what waits, and of what is held what disturbs work first."""
    held = sorted(state.held, key=lambda item: item.request.kind is not PermitKind.DISRUPTION)
    queue = tuple(
        item.model_copy(update={"request": item.request.model_copy(update={"traits": {}})})
        for item in state.queue[:_NAMED_MAX]
    )
    return state.model_copy(
        update={
            "held": tuple(held[:_NAMED_MAX]),
            "held_unnamed": max(0, len(held) - _NAMED_MAX),
            "queue": queue,
            "queue_unnamed": max(0, len(state.queue) - _NAMED_MAX),
            "outbox": (),
            "sightings": (),
        }
    )


def some_of(items: Sequence[T], number: int, turn: int) -> Sequence[T]:
    """A number of them, others at each turn, so that all have theirs."""
    first = turn * number % max(1, len(items))
    return items[first : first + number]


def pack(queue: Iterable[QueuedRequest]) -> tuple[QueuedRequest, ...]:
    """A queue for the next run."""
    oldest = sorted(queue, key=lambda item: item.asked_at)[:_QUEUE_MAX]
    return tuple(
        QueuedRequest(request=item.request.model_copy(update={"traits": {}}), asked_at=item.asked_at) for item in oldest
    )


def unpack(queue: Iterable[QueuedRequest], sightings: Iterable[Sighting]) -> tuple[QueuedRequest, ...]:
    """The queue with the traits that the sightings kept."""
    traits = {(item.node, item.fault): item.traits for item in sightings}
    return tuple(
        item
        if item.request.traits
        else item.model_copy(
            update={
                "request": item.request.model_copy(
                    update={"traits": traits.get((item.request.node, item.request.fault), {})}
                )
            }
        )
        for item in queue
    )
