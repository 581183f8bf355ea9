"""What humans press, judged by the one table and remembered until the runbook obeys."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from pydantic import ValidationError
from temporalio import workflow

from contract.incident import OverrideRecord
from contract.names import OverrideName, Step
from contract.override import Override
from contract.words import counted
from workflows.override_table import EXAMPLE, EXTENSION_EXAMPLE, STEP_ORDERS, Stand, allowed, why_not
from workflows.step_orders import StepOrder

_SAID_MAX: Final = 200
"""Of what somebody said in an argument that is not valid."""
_APPROVE_QUEUED: Final = "approve-while-queued"
_STEP_ORDERS: Final = "overrides-of-a-step"
_GANG_DEADLINE: Final = "extend-deadline-with-gang"


def as_of_then(stand: Stand, name: OverrideName) -> Stand:
    """Where an incident stands for an override, as the table was when that was pressed: old histories must replay."""
    # Pressed while a permit is waited for, it was refused before 0.2.
    if stand is Stand.QUEUED and name is OverrideName.APPROVE and not workflow.patched(_APPROVE_QUEUED):
        return Stand.RUNNING
    # Before 0.2 these had no handler: a signal of that time must not move what it did not move then.
    if name in STEP_ORDERS and stand is not Stand.CLOSED and not workflow.patched(_STEP_ORDERS):
        return Stand.CLOSED
    # Refused before 0.5, as it is where an incident is held.
    if stand is Stand.WITH_GANG and name is OverrideName.EXTEND_DEADLINE and not workflow.patched(_GANG_DEADLINE):
        return Stand.HELD
    return stand


@dataclass
class OpenGate:
    """A gate that waits: for how many people, and of which plan."""

    approvals: int
    plan: str
    """Digest of the plan that is shown."""
    approved_by: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether enough people have approved."""
        return len(self.approved_by) >= self.approvals

    def knows(self, by: str) -> bool:
        """Whether this person has approved: two people are two names, however they are written."""
        return by.casefold() in (one.casefold() for one in self.approved_by)

    def turn_to(self, plan: str) -> tuple[str, ...]:
        """Show another plan. Returns whose approvals of the one before are void."""
        if plan == self.plan:
            return ()
        voided, self.plan, self.approved_by = tuple(self.approved_by), plan, []
        return voided


@dataclass
class Controls:
    """What humans have pressed and the runbook has yet to obey."""

    held: bool = False
    stop: OverrideName | None = None
    stopped_by: Override | None = None
    approvals: int = 0
    approved_by: Override | None = None
    gate: OpenGate | None = None
    """The gate that waits now; None in incidents from before 0.3, whose approvals named no plan."""
    permit_approval: Override | None = None
    """For the permit that is waited for; it decides nothing about the machine."""
    resumes: int = 0
    order: StepOrder | None = None
    """What is to become of the step that runs or failed."""
    answers: dict[str, "Answer"] = field(default_factory=dict)
    """By act id: the same act sent twice is answered twice and applied once."""

    def told(self, step: Step, name: OverrideName | None = None) -> StepOrder | None:
        """What a human told about a step and was not obeyed yet."""
        return self.order if self.order and self.order.step is step and name in (None, self.order.name) else None


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
    name: OverrideName, payload: object, stand: Stand, controls: Controls, step: Step | None, plan: str = ""
) -> tuple[Answer, bool]:
    """Take one override. Returns what to tell, and whether this is a new act and not one that was taken before.

    ``plan`` is the digest of the plan as of now.

    An act without an id of its own counts as taken before only while it would be refused, or is not obeyed yet:
    pressing `resume` with the same words after the next failure is another act.
    """
    override, problems = _read(name, payload)
    if override is None:
        example = EXTENSION_EXAMPLE if name is OverrideName.EXTEND_DEADLINE else EXAMPLE
        says = f"`{name}` was not applied, its argument is not valid ({problems}). Send {example}."
        return Answer(False, says, *_readable(payload)), True
    act = override.act_id(name)
    known = controls.answers.get(act)
    waits = controls.order is not None and controls.order.override.act_id(controls.order.name) == act
    if known and (override.id or waits or name not in allowed(stand, step)):
        return known, False
    answer = _judge(name, override, stand, step)
    if answer.accepted and name is OverrideName.APPROVE:
        answer = _judge_approval(answer, override, stand, controls, plan)
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
    if override.plan and name is not OverrideName.APPROVE:
        return None, f"plan: goes with `{OverrideName.APPROVE}` alone"
    return override, ""


def _readable(payload: object) -> tuple[str, str]:
    """Who and why, as far as a wrong argument says it: the record names them all the same."""
    said = payload if isinstance(payload, dict) else {}
    by, reason = said.get("by"), said.get("reason")
    return (
        by.strip()[:_SAID_MAX] if isinstance(by, str) and by.strip() else Answer.by,
        reason.strip()[:_SAID_MAX] if isinstance(reason, str) else Answer.reason,
    )


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


def _judge_approval(answer: Answer, override: Override, stand: Stand, controls: Controls, plan: str) -> Answer:
    """An approval is of one plan: of the one that it names, else of the one that is shown."""
    gate = controls.gate if stand is Stand.AT_GATE else None
    look = "Look at it, and approve that one if it is right."
    if override.plan not in ("", plan):
        text = f"`approve` names plan {override.plan}, and the plan is {plan or 'not made'} now. {look}"
        return replace(answer, accepted=False, text=text)
    if gate is None:
        return answer
    if gate.plan != plan:
        text = f"`approve` was too quick: the plan has just changed from {gate.plan} to {plan}. {look}"
        return replace(answer, accepted=False, text=text)
    given, needed = len(gate.approved_by), gate.approvals
    if gate.knows(override.by):
        text = f"`approve` of {override.by} counts once: {given} of {counted(needed, 'approval')} of plan {plan}."
    else:
        given += 1
        text = f"`approve` counts: {given} of {counted(needed, 'approval')} of plan {plan}."
    then = "It goes on." if given >= needed else "Someone else has to approve too."
    return replace(answer, text=f"{text} {then}")


def _apply(name: OverrideName, override: Override, controls: Controls, stand: Stand, step: Step | None) -> None:
    match name:
        case OverrideName.HOLD:
            controls.held = True
        case OverrideName.RESUME:
            controls.held = False
            controls.resumes += 1
        case OverrideName.APPROVE if stand is Stand.QUEUED:
            controls.permit_approval = override
        case OverrideName.APPROVE if stand is Stand.AT_GATE and controls.gate:
            if not controls.gate.knows(override.by):
                controls.gate.approved_by.append(override.by)
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
