"""One try of an act: how it is started, and how it is stopped when it is wanted no more.

Every workflow that runs acts does it by this, an incident's and a gang's alike. Whose decision it is to stop, to try
again or to park is theirs.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import is_cancelled_exception
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from contract.model import Message
    from workflows.failures import failed_while_stopping
    from workflows.timing import RETRY, Timing

R = TypeVar("R", bound=Message)
SUMMARY_MAX = 100


class Interrupted(Exception):  # noqa: N818 - what came in between is no error
    """The act was stopped before it answered: by a human's override, or because what it was asked has changed."""


async def run(name: str, argument: Message, result: type[R] | None, timing: Timing, summary: str) -> R | None:
    """Run an act to its end; nothing stops it but the end of the workflow.

    Raises:
        ActivityError: it failed for good.
    """
    answer: R | None = await _start(name, argument, result, timing, summary, ActivityCancellationType.TRY_CANCEL)
    return answer


async def run_until(
    name: str,
    argument: Message,
    result: type[R],
    timing: Timing,
    summary: str,
    *,
    interrupted: Callable[[], bool],
    failing_is_stopping: Callable[[], bool] = lambda: True,
    waits_when_cancelled: Callable[[], bool] = lambda: True,
    goes_on_when_cancelled: Callable[[], bool] = lambda: False,
) -> R:
    """Run an act that what happens meanwhile may stop.

    Args:
        name: which act.
        argument: what it is asked.
        result: what it answers with.
        timing: its time-outs.
        summary: what it is about, for the Temporal UI.
        interrupted: whether it is wanted no more.
        failing_is_stopping: whether an act that was told to stop and failed counts as stopped; incidents from before
            0.3 took its failure for its own.
        waits_when_cancelled: whether the act has ended before the workflow's own cancellation goes on; gangs from
            before 0.5 did not wait.
        goes_on_when_cancelled: whether the act is left to itself then: past the point of no return.

    Raises:
        ActivityError: it failed for good.
        Interrupted: it was stopped.
    """
    waits = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
    handle: workflow.ActivityHandle[R] = _start(name, argument, result, timing, summary[:SUMMARY_MAX], waits)
    try:
        await workflow.wait_condition(lambda: handle.done() or interrupted())
    except asyncio.CancelledError:
        if not goes_on_when_cancelled():
            handle.cancel()
            if waits_when_cancelled():
                await workflow.wait_condition(handle.done)
        raise
    if not handle.done():
        # It must have stopped before anything else is done: give_back beside a drain would be a race.
        handle.cancel()
        await workflow.wait_condition(handle.done)
        failure = handle.exception()
        if failure and is_cancelled_exception(failure):
            raise Interrupted
        if failed_while_stopping(failure) and failing_is_stopping():
            raise Interrupted
    return handle.result()


def _start(
    name: str,
    argument: Message,
    result: type[Message] | None,
    timing: Timing,
    summary: str,
    cancellation_type: ActivityCancellationType,
) -> workflow.ActivityHandle[Any]:
    return workflow.start_activity(
        name,
        argument,
        result_type=result,
        start_to_close_timeout=timing.start_to_close,
        schedule_to_close_timeout=timing.schedule_to_close,
        heartbeat_timeout=timing.heartbeat,
        retry_policy=RETRY,
        cancellation_type=cancellation_type,
        summary=summary,
    )
