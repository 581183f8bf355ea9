"""The report in an incident's memo: what can be read of it without a worker."""

from pydantic import ValidationError
from temporalio.client import WorkflowExecution

from contract.incident import IncidentReport
from contract.names import INCIDENT_MEMO


async def memo_of(execution: WorkflowExecution) -> IncidentReport | None:
    """As it was noted last; None where nothing was, or in words of a version that this program cannot read."""
    try:
        noted: IncidentReport | None = await execution.memo_value(INCIDENT_MEMO, None, type_hint=IncidentReport)
    except (ValidationError, RuntimeError):
        return None
    return noted
