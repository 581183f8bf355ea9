"""How long each act may take and how it is tried again: one table.

Every act beats by itself every few seconds (``worker.interceptors``), so ten silent seconds mean a dead worker, and
the act moves to another one; twenty, for an act that is over within a minute: each beat is a write of Temporal's, and
in a storm they were a fifth of all. An act that waits gets its deadline from the policy and keeps it over retries.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from temporalio.common import RetryPolicy

from contract.names import NON_RETRYABLE

HEARTBEAT: Final = timedelta(seconds=10)
PERMIT_PATIENCE: Final = timedelta(days=30)
_QUICK: Final = timedelta(minutes=1)
_OUTAGE: Final = timedelta(minutes=30)
"""How long an outage of Kubernetes or AWS may last before a human is asked."""
_MARGIN: Final = timedelta(hours=24)
"""Room for the longest grace period of a pod, and for workers that are away."""

RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    non_retryable_error_types=list(NON_RETRYABLE),
)


@dataclass(frozen=True)
class Timing:
    """Time-outs of one act."""

    start_to_close: timedelta
    schedule_to_close: timedelta
    heartbeat: timedelta = HEARTBEAT


QUICK: Final = Timing(start_to_close=_QUICK, schedule_to_close=_OUTAGE, heartbeat=2 * HEARTBEAT)
PERMIT: Final = Timing(start_to_close=timedelta(minutes=5), schedule_to_close=PERMIT_PATIENCE)


def until(deadline: timedelta) -> Timing:
    """For an act that waits by itself until its own deadline and fails then."""
    return Timing(start_to_close=deadline + _MARGIN, schedule_to_close=deadline + _MARGIN + _OUTAGE)
