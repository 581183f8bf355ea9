"""Findings that came under another id than their machine's incident: they are sent on to it."""

import asyncio
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from activities.errors import failure
from contract.fault import FaultReport, RemediationRequest
from contract.names import REMEDIATE_NODE, REPORT_FAULT, TASK_QUEUE, ErrorType, incident_id

_PATIENCE: Final = timedelta(seconds=20)


class HandOver:
    """Starts the right incident, or joins it, from any thread of this process."""

    def __init__(self, client: Client) -> None:
        """Must be made on the event loop that ``client`` belongs to."""
        self._client = client
        self._loop = asyncio.get_running_loop()

    def __call__(self, request: RemediationRequest, reports: tuple[FaultReport, ...]) -> str:
        """Send the findings on, and return the id of the incident that has them. Doing it twice is harmless.

        Raises:
            ApplicationError: ``Unreachable`` when Temporal does not take them.
        """
        doing = asyncio.run_coroutine_threadsafe(self._send(request, reports), self._loop)
        try:
            return doing.result(_PATIENCE.total_seconds())
        except (TimeoutError, RPCError) as error:
            doing.cancel()
            raise failure(
                ErrorType.UNREACHABLE, f"Temporal did not take the findings that belong to another incident ({error})."
            ) from error

    async def _send(self, request: RemediationRequest, reports: tuple[FaultReport, ...]) -> str:
        target = incident_id(request.cluster, request.node, request.instance_id, drill=request.drill)
        for report in reports:
            known = report.model_copy(update={"instance_id": request.instance_id})
            await self._client.start_workflow(
                REMEDIATE_NODE,
                request,
                id=target,
                task_queue=TASK_QUEUE,
                start_signal=REPORT_FAULT,
                start_signal_args=[known],
                static_summary=f"{report.reason} · {report.node}"[:80],
            )
        return target
