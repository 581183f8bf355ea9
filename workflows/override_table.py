"""What humans may press, by where an incident stands and at which step: the one table.

The judge of overrides (``workflows.overrides``), the narrator and docs/overrides.md read it, so that what is offered is
what is taken.
"""

from enum import StrEnum
from typing import Final

from contract.names import OverrideName, Step

EXAMPLE: Final = '{"by": "you", "reason": "why"}'
APPROVAL_EXAMPLE: Final = '{"by": "you", "reason": "why", "plan": "1a2b3c4d"}'
"""``plan`` may be left out: then it is the plan that is shown."""
EXTENSION_EXAMPLE: Final = '{"by": "you", "reason": "why", "extension": "PT30M"}'

DESCRIPTIONS: Final = {
    OverrideName.APPROVE: f"Let the incident go past what waits for a human, or guards the budget. {APPROVAL_EXAMPLE}",
    OverrideName.HOLD: f"Stop before the next step, and wait for resume. {EXAMPLE}",
    OverrideName.RESUME: f"Go on after a hold, or try the failed step again. {EXAMPLE}",
    OverrideName.RETRY_STEP: f"Stop what the step does and start it anew, or try the failed step again. {EXAMPLE}",
    OverrideName.SKIP_STEP: f"Go on without this step, where that can be done without. {EXAMPLE}",
    OverrideName.EXTEND_DEADLINE: f"Give the step more time, at most 24 h. {EXTENSION_EXAMPLE}",
    OverrideName.ABORT: f"End the incident and leave the node quarantined. {EXAMPLE}",
    OverrideName.RELEASE: f"End the incident and give the node back as it was. {EXAMPLE}",
    OverrideName.ACKNOWLEDGE: f"Say that you look at what waits for a human; nothing goes on. {EXAMPLE}",
}

STEP_ORDERS: Final = frozenset({OverrideName.RETRY_STEP, OverrideName.SKIP_STEP, OverrideName.EXTEND_DEADLINE})
"""Those that are about the step at which they are pressed, and mean nothing at another."""


class Stand(StrEnum):
    """Where an incident stands, as far as overrides care."""

    RUNNING = "running"
    """A step runs."""
    QUEUED = "queued"
    """It waits for a permit of the fleet's budget."""
    WITH_GANG = "with-gang"
    """It waits until the gang of its job has its checkpoint."""
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

_SEEN: Final = {OverrideName.ACKNOWLEDGE: "tells the pagers that you look at it; it waits on"}

_BY_STAND: Final[dict[Stand, dict[OverrideName, str]]] = {
    Stand.RUNNING: {OverrideName.HOLD: "stops before the next step and waits for resume", **_STOPS},
    Stand.QUEUED: {
        OverrideName.APPROVE: "goes past what guards the fleet's budget, not past what the fleet may lose at once",
        OverrideName.HOLD: "stops before the next step and waits for resume",
        **_STOPS,
    },
    Stand.WITH_GANG: {OverrideName.HOLD: "stops before the next step and waits for resume", **_STOPS},
    Stand.HELD: {OverrideName.RESUME: "goes on", **_STOPS},
    Stand.AT_GATE: {
        OverrideName.APPROVE: "goes on, once as many people as it asks for have approved the plan that is shown",
        OverrideName.HOLD: "waits for resume, then for the approval",
        **_STOPS,
        **_SEEN,
    },
    Stand.PARKED: {OverrideName.RESUME: "tries again", **_STOPS, **_SEEN},
    Stand.PARKED_UNDECIDED: {
        OverrideName.APPROVE: "has the machine replaced",
        OverrideName.RESUME: "decides again with what is known now",
        **_STOPS,
        **_SEEN,
    },
    Stand.COMMITTED: {},
    Stand.COMMITTED_PARKED: {
        OverrideName.RESUME: "tries again",
        OverrideName.ABORT: "ends the incident as replaced-unverified; the old instance is not coming back",
        **_SEEN,
    },
    Stand.CLOSED: {},
}

_WHY_NOT: Final = {
    Stand.RUNNING: "nothing waits for it",
    Stand.QUEUED: "the incident waits for a permit of the fleet's budget",
    Stand.WITH_GANG: "the job's nodes are asked for one checkpoint together, by the job's DisruptGang",
    Stand.HELD: "the incident is held",
    Stand.AT_GATE: "the incident waits for an approval",
    Stand.PARKED: "a step failed and waits for a human",
    Stand.PARKED_UNDECIDED: "the incident waits for a decision",
    Stand.COMMITTED: "the instance is marked unhealthy, which cannot be undone, and its replacement is on the way",
    Stand.COMMITTED_PARKED: "the instance is already marked unhealthy, which cannot be undone",
    Stand.CLOSED: "the incident is closed, or about to be",
}

SKIPPABLE: Final = {
    Step.SETTLE: "decides with the findings that are here",
    Step.PRESERVE: "goes on without the evidence that is not kept yet",
    Step.CHECKPOINT: "goes on without: what the jobs did since their last checkpoint may be lost",
    Step.DRAIN: "goes on: pods that are still on the node end with the machine",
    Step.VERIFY: "goes on to the end, which is replaced-unverified; the new node keeps its startup taint",
    Step.CLOSE: "ends the incident without having seen the old machine gone",
}
"""Steps that can be done without, and what that means. Identity, quarantine, the decision, leave to disturb the work,
the replacement and its arrival are what makes the rest safe, or the point of it."""

RETRIED_WHILE_IT_RUNS: Final = frozenset(Step) - {Step.SETTLE, Step.ASSESS, Step.RESET_DEVICE, Step.REBOOT}
"""A second reset or reboot in the middle of one would be harm; settling and deciding have nothing to start anew."""

EXTENDABLE: Final = frozenset(
    {
        Step.PRESERVE,
        Step.CHECKPOINT,
        Step.DRAIN,
        Step.REPLACE,
        Step.AWAIT_REPLACEMENT,
        Step.VERIFY,
        Step.CLOSE,
    }
)
"""Steps that wait for something until a deadline of the policy."""

_RETRY_RUNNING: Final = "stops what runs and starts it anew, with its whole deadline"
_EXTEND_RUNNING: Final = "starts what runs anew, with what was left of its deadline and as much more as you say"
_EXTEND_PARKED: Final = "tries again, for as long as you say"


def allowed(stand: Stand, step: Step | None) -> dict[OverrideName, str]:
    """What may be pressed there, and what it does. ``step`` is None between two steps."""
    offers = _BY_STAND[stand] | _orders(stand, step)
    return {name: offers[name] for name in OverrideName if name in offers}


def why_not(name: OverrideName, stand: Stand, step: Step | None) -> str:
    """Why something that is not allowed there is not."""
    runs_or_failed = stand in (Stand.RUNNING, Stand.PARKED, Stand.COMMITTED, Stand.COMMITTED_PARKED)
    if name not in STEP_ORDERS or not runs_or_failed:
        return _WHY_NOT[stand]
    if step is None:
        return "no step runs just now"
    if name is OverrideName.SKIP_STEP and step not in SKIPPABLE:
        return f"{step} is never skipped"
    if name is OverrideName.EXTEND_DEADLINE and step not in EXTENDABLE:
        return f"{step} has no deadline that could be extended"
    if step is Step.REPLACE:
        return "the call that cannot be undone is not made twice"
    return f"{step} cannot be started anew in the middle"


def _orders(stand: Stand, step: Step | None) -> dict[OverrideName, str]:
    """The part of the table that depends on the step."""
    if step is None:
        return {}
    skip = {OverrideName.SKIP_STEP: SKIPPABLE[step]} if step in SKIPPABLE else {}
    match stand:
        case Stand.RUNNING:
            return _while_it_runs(step) | skip
        case Stand.COMMITTED if step is not Step.REPLACE:
            return _while_it_runs(step) | skip
        case Stand.PARKED:
            return _when_it_failed(step) | skip
        case Stand.COMMITTED_PARKED if step is not Step.REPLACE:
            return _when_it_failed(step) | skip
        case Stand.PARKED_UNDECIDED:
            return {OverrideName.RETRY_STEP: "decides again with what is known now"}
        case Stand.WITH_GANG if step is Step.CHECKPOINT:
            return skip | {
                OverrideName.EXTEND_DEADLINE: "has the job's answer waited for so much longer, for all its nodes"
            }
        case Stand.WITH_GANG | Stand.HELD:
            return skip
    return {}


def _while_it_runs(step: Step) -> dict[OverrideName, str]:
    retry = {OverrideName.RETRY_STEP: _RETRY_RUNNING} if step in RETRIED_WHILE_IT_RUNS else {}
    return retry | ({OverrideName.EXTEND_DEADLINE: _EXTEND_RUNNING} if step in EXTENDABLE else {})


def _when_it_failed(step: Step) -> dict[OverrideName, str]:
    more = {OverrideName.EXTEND_DEADLINE: _EXTEND_PARKED} if step in EXTENDABLE else {}
    return {OverrideName.RETRY_STEP: "tries again"} | more
