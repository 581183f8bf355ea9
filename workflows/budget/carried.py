"""The state of FleetBudget as one message: what it carries to its next run, and what its query answers.

A payload may have two megabytes. So the next run gets no reasons, which its first pass finds again, and no traits
beside those that the sightings have; and of a queue that is longer than all that, the newest ask again by themselves.
"""

from collections.abc import Iterable
from typing import Final

from contract.budget import Sighting
from contract.permit import QueuedRequest

_QUEUE_MAX: Final = 2000


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
