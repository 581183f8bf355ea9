"""The report of an incident that Temporal ended, as those make it who find it. Terminate lets no workflow say a word.

What the incident knew is still told: a query of a closed workflow is answered from its history by any worker. How it
ended is in the last event of the history, with who did it and why.
"""

from datetime import UTC, datetime
from typing import Any, Final

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle, WorkflowHistoryEventFilterType

from contract.incident import ForcedEnd, IncidentReport, StepRecord, StepStatus
from contract.names import Outcome, Phase

WORDS: Final = {
    WorkflowExecutionStatus.TERMINATED: "was terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "was cancelled",
}
"""How a workflow ends that does not close by itself."""


async def forced_end(handle: WorkflowHandle[Any, Any], status: WorkflowExecutionStatus) -> ForcedEnd:
    """How it was ended, when, by whom and why. ``status`` is one of ``WORDS``.

    Raises:
        RPCError: Temporal does not answer, or does not have it any more.
    """
    end = ForcedEnd(how=WORDS[status], at=datetime.now(UTC))
    events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    async for event in events:
        end = ForcedEnd(how=end.how, at=event.event_time.ToDatetime(UTC))
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            told = event.workflow_execution_terminated_event_attributes
            end = end.model_copy(update={"by": told.identity, "reason": told.reason})
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            end = end.model_copy(update={"reason": event.workflow_execution_failed_event_attributes.failure.message})
    return end


def closed_by_force(report: IncidentReport, end: ForcedEnd) -> IncidentReport:
    """The last report of an incident, closed as what ended it says. Pure: the same of both is the same record."""
    did = f" by {end.by}" if end.by else ""
    why = f" ({end.reason})" if end.reason else ""
    says = f"Its workflow {end.how} in Temporal{did}{why}; nothing was cleaned up."
    return report.model_copy(
        update={
            "phase": Phase.CLOSED,
            "outcome": Outcome.TERMINATED,
            "summary": f"{says} Before: {report.summary}",
            "closed_at": end.at,
            "forced_end": end,
            "asked_at": None,
            "asked_again": 0,
            "steps": tuple(_cut_off(step, end) for step in report.steps),
        }
    )


def _cut_off(step: StepRecord, end: ForcedEnd) -> StepRecord:
    if step.ended_at is not None:
        return step
    says = f"Cut off as the workflow {end.how}. {step.summary}".strip()
    return step.model_copy(update={"status": StepStatus.FAILED, "ended_at": end.at, "summary": says})
