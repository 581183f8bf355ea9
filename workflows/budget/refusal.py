"""Why a request must wait, for people and for programs."""

from dataclasses import dataclass

from contract.budget import Limit


@dataclass(frozen=True)
class Refusal:
    """One limit's no."""

    limit: Limit
    reason: str
    releases: str
    """What would release it, as a sentence."""
