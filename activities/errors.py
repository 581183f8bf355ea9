"""How acts fail: by type, with a sentence that says what happened, what it means and what can be done."""

from temporalio.exceptions import ApplicationError

from contract.names import NON_RETRYABLE, ErrorType


class ActError(ApplicationError):
    """How an act failed; ``what`` is its message without what an incident's reader is told to do."""

    def __init__(self, kind: ErrorType, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}".rstrip(), type=kind, non_retryable=kind in NON_RETRYABLE)
        self.what = what


def failure(kind: ErrorType, what: str, remedy: str = "") -> ActError:
    """An error of a type that the contract names; whether it is retried follows from the type."""
    return ActError(kind, what, remedy)
