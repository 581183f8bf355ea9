"""Finding incidents in Temporal: those of this cluster, and the one that an operator means.

What an operator presses must reach the machine that was named. Ids alone do not tell: ``gpu-1`` begins the id of
``gpu-1-spare`` too, and cluster ``a`` with node ``b-c`` has the ids of cluster ``a-b`` with node ``c``. So the last
word has what the incident was started with.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.memo import memo_of
from cli.errors import CommandError
from contract.fault import RemediationRequest
from contract.incident import IncidentReport
from contract.names import BUDGET_QUERY, REMEDIATE_NODE, ExitCode, budget_id
from contract.permit import BudgetState

QUERY_PATIENCE: Final = timedelta(seconds=3)
LISTED_MAX: Final = 2000
"""Incidents that are listed at most, newest first."""
_CANDIDATES_MAX: Final = 200
_NEAR_MAX: Final = 5
_VISIBLE_WITHIN_S: Final = 2.0
"""Temporal lists a workflow a moment after its start."""
_KINDS: Final = ("remediate", "drill")

Handle = WorkflowHandle[Any, IncidentReport]


@dataclass(frozen=True)
class Listed:
    """An incident as Temporal lists it: no worker is needed for that."""

    handle: Handle
    status: WorkflowExecutionStatus | None
    report: IncidentReport | None
    """As its memo has it; None where it has none yet, or one of a version that this program cannot read."""

    @property
    def is_open(self) -> bool:
        """Whether it still runs."""
        return self.status is WorkflowExecutionStatus.RUNNING


async def listed(client: Client, cluster: str, *, open_only: bool) -> AsyncIterator[Listed]:
    """Incidents of a cluster, newest first."""
    mine = " OR ".join(f'WorkflowId STARTS_WITH "{kind}-{_quoted(cluster)}-"' for kind in _KINDS)
    query = f'WorkflowType="{REMEDIATE_NODE}" AND ({mine})' + (' AND ExecutionStatus="Running"' if open_only else "")
    async for execution in client.list_workflows(query, limit=LISTED_MAX, page_size=LISTED_MAX):
        incident = await _listed(client, execution)
        # A cluster whose name goes on after ours has such ids too, and the memo knows.
        if incident.report is None or incident.report.cluster == cluster:
            yield incident


async def find(client: Client, cluster: str, target: str, *, open_only: bool = False) -> Handle:
    """The incident whose id is given, or that of a node: the open one, else the newest.

    Raises:
        CommandError: there is none, it is closed where an open one is wanted, or more than one is open.
    """
    incident = await _by_id(client, target)
    if incident:
        if open_only and not incident.is_open:
            raise _nothing_to_press(target, incident)
        return incident.handle
    until = asyncio.get_running_loop().time() + _VISIBLE_WITHIN_S
    while not (found := [item async for item in _of_node(client, cluster, target)]):
        if asyncio.get_running_loop().time() > until:
            raise await _unknown(client, cluster, target)
        await asyncio.sleep(0.2)
    running = [item for item in found if item.is_open]
    if len(running) > 1:
        raise CommandError(
            f"{target} has {len(running)} open incidents, and only you know which one you mean:\n"
            + "\n".join(f"  {item.handle.id}  {item.report.summary if item.report else ''}" for item in running),
            "Give one of these ids instead of the node's name.",
            ExitCode.USAGE,
        )
    if not running and open_only:
        raise _nothing_to_press(target, found[0])
    return (running or found)[0].handle


async def read_budget(client: Client, cluster: str) -> BudgetState | None:
    """What FleetBudget has out and who waits; None while it does not run or no worker answers."""
    handle = client.get_workflow_handle(budget_id(cluster))
    try:
        state: BudgetState = await handle.query(BUDGET_QUERY, result_type=BudgetState, rpc_timeout=QUERY_PATIENCE)
    except (RPCError, WorkflowQueryFailedError):
        return None
    return state


async def _listed(client: Client, execution: WorkflowExecution) -> Listed:
    # Pinned to this run: what is pressed must not land in an incident that starts under the same id meanwhile.
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=IncidentReport)
    return Listed(handle, execution.status, await memo_of(execution))


async def _by_id(client: Client, target: str) -> Listed | None:
    if not target.startswith(tuple(f"{kind}-" for kind in _KINDS)):
        return None
    try:
        execution = await client.get_workflow_handle(target).describe()
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            return None
        raise
    return await _listed(client, execution) if execution.workflow_type == REMEDIATE_NODE else None


async def _of_node(client: Client, cluster: str, node: str) -> AsyncIterator[Listed]:
    starts = " OR ".join(f'WorkflowId STARTS_WITH "{kind}-{_quoted(cluster)}-{_quoted(node)}-"' for kind in _KINDS)
    query = f'WorkflowType="{REMEDIATE_NODE}" AND ({starts})'
    async for execution in client.list_workflows(query, limit=_CANDIDATES_MAX):
        incident = await _listed(client, execution)
        if await _meant(incident) == (cluster, node):
            yield incident


async def _meant(incident: Listed) -> tuple[str, str] | None:
    """Cluster and node that an incident is about."""
    if incident.report:
        return incident.report.cluster, incident.report.node
    converter = incident.handle._client.data_converter
    async for event in incident.handle.fetch_history_events(page_size=1):
        started = event.workflow_execution_started_event_attributes
        (request,) = await converter.decode(list(started.input.payloads), [RemediationRequest])
        return request.cluster, request.node
    return None


async def _unknown(client: Client, cluster: str, target: str) -> CommandError:
    """Whoever gave half a name, or the machine's, is told the whole: nothing is pressed on a guess."""
    near = [item async for item in listed(client, cluster, open_only=True) if target in item.handle.id]
    meant = ", ".join(item.report.node if item.report else item.handle.id for item in near[:_NEAR_MAX])
    return CommandError(
        f"There is no incident of {target!r} in cluster {cluster!r}.",
        f"Did you mean {meant}? " * bool(near)
        + "`nodemend status --all` lists them; give a node's name or an incident's id.",
        ExitCode.NO_INPUT,
    )


def _nothing_to_press(target: str, incident: Listed) -> CommandError:
    report = incident.report
    end = report.outcome if report and report.outcome else incident.status.name.lower() if incident.status else "closed"
    return CommandError(
        f"{target} has no open incident: the newest, {incident.handle.id}, has ended ({end}).",
        f"Nothing was changed. `nodemend report {incident.handle.id}` shows how it ended.",
        ExitCode.NO_INPUT,
    )


def _quoted(text: str) -> str:
    """Text inside the double quotes of a visibility query."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
