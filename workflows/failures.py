"""What the failure of an act means to its incident: an end, something that passes, or a human's turn."""

from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, RetryState

with workflow.unsafe.imports_passed_through():
    from contract.names import NON_RETRYABLE, ErrorType, Outcome

ENDS: Final = {
    ErrorType.NODE_GONE: Outcome.NODE_GONE,
    ErrorType.HUMAN_VETO: Outcome.VETOED,
    ErrorType.OWNED_BY_ANOTHER: Outcome.REFUSED,
    ErrorType.FENCED_OUT: Outcome.REFUSED,
}
"""Failures that are answers: nothing is left to do, and a human would only confirm it."""

TRANSIENT: Final = frozenset({ErrorType.UNREACHABLE, ErrorType.CONFLICT, ErrorType.BUDGET_UNAVAILABLE})
"""Failures that pass by themselves: a parked step tries again when it escalates."""

NOT_DONE: Final = frozenset(ErrorType(name) for name in NON_RETRYABLE)
"""The irreversible act first looks whether its call was made before; so an answer of these types means it was not."""


class IncidentEnded(Exception):  # noqa: N818 - it is not an error: it is how the runbook stops early
    """The runbook stops here, with this outcome."""

    def __init__(self, outcome: Outcome, summary: str) -> None:
        super().__init__(summary)
        self.outcome = outcome
        self.summary = summary


def describe(error: ActivityError) -> tuple[ErrorType | None, str]:
    """The type and the sentence of a failed act; no type where it timed out."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        known = ErrorType(cause.type) if cause.type in set(ErrorType) else None
        return known, cause.message
    return None, f"{error.activity_type} did not finish in time ({cause or error})."


def failed_while_stopping(failure: BaseException | None) -> bool:
    """Whether an act that was told to stop failed in place of saying so, or its worker died: it is not tried again."""
    return isinstance(failure, ActivityError) and failure.retry_state is RetryState.CANCEL_REQUESTED
