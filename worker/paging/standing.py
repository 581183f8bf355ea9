"""How the fleet stands, as numbers for CloudWatch: what no single act can tell, and alarms have to watch.

From outside, as the pager looks anyway: that nobody works is told by somebody who does. What cannot be read now is not
told, for a number that nobody knows is not zero.
"""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.memo import memo_of
from contract.names import (
    BUDGET_QUERY,
    REMEDIATE_NODE,
    TASK_QUEUE,
    CloudWatchMetric,
    Phase,
    SearchAttribute,
    budget_id,
)
from contract.permit import BudgetState
from worker.cloudwatch import CloudWatch
from worker.paging.sources import INCIDENTS, LISTED_MAX, NODES, PATIENCE
from worker.temporal import pollers

_log = logging.getLogger(__name__)
STUCK_AFTER: Final = timedelta(hours=6)
"""As the alert ``NodemendStuckIncident`` has it: longer than a drain, a checkpoint and a replacement together."""


class Standing:
    """Reads the numbers and tells them."""

    def __init__(self, client: Client, cluster: str, metrics: CloudWatch) -> None:
        self._client = client
        self._cluster = cluster
        self._metrics = metrics

    async def tell(self, alerts: Mapping[str, int]) -> None:
        """Tell everything once. ``alerts``: how many each source had at the look that was just taken."""
        for source, metric in ((INCIDENTS, CloudWatchMetric.NEEDS_HUMAN), (NODES, CloudWatchMetric.DETECTORS_BLIND)):
            if source in alerts:
                self._metrics.stands(self._cluster, metric, alerts[source])
        reading = {
            CloudWatchMetric.POLLERS: self._pollers(),
            CloudWatchMetric.STUCK_INCIDENTS: self._stuck(),
            CloudWatchMetric.BUDGET_HELD: self._held(),
        }
        answers = await asyncio.gather(*reading.values(), return_exceptions=True)
        for metric, answer in zip(reading, answers, strict=True):
            if isinstance(answer, int):
                self._metrics.stands(self._cluster, metric, answer)
            elif isinstance(answer, RPCError | WorkflowQueryFailedError):
                _log.warning("CloudWatch is not told %s, which cannot be read now: %s", metric, answer)
            else:
                raise answer

    async def _pollers(self) -> int:
        return len(await pollers(self._client, TASK_QUEUE))

    async def _stuck(self) -> int:
        since = (datetime.now(UTC) - STUCK_AFTER).strftime("%Y-%m-%dT%H:%M:%SZ")
        query = (
            f'WorkflowType="{REMEDIATE_NODE}" AND ExecutionStatus="Running" AND StartTime < "{since}" '
            f'AND {SearchAttribute.NODE_PHASE}="{Phase.ADMITTED}"'
        )
        found = [await memo_of(execution) async for execution in self._client.list_workflows(query, limit=LISTED_MAX)]
        return sum(report is not None and report.cluster == self._cluster for report in found)

    async def _held(self) -> int:
        handle = self._client.get_workflow_handle(budget_id(self._cluster))
        try:
            state: BudgetState = await handle.query(BUDGET_QUERY, result_type=BudgetState, rpc_timeout=PATIENCE)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return 0  # no incident has asked for a permit yet
            raise
        return sum(waiting.limit is not None for waiting in state.queue) + state.queue_unnamed
