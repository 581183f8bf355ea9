"""Who holds permits, asked of the incidents themselves: for a FleetBudget that lost its memory by Terminate or Reset.

Its memory is a convenience and the world the truth; but a machine that is gone for its replacement stands on no Node,
and only its incident knows whose permit it took.
"""

from datetime import timedelta
from typing import Final

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecution, WorkflowQueryFailedError
from temporalio.service import RPCError

from activities.errors import failure
from activities.together import together
from contract.incident import IncidentReport
from contract.names import DISRUPT_GANG, INCIDENT_MEMO, PERMITS_QUERY, REMEDIATE_NODE, ErrorType, Phase, SearchAttribute
from contract.permit import PermitKind, PermitRequest

_ANSWER_WITHIN: Final = timedelta(seconds=5)
_MAY_HOLD: Final = (Phase.ADMITTED, Phase.NEEDS_HUMAN)
"""An incident that is still queued holds none."""


async def permits_in_use(client: Client, cluster: str) -> tuple[PermitRequest, ...]:
    """The permits of all open incidents and gangs of a cluster.

    An incident that does not answer is taken to disrupt its node.

    Raises:
        ApplicationError: ``Unreachable`` when a gang does not answer: nobody else knows its nodes.
    """
    phases = " OR ".join(f'{SearchAttribute.NODE_PHASE}="{phase}"' for phase in _MAY_HOLD)
    holders = f'(WorkflowType="{REMEDIATE_NODE}" AND ({phases})) OR WorkflowType="{DISRUPT_GANG}"'
    query = f'ExecutionStatus="Running" AND ({holders})'
    open_ones = [execution async for execution in client.list_workflows(query)]
    answers = await together(_permits_of(client, execution, cluster) for execution in open_ones)
    return tuple(request for answer in answers for request in answer if request.cluster == cluster)


async def _permits_of(client: Client, execution: WorkflowExecution, cluster: str) -> tuple[PermitRequest, ...]:
    try:
        report = await execution.memo_value(INCIDENT_MEMO, None, type_hint=IncidentReport)
    except (ValidationError, RuntimeError):
        report = None
    if report and report.cluster != cluster:
        return ()
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    try:
        return tuple(await handle.query(PERMITS_QUERY, result_type=list[PermitRequest], rpc_timeout=_ANSWER_WITHIN))
    except (RPCError, WorkflowQueryFailedError) as error:
        if execution.workflow_type == DISRUPT_GANG:
            raise failure(
                ErrorType.UNREACHABLE,
                f"{execution.id} does not say which permits it holds, and FleetBudget has lost its memory of them. "
                "Nothing new is granted until it answers: look at it in Temporal, or terminate it.",
            ) from error
        return (_presumed(execution, report),) if report and report.identity else ()


def _presumed(execution: WorkflowExecution, report: IncidentReport) -> PermitRequest:
    identity = report.identity
    assert identity is not None
    return PermitRequest(
        kind=PermitKind.DISRUPTION,
        incident_id=execution.id,
        run_id=execution.run_id,
        cluster=report.cluster,
        group=identity.group or "",
        node=report.node,
        zone=identity.zone,
        rule=report.findings[0].rule if report.findings else "",
    )
