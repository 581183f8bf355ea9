"""How acts fail: by type, with a sentence that says what happened, what it means and what can be done."""

from temporalio.exceptions import ApplicationError

from contract.names import NON_RETRYABLE, ErrorType


def failure(kind: ErrorType, message: str) -> ApplicationError:
    """An error of a type that the contract names; whether it is retried follows from the type."""
    return ApplicationError(message, type=kind, non_retryable=kind in NON_RETRYABLE)
