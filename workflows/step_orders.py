"""What a human told about the step that runs, until it is obeyed, and how it moves the step's deadline. Plain state."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, Final, Protocol, TypeVar

from contract.names import OverrideName, Step
from contract.override import Override

_LEAST: Final = timedelta(seconds=1)


class StepSkipped(Exception):  # noqa: N818 - it is not an error: it is how a step ends early
    """The step is left out; the runbook goes on with the next."""

    def __init__(self, step: Step, override: Override) -> None:
        super().__init__(f"{step} is skipped")
        self.step = step
        self.override = override


class Runbook(Protocol):
    """Whatever has steps."""

    def leave_out(self, skipped: StepSkipped) -> None:
        """Say that a step was left out."""


B = TypeVar("B", bound=Runbook)


def skippable(step: Callable[[B], Awaitable[None]]) -> Callable[[B], Coroutine[Any, Any, None]]:
    """A step that a human may have left out: it ends there, and the next one is due."""

    @wraps(step)
    async def run(self: B) -> None:
        try:
            await step(self)
        except StepSkipped as skipped:
            self.leave_out(skipped)

    return run


@dataclass(frozen=True)
class StepOrder:
    """``retry_step``, ``skip_step`` or ``extend_deadline``, for the step at which it was pressed."""

    name: OverrideName
    step: Step
    override: Override

    def after(self, earlier: "StepOrder | None") -> "StepOrder":
        """This order where another is not obeyed yet: the last word counts, and extensions add up."""
        mine = self.override.extension
        before = (
            earlier.override.extension if earlier and (earlier.name, earlier.step) == (self.name, self.step) else None
        )
        if mine is None or before is None:
            return self
        return StepOrder(self.name, self.step, self.override.model_copy(update={"extension": mine + before}))


class Deadline:
    """How long a step's act may take: the policy's time, less what an interrupted try used, and what humans added."""

    def __init__(self, whole: timedelta) -> None:
        self._whole = whole
        self._used = timedelta(0)
        self._added = timedelta(0)

    @property
    def added(self) -> timedelta:
        """What humans have added to it so far."""
        return self._added

    @property
    def now(self) -> timedelta:
        """For the act that starts now."""
        return self.of(self._whole)

    def of(self, whole: timedelta) -> timedelta:
        """The same for another time of the same act."""
        return max(whole + self._added - self._used, _LEAST)

    def renew(self) -> None:
        """All of it again."""
        self._used = self._added = timedelta(0)

    def obey(self, order: StepOrder | None, ran: timedelta | None) -> None:
        """Before the act is started anew: how long it may take now. ``ran`` is None where it failed."""
        if order and order.name is OverrideName.EXTEND_DEADLINE:
            assert order.override.extension is not None
            self.extend(order.override.extension, ran)
        elif ran is None or (order and order.name is OverrideName.RETRY_STEP):
            self.renew()

    def extend(self, extension: timedelta, ran: timedelta | None) -> None:
        """More, on top of what an interrupted act left; nothing is left by one that failed (``ran`` is None)."""
        self._used += self.now if ran is None else min(ran, self.now)
        self._added += extension
