"""Every override as a signal and as an update of the same name, made from the one table.

A signal works while workers are down; an update answers at once. Both take their argument untyped, because a payload
that does not decode would be dropped with a log line, and a human's act must be answered and recorded.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from contract.names import ErrorType, OverrideName
    from workflows.override_table import DESCRIPTIONS
    from workflows.overrides import Answer


_NAME_MAX: Final = 60


class Overridable(Protocol):
    """A workflow that takes overrides."""

    def take_override(self, name: OverrideName, payload: object) -> Answer:
        """Apply or refuse it."""
        ...


C = TypeVar("C", bound=type)


def answers_overrides(cls: C) -> C:
    """Give a workflow class the signal and the update handler of each override. Goes under ``workflow.defn``."""
    for name in OverrideName:
        setattr(cls, f"{name}_signal", _signal(name))
        setattr(cls, f"{name}_update", _update(name))
    cls.unknown_signal = _unknown_signal()  # type: ignore[attr-defined]
    return cls


def unknown(name: str) -> str:
    """What the record says of a signal that nothing takes. Pure."""
    meant = name.strip().lower().replace("-", "_").replace(" ", "_")
    hint = f": `{meant}` is what was meant" if meant in set(OverrideName) else ""
    return f"A signal `{name[:_NAME_MAX]}` came, nothing has that name, and nothing was done{hint}."


def _unknown_signal() -> Any:
    @workflow.signal(dynamic=True, description="Nothing: a name that is not one of the others is noted.")
    def take(self, name: str, _arguments: Sequence[RawValue]) -> None:  # type: ignore[no-untyped-def]
        self._incident.note(unknown(name))

    return take


def _signal(name: OverrideName) -> Any:
    @workflow.signal(name=name, description=DESCRIPTIONS[name])
    def take(self: Overridable, argument: Any = None) -> None:
        self.take_override(name, argument)

    return take


def _update(name: OverrideName) -> Any:
    @workflow.update(name=name, description=DESCRIPTIONS[name])
    def take(self: Overridable, argument: Any = None) -> str:
        answer = self.take_override(name, argument)
        if not answer.accepted:
            raise ApplicationError(answer.text, type=ErrorType.OVERRIDE_REFUSED, non_retryable=True)
        return answer.text

    return take
