"""What humans may press, when, and what it does: one table, read by signals, updates, refusals and the narrator."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import ValidationError

from contract.incident import OverrideRecord
from contract.names import OverrideName, Step
from contract.override import Override

EXAMPLE: Final = '{"by": "you", "reason": "why"}'

DESCRIPTIONS: Final = {
    OverrideName.APPROVE: f"Let the incident go past what waits for a human, or guards the budget. {EXAMPLE}",
    OverrideName.HOLD: f"Stop before the next step, and wait for resume. {EXAMPLE}",
    OverrideName.RESUME: f"Go on after a hold, or try the failed step again. {EXAMPLE}",
    OverrideName.ABORT: f"End the incident and leave the node quarantined. {EXAMPLE}",
    OverrideName.RELEASE: f"End the incident and give the node back as it was. {EXAMPLE}",
}


class Stand(StrEnum):
    """Where an incident stands, as far as overrides care."""

    RUNNING = "running"
    """A step runs."""
    QUEUED = "queued"
    """It waits for a permit of the fleet's budget."""
    HELD = "held"
    AT_GATE = "at-gate"
    """The policy wants an approval here."""
    PARKED = "parked"
    """A step failed, or the plan asks for a human."""
    PARKED_UNDECIDED = "parked-undecided"
    """Parked by a plan that an approval would turn into a replacement."""
    COMMITTED = "committed"
    """Past the point of no return: the instance is being replaced."""
    COMMITTED_PARKED = "committed-parked"
    """Past the point of no return, and a step failed."""
    CLOSED = "closed"


_STOPS: Final = {
    OverrideName.ABORT: "ends the incident; the node stays quarantined",
    OverrideName.RELEASE: "ends the incident; the node is given back as it was",
}

ALLOWED: Final[dict[Stand, dict[OverrideName, str]]] = {
    Stand.RUNNING: {OverrideName.HOLD: "stops before the next step and waits for resume", **_STOPS},
    Stand.QUEUED: {
        OverrideName.APPROVE: "goes past what guards the fleet's budget, not past what the fleet may lose at once",
        OverrideName.HOLD: "stops before the next step and waits for resume",
        **_STOPS,
    },
    Stand.HELD: {OverrideName.RESUME: "goes on", **_STOPS},
    Stand.AT_GATE: {
        OverrideName.APPROVE: "goes on",
        OverrideName.HOLD: "waits for resume, then for the approval",
        **_STOPS,
    },
    Stand.PARKED: {OverrideName.RESUME: "tries again", **_STOPS},
    Stand.PARKED_UNDECIDED: {
        OverrideName.APPROVE: "has the machine replaced",
        OverrideName.RESUME: "decides again with what is known now",
        **_STOPS,
    },
    Stand.COMMITTED: {},
    Stand.COMMITTED_PARKED: {
        OverrideName.RESUME: "tries again",
        OverrideName.ABORT: "ends the incident as replaced-unverified; the old instance is not coming back",
    },
    Stand.CLOSED: {},
}

_WHY_NOT: Final = {
    Stand.RUNNING: "nothing waits for it",
    Stand.QUEUED: "the incident waits for a permit of the fleet's budget",
    Stand.HELD: "the incident is held",
    Stand.AT_GATE: "the incident waits for an approval",
    Stand.PARKED: "a step failed and waits for a human",
    Stand.PARKED_UNDECIDED: "the incident waits for a decision",
    Stand.COMMITTED: "the instance is marked unhealthy, which cannot be undone, and its replacement is on the way",
    Stand.COMMITTED_PARKED: "the instance is already marked unhealthy, which cannot be undone",
    Stand.CLOSED: "the incident is closed",
}


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

    An act without an id of its own counts as taken before only while it would be refused: pressing `resume` with the
    same words after the next failure is another act.
    """
    try:
        override = Override.model_validate(payload)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'argument'}: {item['msg']}" for item in error.errors()
        )
        text = f"`{name}` was not applied, its argument is not valid ({problems}). Send {EXAMPLE}."
        return Answer(False, text), True
    act = override.act_id(name)
    known = controls.answers.get(act)
    if known and (override.id or name not in ALLOWED[stand]):
        return known, False
    answer = _judge(name, override, stand, step)
    if answer.accepted:
        controls.answers[act] = answer
        _apply(name, override, controls, stand)
    return answer, True


def _judge(name: OverrideName, override: Override, stand: Stand, step: Step | None) -> Answer:
    allowed = ALLOWED[stand]
    if name in allowed:
        return Answer(True, f"`{name}` {allowed[name]}.", override.by, override.reason)
    now = ", ".join(f"`{other}`" for other in allowed) or "nothing"
    at = f" at {step}" if step else ""
    return Answer(
        False,
        f"`{name}` is not possible{at}: {_WHY_NOT[stand]}. Possible now: {now}.",
        override.by,
        override.reason,
    )


def _apply(name: OverrideName, override: Override, controls: Controls, stand: Stand) -> None:
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
