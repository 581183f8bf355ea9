"""After a decision in mode shadow: what the world did with the node, so that the decision can be scored.

The incident stays open meanwhile, and what is reported of the node joins it. Where the policy has come to act, what
joined is for an incident that acts: it begins anew in the same place, and nothing is lost between two of them.
"""

from datetime import datetime
from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract.aftermath import Aftermath, Fate, SeeAftermath, Seen
    from contract.incident import StepStatus
    from contract.names import ActivityName, Step
    from workflows.incident_state import Incident
    from workflows.step_orders import Deadline, StepSkipped
    from workflows.step_runner import StepRunner

LOOKS: Final = 24
"""Looks at the node within the policy's window: each costs six events of the history."""
_EVENTS_MAX: Final = 10_000
"""A fault that is reported each minute for days must not fill a history: then it is followed no longer."""
_WELL: Final = frozenset({Fate.RECOVERED, Fate.REBOOTED})


async def follow(incident: Incident, runner: StepRunner, decided: str) -> bool:
    """Look on for as long as the policy says. True where the policy acts by now and something joined since.

    Raises:
        IncidentEnded: a human ended the incident.
    """
    window = incident.policy.follow_shadow
    # A rehearsal says nothing about the machine: nothing that becomes of it bears the decision out.
    if not window or incident.request.drill or incident.identity is None:
        return False
    if not workflow.patched("shadow-is-followed"):
        return False
    deadline, began = Deadline(window), workflow.now()
    heard_first = _heard(incident)
    heard_then: int | None = None
    fate: Fate | None = None
    since = began
    seen: Seen | None = None
    while workflow.info().get_current_history_length() < _EVENTS_MAX:
        until = began + deadline.now
        if workflow.now() >= until:
            break
        says = f"{decided} Looking on what becomes of the node until {until:%Y-%m-%d %H:%M} UTC."
        try:
            await runner.pause(Step.CLOSE, min(deadline.now / LOOKS, until - workflow.now()), says)
        except StepSkipped:
            break
        if runner.moved(Step.CLOSE, deadline, workflow.now() - began):
            began = workflow.now()
        look = await runner.afterwards(
            ActivityName.SEE_AFTERMATH, SeeAftermath(identity=incident.identity), Seen, "what became of it"
        )
        if look is None:
            continue
        seen = look
        if look.fate is not fate:
            fate, since = look.fate, workflow.now()
        if look.fate is Fate.REPLACED or look.acts_now:
            break
        # The fault's own last lines come within the first stretch: what is heard after it is the fault again.
        heard_then = _heard(incident) if heard_then is None else heard_then
    if seen is not None:
        incident.aftermath = _concluded(seen, since, came_back=heard_then is not None and _heard(incident) > heard_then)
        incident.facts["afterwards"] = incident.aftermath.explanation
    incident.end(Step.CLOSE, workflow.now(), decided, StepStatus.SHADOWED)
    anew = seen is not None and seen.acts_now and _heard(incident) > heard_first
    if anew:
        # It takes the policy whole: what holds a running incident to the tighter one would keep it in shadow.
        incident.mode = None
    return anew


def _concluded(seen: Seen, since: datetime, *, came_back: bool) -> Aftermath:
    """A node that looks well and on which the fault showed again is not well."""
    failing = came_back and seen.fate in _WELL
    return Aftermath(
        fate=Fate.STILL_FAILING if failing else seen.fate,
        at=since,
        followed_until=workflow.now(),
        explanation=f"{seen.explanation} But the fault showed again." if failing else seen.explanation,
    )


def _heard(incident: Incident) -> int:
    """How often the node's faults were seen, as far as it was reported."""
    return sum(finding.count for finding in incident.findings)
