"""Takes the trail of an act out of its answer or its failure, for the report."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from contract.names import Step
    from contract.trail import ERROR_MAX, TRAIL, ActRecord, ActResult, Trail
    from workflows.failures import describe

R = TypeVar("R")


class Keeper(Protocol):
    """What keeps the acts of a workflow."""

    def keep_act(self, record: ActRecord) -> None:
        """Keep one."""


def answered(keeper: Keeper, act: str, step: Step | None, answer: R) -> R:
    """An act's answer without its trail, which goes into the report where there is one."""
    if not isinstance(answer, ActResult) or answer.trail is None:
        return answer
    keeper.keep_act(ActRecord(act=act, step=step, at=workflow.now(), trail=answer.trail))
    bare: R = answer.model_copy(update={"trail": None})
    return bare


def failed(keeper: Keeper, act: str, step: Step | None, error: ActivityError) -> None:
    """An act failed for good, or timed out: keep why, and its trail."""
    cause = error.cause
    told: Sequence[object] = ()
    if isinstance(cause, ApplicationError):
        told = cause.details
    elif isinstance(cause, TimeoutError):
        told = cause.last_heartbeat_details
    text = describe(error)[1][:ERROR_MAX]
    keeper.keep_act(ActRecord(act=act, step=step, at=workflow.now(), error=text, trail=_trail(told)))


def _trail(details: Sequence[object]) -> Trail:
    last = details[-1] if details else None
    if isinstance(last, dict) and TRAIL in last:
        try:
            return Trail.model_validate(last[TRAIL])
        except ValidationError:
            return Trail()
    return Trail()
