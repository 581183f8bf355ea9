"""Records of incidents that did not write their own: found by a look at Temporal on a schedule, written once.

An incident that is terminated, times out or fails says nothing any more, and Temporal forgets it when the namespace's
retention is over. So does one that closed while no sink took its record. What is there already is left as it is: an
incident's own word about itself is better than this one.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.forced_end import WORDS, closed_by_force, forced_end
from activities.memo import memo_of
from activities.record import RecordActivity
from contract.fault import RemediationRequest
from contract.incident import NOT_TAKEN, RECORD_FACT, IncidentReport
from contract.names import INCIDENT_QUERY, NON_RETRYABLE, REMEDIATE_NODE, ActivityName, Phase
from contract.reaping import Exported, ExportRecords

_NAMED_MAX: Final = 100
PATIENCE: Final = timedelta(seconds=10)
"""For a worker to read a history again."""
_VISIBLE_LATE: Final = timedelta(hours=1)
"""How much later than it closed a workflow may be listed: visibility stores lag."""


class ExportActivity:
    """The act ``export_records``."""

    def __init__(self, client: Client, record: RecordActivity, patience: timedelta = PATIENCE) -> None:
        self._client = client
        self._record = record
        self._patience = patience
        self._looked_from: datetime | None = None
        self._done: set[str] = set()
        """Runs that were dealt with by this process: not asked about with every look."""

    @activity.defn(name=ActivityName.EXPORT_RECORDS)
    async def export_records(self, argument: ExportRecords) -> Exported:
        """Write every record that is missing. The first look goes back as far as Temporal does, later ones do not.

        Raises:
            RPCError: Temporal does not answer; it is tried again.
        """
        began = datetime.now(UTC)
        written: dict[str, str] = {}
        missed: dict[str, str] = {}
        whole = True
        async for execution in self._closed():
            if execution.run_id in self._done:
                continue
            try:
                report = await self._report(execution)
                if report and report.cluster == argument.cluster:
                    uris = await asyncio.to_thread(self._record.write_missing, report)
                    if uris and len(written) < _NAMED_MAX:
                        written[execution.id] = ", ".join(uris)
            except ApplicationError as error:
                if final := error.type in NON_RETRYABLE:
                    self._done.add(execution.run_id)
                whole = whole and final
                if len(missed) < _NAMED_MAX:
                    missed[execution.id] = error.message
                continue
            self._done.add(execution.run_id)
        if whole:
            self._looked_from = began - _VISIBLE_LATE
        return Exported(written=written, missed=missed)

    async def _closed(self) -> AsyncIterator[WorkflowExecution]:
        query = f'WorkflowType="{REMEDIATE_NODE}" AND ExecutionStatus!="Running"'
        if self._looked_from:
            query += f' AND CloseTime>"{self._looked_from:%Y-%m-%dT%H:%M:%SZ}"'
        async for execution in self._client.list_workflows(query):
            yield execution

    async def _report(self, execution: WorkflowExecution) -> IncidentReport | None:
        """What is to be written of an incident; None where it wrote that itself."""
        noted = await memo_of(execution)
        handle = self._client.get_workflow_handle(execution.id, run_id=execution.run_id, result_type=IncidentReport)
        if execution.status in WORDS:
            try:
                end = await forced_end(handle, execution.status)
                return closed_by_force(await self._last_word(handle, execution, noted), end)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return None
                raise
        if execution.status is not WorkflowExecutionStatus.COMPLETED or (noted and wrote_itself(noted)):
            return None
        return noted and await _result(handle)

    async def _last_word(
        self, handle: WorkflowHandle[Any, IncidentReport], execution: WorkflowExecution, noted: IncidentReport | None
    ) -> IncidentReport:
        """From its history, else from its memo, else from what it was started with."""
        try:
            said: IncidentReport = await handle.query(
                INCIDENT_QUERY, result_type=IncidentReport, rpc_timeout=self._patience
            )
            return said
        except WorkflowQueryFailedError:
            unread = "Its history could not be read again by this version, so this is what its memo has."
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise
            unread = "No worker read its history again in time, so this is what its memo has."
        report = noted or await self._beginning(handle, execution)
        return report.model_copy(update={"notes": (*report.notes, unread)})

    async def _beginning(
        self, handle: WorkflowHandle[Any, IncidentReport], execution: WorkflowExecution
    ) -> IncidentReport:
        """Of one that no worker ever looked at."""
        async for event in handle.fetch_history_events(page_size=1):
            started = event.workflow_execution_started_event_attributes.input.payloads
            (request,) = await self._client.data_converter.decode(started, [RemediationRequest])
            break
        return IncidentReport(
            incident_id=execution.id,
            run_id=execution.run_id,
            cluster=request.cluster,
            node=request.node,
            instance_id=request.instance_id,
            drill=request.drill,
            phase=Phase.QUEUED,
            summary="No worker had looked at it.",
            opened_at=execution.start_time,
        )


def wrote_itself(report: IncidentReport) -> bool:
    """Whether every sink took the record that the incident wrote at its end. Pure."""
    return RECORD_FACT in report.facts and not any(note.startswith(NOT_TAKEN) for note in report.notes)


async def _result(handle: WorkflowHandle[Any, IncidentReport]) -> IncidentReport | None:
    try:
        return await handle.result(follow_runs=False)
    except (ValidationError, RuntimeError):
        return None
