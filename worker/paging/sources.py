"""Where alerts come from: incidents and the fleet's budget in Temporal, and the conditions of Nodes.

Read from outside, so that a human is paged while no worker is there, too: the memo is readable without.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.cluster import Json
from activities.memo import memo_of
from contract.incident import IncidentReport
from contract.names import (
    BUDGET_QUERY,
    INCIDENT_QUERY,
    REMEDIATE_NODE,
    SearchAttribute,
    budget_id,
)
from contract.permit import BudgetState
from worker.paging.alerts import Alert, of_budget, of_incident, of_nodes

_log = logging.getLogger(__name__)
INCIDENTS: Final = "incidents"
BUDGET: Final = "budget"
NODES: Final = "nodes"
PATIENCE: Final = timedelta(seconds=5)
_AT_ONCE: Final = 20
LISTED_MAX: Final = 1000


class Sources:
    """Reads all of them. One that cannot be read now says what it said last: nothing is over because nobody looked."""

    def __init__(self, client: Client, nodes: Callable[[], list[Json]], cluster: str, ui_url: str = "") -> None:
        self._client = client
        self._read_nodes = nodes
        self._name = cluster
        self._pages = f"{ui_url.rstrip('/')}/namespaces/{client.namespace}/workflows" if ui_url else ""
        self._last: dict[str, list[Alert]] = {}
        self.seen: dict[str, int] = {}
        """How many alerts each source had at the last look; one that could not be read is not there."""

    async def read(self) -> list[Alert]:
        """Everything that needs a human now."""
        reading = {INCIDENTS: self._incidents(), BUDGET: self._budget(), NODES: self._nodes()}
        answers = await asyncio.gather(*reading.values(), return_exceptions=True)
        self.seen = {}
        for source, answer in zip(reading, answers, strict=True):
            if isinstance(answer, list):
                self._last[source], self.seen[source] = answer, len(answer)
            elif isinstance(answer, RPCError | WorkflowQueryFailedError | ApplicationError):
                _log.warning("The pager cannot read the %s now: %s. It goes on with what it knew.", source, answer)
            else:
                raise answer
        return [alert for alerts in self._last.values() for alert in alerts]

    async def _incidents(self) -> list[Alert]:
        query = f'WorkflowType="{REMEDIATE_NODE}" AND ExecutionStatus="Running" AND {SearchAttribute.NEEDS_HUMAN}=true'
        found = [item async for item in self._client.list_workflows(query, limit=LISTED_MAX)]
        room = asyncio.Semaphore(_AT_ONCE)

        async def alert(execution: WorkflowExecution) -> Alert | None:
            async with room:
                report = await self._report(execution)
            if report is None or report.cluster != self._name:
                return None
            return of_incident(report, self._page(report.incident_id))

        alerts: Sequence[Alert | None] = await asyncio.gather(*map(alert, found))
        return [one for one in alerts if one]

    async def _report(self, execution: WorkflowExecution) -> IncidentReport | None:
        """As the incident says, else as its memo does: without a worker, acknowledging is not seen."""
        handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id)
        try:
            said: IncidentReport = await handle.query(INCIDENT_QUERY, result_type=IncidentReport, rpc_timeout=PATIENCE)
            return said
        except (RPCError, WorkflowQueryFailedError):
            pass
        return await memo_of(execution)

    async def _budget(self) -> list[Alert]:
        query = f'WorkflowId="{budget_id(self._name)}" AND ExecutionStatus="Running"'
        query += f" AND {SearchAttribute.NEEDS_HUMAN}=true"
        if not [item async for item in self._client.list_workflows(query, limit=1)]:
            return []
        handle = self._client.get_workflow_handle(budget_id(self._name))
        state: BudgetState = await handle.query(BUDGET_QUERY, result_type=BudgetState, rpc_timeout=PATIENCE)
        return of_budget(state, self._page(budget_id(self._name)))

    async def _nodes(self) -> list[Alert]:
        return of_nodes(self._name, await asyncio.to_thread(self._read_nodes))

    def _page(self, workflow_id: str) -> str:
        return f"{self._pages}/{workflow_id}" if self._pages else ""
