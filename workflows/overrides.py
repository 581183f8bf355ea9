"""What humans press, judged by the one table and remembered until the runbook obeys."""

from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from contract.incident import OverrideRecord
from contract.names import OverrideName, Step
from contract.override import Override
from workflows.override_table import EXAMPLE, EXTENSION_EXAMPLE, STEP_ORDERS, Stand, allowed, why_not
from workflows.step_orders import StepOrder


@dataclass
class Controls:
    """What humans have pressed and the runbook has yet to obey."""

    held: bool = False
    stop: OverrideName | None = None
    stopped_by: Override | None = None
    approvals: int = 0
    approved_by: Override | None = None
    permit_approval: Override | None = None
    """For the permit that is waited for; it decides nothing about the machine."""
    resumes: int = 0
    order: StepOrder | None = None
    """What is to become of the step that runs or failed."""
    answers: dict[str, "Answer"] = field(default_factory=dict)
    """By act id: the same act sent twice is answered twice and applied once."""


@dataclass(frozen=True)
class Answer:
    """What came of pressing."""

    accepted: bool
    text: str
    by: str = "unknown"
    reason: str = ""

    def record(self, name: OverrideName, now: datetime) -> OverrideRecord:
        """What the incident's record keeps of it."""
        return OverrideRecord(
            name=name, by=self.by, reason=self.reason, at=now, accepted=self.accepted, answer=self.text
        )


def press(
    name: OverrideName, payload: object, stand: Stand, controls: Controls, step: Step | None
) -> tuple[Answer, bool]:
    """Take one override. Returns what to tell, and whether this is a new act and not one that was taken before.

    An act without an id of its own counts as taken before only while it would be refused, or is not obeyed yet:
    pressing `resume` with the same words after the next failure is another act.
    """
    override, problems = _read(name, payload)
    if override is None:
        example = EXTENSION_EXAMPLE if name is OverrideName.EXTEND_DEADLINE else EXAMPLE
        return Answer(False, f"`{name}` was not applied, its argument is not valid ({problems}). Send {example}."), True
    act = override.act_id(name)
    known = controls.answers.get(act)
    waits = controls.order is not None and controls.order.override.act_id(controls.order.name) == act
    if known and (override.id or waits or name not in allowed(stand, step)):
        return known, False
    answer = _judge(name, override, stand, step)
    if answer.accepted:
        controls.answers[act] = answer
        _apply(name, override, controls, stand, step)
    return answer, True


def _read(name: OverrideName, payload: object) -> tuple[Override | None, str]:
    """The argument, or what is wrong with it."""
    try:
        override = Override.model_validate(payload)
    except ValidationError as error:
        return None, "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'argument'}: {item['msg']}" for item in error.errors()
        )
    extends = name is OverrideName.EXTEND_DEADLINE
    if extends and override.extension is None:
        return None, "extension: say how much more, e.g. PT30M for half an hour"
    if override.extension is not None and not extends:
        return None, f"extension: goes with `{OverrideName.EXTEND_DEADLINE}` alone"
    return override, ""


def _judge(name: OverrideName, override: Override, stand: Stand, step: Step | None) -> Answer:
    offers = allowed(stand, step)
    if name in offers:
        return Answer(True, f"`{name}` {offers[name]}.", override.by, override.reason)
    now = ", ".join(f"`{other}`" for other in offers) or "nothing"
    at = f" at {step}" if step else ""
    return Answer(
        False,
        f"`{name}` is not possible{at}: {why_not(name, stand, step)}. Possible now: {now}.",
        override.by,
        override.reason,
    )


def _apply(name: OverrideName, override: Override, controls: Controls, stand: Stand, step: Step | None) -> None:
    match name:
        case OverrideName.HOLD:
            controls.held = True
        case OverrideName.RESUME:
            controls.held = False
            controls.resumes += 1
        case OverrideName.APPROVE if stand is Stand.QUEUED:
            controls.permit_approval = override
        case OverrideName.APPROVE:
            controls.approvals += 1
            controls.approved_by = override
        case OverrideName.ABORT | OverrideName.RELEASE:
            controls.stop = name
            controls.stopped_by = override
        case OverrideName.ACKNOWLEDGE:
            pass  # That it is in the record is all of it.
        case _ if name in STEP_ORDERS and step:
            controls.order = StepOrder(name, step, override).after(controls.order)
