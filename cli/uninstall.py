"""``nodemend uninstall``: what Nodemend leaves in Temporal, on the cluster and in CloudWatch, after ``helm uninstall``.

It needs no worker. It opens no node whose instance is given up already, and removes nothing while Nodemend runs.
A Temporal that is gone, and an AWS without alarms, are left out where the caller says so, and never in silence.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from activities.errors import ActError
from cli.alarms import Alarms
from cli.errors import CommandError
from cli.incidents import listed
from cli.leftovers import ClusterLeftovers, Leftover
from contract.incident import IncidentReport, StepStatus
from contract.names import DISRUPT_GANG, REAP_ORPHANS, ExitCode, Step, budget_id, reaper_id
from contract.words import counted

SPOOL_HINT: Final = (
    "On the hosts the detectors' spool remains (detector.spoolPath, /var/lib/nodemend); new machines have none. "
    "Temporal keeps closed incidents as long as its retention says, and the search attributes. A launch template may "
    "still give new nodes the taint nodemend.io/startup, which nobody takes off now."
)
_WITHOUT_AWS: Final = (
    "Set AWS_REGION and credentials that may cloudwatch:DescribeAlarms and cloudwatch:DeleteAlarms, or leave them out: "
    "--without aws."
)
_AFTER: Final = (Step.AWAIT_REPLACEMENT, Step.VERIFY, Step.CLOSE)
_HAPPENED: Final = (StepStatus.RUNNING, StepStatus.WAITING, StepStatus.DONE, StepStatus.FAILED)

Say = Callable[[str], None]


async def left(client: Client | None, name: str, cluster: ClusterLeftovers, alarms: Alarms | None) -> list[Leftover]:
    """Everything that is there of Nodemend. Without a client, or alarms: but for those."""
    found = [Leftover("Pod", pod, "part of the installation") for pod in await asyncio.to_thread(cluster.still_running)]
    if client:
        if await _schedule_exists(client, name):
            found.append(Leftover("Schedule", reaper_id(name)))
        found += [Leftover("Workflow", handle.id, says) async for handle, says in _running(client, name)]
    found += await asyncio.to_thread(cluster.found)
    return found + (await asyncio.to_thread(_alarms, alarms) if alarms else [])


def _alarms(alarms: Alarms) -> list[Leftover]:
    try:
        return [Leftover("Alarm", found) for found in alarms.found()]
    except ActError as error:
        return [Leftover("Alarms", "of CloudWatch", f"were not looked at: {error.what} {_WITHOUT_AWS}")]


async def uninstall(
    client: Client | None, name: str, cluster: ClusterLeftovers, alarms: Alarms | None, say: Say
) -> None:
    """Clear it.

    Raises:
        CommandError: Nodemend still runs, or an incident is past the point of no return.
        ApplicationError: the cluster refuses, or cannot be reached.
    """
    if pods := await asyncio.to_thread(cluster.still_running):
        raise CommandError(
            f"Nodemend still runs ({', '.join(pods[:3])}{' …' if len(pods) > 3 else ''}), and would write everything "
            "anew. Nothing was changed.",
            "Run `helm uninstall` first (before that, `nodemend uninstall --check` says which incidents are open).",
            ExitCode.FAILED,
        )
    if client:
        await _clear_temporal(client, name, say)
    await asyncio.to_thread(cluster.clear, say)
    if alarms:
        await asyncio.to_thread(_clear_alarms, alarms, say)


async def _clear_temporal(client: Client, name: str, say: Say) -> None:
    incidents = [incident async for incident in listed(client, name, open_only=True) if await _runs(incident.handle)]
    if committed := [incident.handle.id for incident in incidents if is_committed(incident.report)]:
        raise CommandError(
            f"Past the point of no return: {', '.join(committed)}. Their instances are being replaced, and what comes "
            "for them is not proven. Nothing was changed.",
            "Let them end (`nodemend watch INCIDENT`; they need a worker), or terminate them in Temporal if nobody "
            "shall look at what comes, and run this again.",
            ExitCode.FAILED,
        )
    # Before the incidents: it would start them again.
    if await _schedule_exists(client, name):
        await client.get_schedule_handle(reaper_id(name)).delete()
        say(f"Schedule {reaper_id(name)} is removed.")
    async for handle, _ in _running(client, name):
        await handle.terminate("nodemend uninstall")
        say(f"Workflow {handle.id} is terminated.")


def _clear_alarms(alarms: Alarms, say: Say) -> None:
    try:
        if found := alarms.found():
            alarms.delete(found)
            say(f"{counted(len(found), 'alarm')} of CloudWatch: deleted ({', '.join(found)}).")
    except ActError as error:
        say(f"CloudWatch's alarms stay: {error.what} {_WITHOUT_AWS}")


def is_committed(report: IncidentReport | None) -> bool:
    """Whether the incident has given its instance up, or may be doing it. Pure."""
    steps = {step.step: step.status for step in report.steps} if report else {}
    replacing = steps.get(Step.REPLACE) in (StepStatus.RUNNING, StepStatus.DONE, StepStatus.FAILED)
    return replacing or any(steps.get(step) in _HAPPENED for step in _AFTER)


async def _running(client: Client, name: str) -> AsyncIterator[tuple[WorkflowHandle[Any, Any], str]]:
    """The cluster's workflows that run, each with how it stands: incidents, gangs, the budget, a look for orphans."""
    async for incident in listed(client, name, open_only=True):
        if await _runs(incident.handle):
            yield incident.handle, "past the point of no return" if is_committed(incident.report) else "open"
    query = f'ExecutionStatus="Running" AND WorkflowType IN ("{DISRUPT_GANG}", "{REAP_ORPHANS}")'
    async for execution in client.list_workflows(query):
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        if await _cluster_of(client, handle) == name and await _runs(handle):
            yield handle, "runs"
    budget = client.get_workflow_handle(budget_id(name))
    if await _runs(budget):
        yield budget, "runs"


async def _cluster_of(client: Client, handle: WorkflowHandle[Any, Any]) -> str:
    """What a workflow was started for. Ids do not tell: cluster ``a`` has the beginnings of ``a-b``'s."""
    async for event in handle.fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        (argument,) = await client.data_converter.decode(list(payloads), [dict])
        return str(argument.get("cluster", ""))
    return ""


async def _runs(handle: WorkflowHandle[Any, Any]) -> bool:
    """As the server knows it, for its lists are a moment late."""
    try:
        return (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise


async def _schedule_exists(client: Client, name: str) -> bool:
    try:
        await client.get_schedule_handle(reaper_id(name)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True
