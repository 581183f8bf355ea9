"""A hang whose cause is another node: who it may be is told to a human, once per job, and nothing is done here.

The incident is of the node that complained, and that node is not what failed. It says whom to look at, and why; the
culprit's own findings start the culprit's own incident.
"""

from collections.abc import Callable
from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract.culprit import CulpritSearch
    from contract.names import OverrideName, Step
    from contract.policy import Mode
    from contract.words import counted
    from workflows.incident_state import Incident
    from workflows.needs_human import way_on
    from workflows.step_runner import StepRunner

FACT: Final = "culprit"


async def ask_about_culprit(incident: Incident, runner: StepRunner, changed: Callable[[], bool]) -> bool:
    """Record whom the search found, and ask a human where that is due. True once it is to be looked at again."""
    found = incident.search
    if found is None:
        return False
    says = named(found)
    incident.facts[FACT] = says
    if incident.mode is not Mode.ACT or not asks(found):
        return False
    on = way_on(OverrideName.RESUME, incident.request.node)
    await runner.park(Step.ASSESS, f"{says} {remedy(found)} {on}", changed=changed)
    return True


def asks(found: CulpritSearch) -> bool:
    """Whether a human has to look: somebody is suspected, and no incident has it or asks about it yet."""
    return bool(found.suspects) and not found.others_ask and not any(item.incident for item in found.suspects)


def named(found: CulpritSearch) -> str:
    """Whom the search found, with the evidence."""
    if not found.suspects:
        return f"Nothing is seen against any of the {counted(found.nodes, 'other node')} of {found.job}."
    likely = [
        f"{item.node} ({item.instance_id or 'no known instance'}: {'; '.join(item.evidence)}"
        + (f"; its incident is {item.incident}" if item.incident else "")
        + ")"
        for item in found.suspects
    ]
    verb = "is the likely culprit" if len(likely) == 1 else "are equally likely culprits"
    return f"Of the {counted(found.nodes, 'other node')} of {found.job}, {' and '.join(likely)} {verb}."


def remedy(found: CulpritSearch) -> str:
    """What a human can do."""
    which = " or ".join(item.node for item in found.suspects)
    return (
        f"Nothing was done to any node. Look at {which}, have it replaced where it is bad, and start the job again. "
        "Press `abort` here when that is done, or `resume` to have the job's nodes looked at again."
    )
