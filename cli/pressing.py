"""Pressing an override: as an update, which answers; as a signal where no worker is there to answer."""

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pydantic import ValidationError
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from cli.errors import CommandError
from cli.incidents import Handle
from contract.names import ExitCode, OverrideName
from contract.override import Override

_ANSWER_WITHIN: Final = timedelta(seconds=8)
WHO_AND_WHY: Final = "Say who presses and why: both are in the record."
_REMEDIES: Final = {
    "by": WHO_AND_WHY,
    "reason": WHO_AND_WHY,
    "id": "Give your own identity of this act in at most 100 characters, or none.",
    "extension": "Give a duration such as PT30M or PT2H, at most PT24H.",
    "plan": "Give the digest that the gate shows, such as 1a2b3c4d.",
}
_WRONG: Final = {
    "string_too_short": "is empty",
    "string_too_long": "is too long",
    "time_delta_parsing": "is no duration",
    "greater_than": "is not above zero",
    "less_than_equal": "is too long",
}
"""In words, by pydantic's type of the error."""
_UNANSWERED: Final = frozenset(
    {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED, RPCStatusCode.UNIMPLEMENTED}
)


@dataclass(frozen=True)
class Pressed:
    """What came of it."""

    answer: str
    applied: bool
    """False: it was left as a signal, and a worker decides when there is one."""


async def press_override(
    handle: Handle, name: OverrideName, *, by: str, reason: str, act: str = "", **more: str
) -> Pressed:
    """Press it and return what the incident answers. ``more`` are the fields that only some overrides have.

    Raises:
        CommandError: it was refused, or who or why is missing.
        RPCError: Temporal refuses, or is away.
    """
    try:
        # An id of its own: should the update arrive after all, it and the signal apply once.
        said = {"by": by, "reason": reason, "id": act or uuid.uuid4().hex, **more}
        override = Override.model_validate(said)
    except ValidationError as error:
        wrong = wrong_options(error)
        problems = "; ".join(f"--{option} {what}" for option, what in wrong.items())
        remedy = " ".join(dict.fromkeys(_REMEDIES.get(option, "") for option in wrong)).strip()
        raise CommandError(f"{problems}.", remedy or "Nothing was changed.", ExitCode.USAGE) from error
    try:
        answer: str = await handle.execute_update(name, override, result_type=str, rpc_timeout=_ANSWER_WITHIN)
    except WorkflowUpdateFailedError as error:
        raise CommandError(why_refused(error), "Nothing was changed.", ExitCode.FAILED) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        return await _signal(handle, name, override)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise CommandError(
                f"{handle.id} has ended meanwhile, so `{name}` came too late.",
                f"Nothing was changed. `nodemend report {handle.id}` shows how it ended.",
                ExitCode.FAILED,
            ) from error
        if error.status not in _UNANSWERED:
            raise
        return await _signal(handle, name, override)
    return Pressed(answer, applied=True)


async def _signal(handle: Handle, name: OverrideName, override: Override) -> Pressed:
    await handle.signal(name, override)
    return Pressed(
        f"No worker answered within {_ANSWER_WITHIN.total_seconds():.0f} s, so `{name}` was left as a signal: it is "
        "applied, or refused and recorded, as soon as a worker runs.",
        applied=False,
    )


def wrong_options(error: ValidationError) -> dict[str, str]:
    """What is wrong with each option, in words."""
    return {str(one["loc"][0]): _WRONG.get(one["type"], f"is wrong: {one['msg']}") for one in error.errors()}


def why_refused(error: WorkflowUpdateFailedError) -> str:
    """The sentence that the workflow refused with."""
    return error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
