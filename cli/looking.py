"""One look at one incident: what it says, what it waits for, and how its workflow stands in Temporal.

By query while workers run, else from memo and result, so that it can be read without them.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from pydantic import ValidationError
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.forced_end import WORDS, closed_by_force, forced_end
from activities.memo import memo_of
from cli.incidents import QUERY_PATIENCE, Handle, Listed
from contract.incident import IncidentReport
from contract.names import INCIDENT_QUERY, Outcome, Phase
from contract.trail import TRAIL

_ASKED_MAX: Final = 30
"""As many incidents are asked at once how they stand: more would keep workers from their work."""
_GLANCE: Final = timedelta(seconds=1)
"""For their answers: the whole fleet is to be there in two seconds, without workers too."""
_PATIENCE: Final = timedelta(seconds=5)
"""With Temporal itself: the SDK's own retries would be silent for longer."""


@dataclass(frozen=True)
class Look:
    """An incident at one moment."""

    incident_id: str
    status: WorkflowExecutionStatus | None
    report: IncidentReport | None
    waits: tuple[str, ...] = ()
    """Its running acts, each with what it says about itself."""
    answered: bool = True
    """Whether a worker answered; else the report is the newest that was noted."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.status is not WorkflowExecutionStatus.RUNNING

    @property
    def trouble(self) -> str:
        """Why it ended without a closing report, and what that means; empty where it did not."""
        outcome = self.report.outcome if self.report else None
        if not self.over or outcome not in (None, Outcome.TERMINATED):
            return ""
        how = WORDS.get(self.status, "ended") if self.status else "ended"
        return (
            f"The workflow {how} in Temporal, so nothing was cleaned up. The node may still be quarantined, its work "
            "may be half moved. Look at the node (annotation nodemend.io/owner): within ten minutes the schedule "
            "reap-orphans-<cluster> starts the incident again where its fault holds, and gives the node back where it "
            "does not; a new finding starts it at once."
        )


async def look(handle: Handle) -> Look:
    """Look once. One that was ended from outside is shown closed by that.

    Raises:
        RPCError: Temporal does not answer, or does not have it any more.
    """
    description = await handle.describe(rpc_timeout=_PATIENCE)
    seen = await _seen(handle, description)
    if seen.report is None or seen.report.outcome or seen.status not in WORDS:
        return seen
    run = handle._client.get_workflow_handle(handle.id, run_id=description.run_id)
    return replace(seen, report=closed_by_force(seen.report, await forced_end(run, seen.status)))


async def as_of_now(found: Sequence[Listed]) -> list[Listed]:
    """The same, the newest that work as their workers know them: the memo is written where an incident changes phase.

    The rest, and what no worker answers for, stay as noted. What waits for a human was noted when it began to.
    """
    works = [one for one in found if one.is_open and not (one.report and one.report.phase is Phase.NEEDS_HUMAN)]
    asked = works[:_ASKED_MAX]
    reports = await asyncio.gather(*(_live(one.handle) for one in asked))
    live = {one.handle.id: report for one, report in zip(asked, reports, strict=True) if report}
    return [replace(one, report=live.get(one.handle.id, one.report)) if one.is_open else one for one in found]


async def _live(handle: Handle) -> IncidentReport | None:
    try:
        report: IncidentReport = await handle.query(INCIDENT_QUERY, result_type=IncidentReport, rpc_timeout=_GLANCE)
    except (WorkflowQueryFailedError, RPCError):
        return None
    return report


async def _seen(handle: Handle, description: WorkflowExecutionDescription) -> Look:
    status = description.status
    if status is WorkflowExecutionStatus.COMPLETED:
        with suppress(ValidationError, RuntimeError):
            return Look(handle.id, status, await handle.result())
        return Look(handle.id, status, await memo_of(description))
    waits = await _waits(handle, description)
    try:
        report: IncidentReport = await handle.query(
            INCIDENT_QUERY, result_type=IncidentReport, rpc_timeout=QUERY_PATIENCE
        )
    except WorkflowQueryFailedError:
        return Look(handle.id, status, await memo_of(description), waits, answered=False)
    except RPCError as error:
        # No worker: the query times out. Temporal itself away: describe would have said so.
        if error.status is RPCStatusCode.UNAVAILABLE:
            raise
        return Look(handle.id, status, await memo_of(description), waits, answered=False)
    return Look(handle.id, status, report, waits)


async def _waits(handle: Handle, description: WorkflowExecutionDescription) -> tuple[str, ...]:
    lines = []
    for act in description.raw_description.pending_activities:
        attempt = f", attempt {act.attempt}" if act.attempt > 1 else ""
        said = act.last_failure.message
        if act.heartbeat_details.payloads:
            details = await handle._client.data_converter.decode(list(act.heartbeat_details.payloads))
            # Behind what an act says of itself goes its trail, which is for the record.
            own = [one for one in details if not (isinstance(one, dict) and TRAIL in one)]
            said = _in_words(own[0]) if own else said
        lines.append(f"{act.activity_type.name}{attempt}" + (f": {said}" if said else ""))
    return tuple(lines)


def _in_words(details: Any) -> str:
    if not isinstance(details, dict):
        return str(details)
    parts = []
    for key, value in details.items():
        shown = ", ".join(map(str, value[:3])) if isinstance(value, list) else str(value)
        if shown:
            parts.append(f"{key.replace('_', ' ')} {shown}")
    return "; ".join(parts)
