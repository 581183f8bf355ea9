"""Finding incidents in Temporal, and reading their reports: by query while workers run, else from memo and result."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError

from cli.errors import CommandError
from contract.incident import IncidentReport
from contract.names import BUDGET_QUERY, INCIDENT_MEMO, INCIDENT_QUERY, REMEDIATE_NODE, ExitCode, budget_id
from contract.permit import BudgetState

_QUERY_PATIENCE: Final = timedelta(seconds=3)
_NEWEST: Final = 500

Handle = WorkflowHandle[Any, IncidentReport]


async def newest(client: Client, *, open_only: bool) -> AsyncIterator[tuple[Handle, IncidentReport | None]]:
    """Incidents, newest first, each with the report in its memo; None where it has none yet."""
    query = f'WorkflowType="{REMEDIATE_NODE}"' + (' AND ExecutionStatus="Running"' if open_only else "")
    async for execution in client.list_workflows(query, limit=_NEWEST):
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=IncidentReport)
        yield handle, await execution.memo_value(INCIDENT_MEMO, None, type_hint=IncidentReport)


async def find(client: Client, cluster: str, target: str, *, open_only: bool = False) -> Handle:
    """The newest incident of a node, or the one whose id is given.

    Raises:
        CommandError: there is none.
    """
    starts = (f"remediate-{cluster}-{target}-", f"drill-{cluster}-{target}-")
    async for handle, _ in newest(client, open_only=open_only):
        if handle.id == target or handle.id.startswith(starts):
            return handle
    kind = "open incident" if open_only else "incident"
    raise CommandError(
        f"There is no {kind} of {target!r} in cluster {cluster!r}.",
        "`nodemend status --all` lists them; give a node's name or an incident's id.",
        ExitCode.NO_INPUT,
    )


async def read_report(handle: Handle) -> IncidentReport | None:
    """The freshest report that can be had: of a running incident by query, else from its memo or result."""
    description = await handle.describe()
    if description.status is WorkflowExecutionStatus.COMPLETED:
        return await handle.result()
    with suppress(RPCError, WorkflowQueryFailedError):
        now: IncidentReport = await handle.query(
            INCIDENT_QUERY, result_type=IncidentReport, rpc_timeout=_QUERY_PATIENCE
        )
        return now
    noted: IncidentReport | None = await description.memo_value(INCIDENT_MEMO, None, type_hint=IncidentReport)
    return noted


async def read_budget(client: Client, cluster: str) -> BudgetState | None:
    """What FleetBudget has out and who waits; None while it does not run or no worker answers."""
    handle = client.get_workflow_handle(budget_id(cluster))
    try:
        state: BudgetState = await handle.query(BUDGET_QUERY, result_type=BudgetState, rpc_timeout=_QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError):
        return None
    return state


async def pending(handle: Handle) -> list[str]:
    """What an incident waits for right now, in words: each running act with what it says about itself."""
    description = await handle.describe()
    lines = []
    for act in description.raw_description.pending_activities:
        attempt = f", attempt {act.attempt}" if act.attempt > 1 else ""
        said = ""
        if act.heartbeat_details.payloads:
            details = await handle._client.data_converter.decode(list(act.heartbeat_details.payloads))
            said = _in_words(details[0]) if details else ""
        elif act.last_failure.message:
            said = act.last_failure.message
        lines.append(f"{act.activity_type.name}{attempt}" + (f": {said}" if said else ""))
    return lines


def _in_words(details: Any) -> str:
    if not isinstance(details, dict):
        return str(details)
    parts = []
    for key, value in details.items():
        shown = ", ".join(map(str, value[:3])) if isinstance(value, list) else str(value)
        if shown:
            parts.append(f"{key.replace('_', ' ')} {shown}")
    return "; ".join(parts)
