"""Which of the launched machines an incident takes for its replacement, when many incidents look at once. Pure.

No API says which launch is in the place of which instance, so the incidents of a group share what it launches: each
takes one, none takes two, and nobody is left without one because a neighbour was quicker.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A launched machine that has joined the cluster, as its Node tells of it."""

    instance_id: str
    zone: str
    claimed_by: str | None
    """The incident whose replacement it is already."""
    failing: bool = False
    """Whether an incident has it replaced in its turn."""


@dataclass(frozen=True)
class Offer:
    """What there is for one incident at one look."""

    launched: tuple[Candidate, ...] = ()
    """Since its survey, the likeliest first."""
    left_over: tuple[Candidate, ...] = ()
    """Launched before its survey in the place of a neighbour's machine."""
    to_join: bool = False
    """Whether one that was launched since its survey has yet to join."""
    complete: bool = False
    """Whether its group has all it wants, so that no other launch will come."""


def in_order_of_claim(offer: Offer, incident: str, zone: str, *, last_chance: bool) -> list[Candidate]:
    """Those that the incident may claim now, the one to try first in front; their order is kept otherwise.

    One that the incident claimed before its worker went away is its own. What is left over by a neighbour is taken
    when all that came since was taken by others. A machine in another zone than the one that failed cannot be proven
    (V2) and may be what an incident of that zone waits for: as long as there is time it is left to them, and taken at
    the last moment alone, so that a human is told of a machine and not of none.
    """
    if own := [c for c in (*offer.launched, *offer.left_over) if c.claimed_by == incident]:
        return own
    free = [c for c in offer.launched if c.claimed_by is None and not c.failing]
    here = [c for c in free if zone in ("", c.zone)]
    if not here and not offer.to_join and offer.complete:
        here = [c for c in offer.left_over if c.claimed_by is None and not c.failing and zone in ("", c.zone)]
    return [*here, *(c for c in free if last_chance and c not in here)]
