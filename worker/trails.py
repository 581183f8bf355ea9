"""The trail of an act, kept from one attempt to the next: in heartbeats, in the result, and in the failure.

Temporal's history has no word of an attempt that failed before another succeeded; a heartbeat's details outlive it.
"""

from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from activities.written import Writes
from contract.trail import ERROR_MAX, TRAIL, ActResult, FailedAttempt, Trail

_FAILURE_MAX: Final = 3000
"""Bytes of a failure's sentence and trail: Temporal keeps 4 KB of a failure between two attempts."""
_CANCELLED_MAX: Final = 200


def with_trail(details: tuple[Any, ...], trail: Trail) -> tuple[Any, ...]:
    """Details of a heartbeat, with what the next attempt must know; alone where there is nothing to know."""
    if not (trail.writes or trail.failed):
        return details
    return (*details, {TRAIL: trail.model_dump(mode="json")})


def split(details: tuple[Any, ...]) -> tuple[tuple[Any, ...], Trail]:
    """An act's own details, and the trail behind them."""
    last = details[-1] if details else None
    if isinstance(last, dict) and TRAIL in last:
        try:
            return details[:-1], Trail.model_validate(last[TRAIL])
        except ValidationError:
            return details[:-1], Trail()
    return details, Trail()


class Carried:
    """What acts wrote that were cancelled: Temporal lets such an act say nothing, so the incident's next one tells it.

    Only a worker that runs both knows of it; the audit log of the API server and CloudTrail know always.
    """

    def __init__(self) -> None:
        self._of_run: OrderedDict[str, Trail] = OrderedDict()

    def leave(self, run_id: str, trail: Trail) -> None:
        """Keep it for the next act."""
        if trail.writes or trail.failed:
            self._of_run[run_id] = trail
            while len(self._of_run) > _CANCELLED_MAX:
                self._of_run.popitem(last=False)

    def take(self, run_id: str, trail: Trail) -> Trail:
        """What an act begins with."""
        left = self._of_run.pop(run_id, None)
        return left if left and trail == Trail() else trail


def answered(result: Any, writes: Writes, attempt: int) -> Any:
    """A result with its trail, where it has room for one and there is something to tell."""
    trail = writes.trail.model_copy(update={"attempts": attempt})
    if isinstance(result, ActResult) and trail != Trail():
        return result.model_copy(update={"trail": trail})
    return result


def failing(error: BaseException, writes: Writes, attempt: int) -> Trail:
    """The trail, with this attempt's failure."""
    text = error.message if isinstance(error, ApplicationError) else f"{type(error).__name__}: {error}"
    failed = FailedAttempt(number=attempt, at=datetime.now(UTC), error=text[:ERROR_MAX])
    return writes.trail.failing(failed)


def failed(error: ApplicationError, trail: Trail) -> ApplicationError:
    """The same failure with its trail, as much of it as fits."""
    if error.details:
        return error
    room = max(0, _FAILURE_MAX - len(error.message.encode()))
    return ApplicationError(
        error.message,
        {TRAIL: trail.within(room).model_dump(mode="json")},
        type=error.type,
        non_retryable=error.non_retryable,
        next_retry_delay=error.next_retry_delay,
        category=error.category,
    )
