"""Waiting inside an act: it ends at once when the incident cancels the act or the worker is told to stop."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import CancelledError

from activities.errors import failure
from contract.names import ErrorType


def pause(seconds: float) -> None:
    """Wait.

    Raises:
        CancelledError: the incident no longer wants this act.
        ApplicationError: ``Unreachable`` when the worker stops: the retry goes on elsewhere.
    """
    activity.wait_for_cancelled_sync(timedelta(seconds=seconds))
    go_on()


def go_on() -> None:
    """Stop here when the act is no longer wanted; to be called before each thing that changes the world."""
    if activity.is_cancelled():
        raise CancelledError("the incident stopped this act")
    _stop_with_the_worker()


def insist(seconds: float) -> None:
    """Wait though the incident may want the act no more: what was begun has to be brought to its end first.

    Raises:
        ApplicationError: ``Unreachable`` when the worker stops: the retry goes on elsewhere.
    """
    time.sleep(seconds)
    _stop_with_the_worker()


def _stop_with_the_worker() -> None:
    if activity.is_worker_shutdown():
        raise failure(ErrorType.UNREACHABLE, "This worker stops; another one goes on with this act.")


def report_progress(details: dict[str, Any]) -> None:
    """Show details in *Pending Activities*, where a retry finds them too."""
    activity.heartbeat(details)


def deadline(patience: timedelta) -> datetime:
    """When an act that may take this long must be over. Counted from its first scheduling: retries do not move it."""
    return activity.info().scheduled_time + patience


def overdue(moment: datetime) -> bool:
    """Whether a deadline has passed."""
    return datetime.now(UTC) >= moment
