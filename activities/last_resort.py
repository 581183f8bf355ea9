"""What a drain does when pods do not leave: a decision without I/O (D22, D25, D29, D40)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from activities.pod_filters import HANGS_AFTER, Filtered, hangs
from contract.policy import DrainEscalation


class Resort(StrEnum):
    """What to do with what is left."""

    WAIT = "wait"
    ASK_HUMAN = "ask a human"
    DELETE = "delete"
    """Delete the pods that refuse eviction."""
    ABANDON = "abandon"
    """Leave them to the end of the instance."""


@dataclass(frozen=True)
class Limits:
    """When patience ends."""

    end: datetime
    """The drain's deadline and the longest grace period on top."""
    longest_grace: timedelta
    """Of the pods at the start: what is deleted at the end gets as much again, and not for ever."""


def resort(left: Sequence[Filtered], limits: Limits, escalation: DrainEscalation, now: datetime) -> Resort:
    """What to do with the pods that are left."""
    over, hang = now >= limits.end, all(hangs(pod, now) for pod in left)
    match escalation:
        case DrainEscalation.WAIT:
            return Resort.ASK_HUMAN if over else Resort.WAIT
        case DrainEscalation.NEEDS_HUMAN:
            return Resort.ASK_HUMAN if over or hang else Resort.WAIT
        case DrainEscalation.TERMINATE_INSTANCE:
            return Resort.ABANDON if over or hang else Resort.WAIT
        case DrainEscalation.DELETE:
            if hang or now >= limits.end + limits.longest_grace + HANGS_AFTER:
                # Deleting again changes nothing; without its kubelet's word a pod is not removed by force (D22).
                return Resort.ASK_HUMAN
            return Resort.DELETE if over else Resort.WAIT
