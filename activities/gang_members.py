"""How an incident and the DisruptGang of its job talk: joining by signal, looking by query, which costs no history.

What the gang decided is known by asking it, not because a signal came: anybody with Temporal's credentials can signal.
"""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from contract.fault import DataTrust
from contract.gang import (
    GangLeft,
    GangMember,
    GangRequest,
    GangStage,
    GangState,
    JoinGang,
    LeaveGang,
    TellGang,
    ToldGang,
)
from contract.names import (
    DISRUPT_GANG,
    GANG_QUERY,
    PERMIT_GRANTED,
    TASK_QUEUE,
    ActivityName,
    ErrorType,
    gang_id,
)
from contract.names import JOIN_GANG as JOIN_SIGNAL
from contract.names import LEAVE_GANG as LEAVE_SIGNAL
from contract.permit import PermitGranted

LOOK_AGAIN: Final = timedelta(seconds=15)
"""How often a member looks by itself, in case the word that the gang moved on got lost."""
_PATIENCE: Final = timedelta(seconds=15)


class GangMemberActivities:
    """The acts ``join_gang``, ``await_gang``, ``leave_gang`` and ``tell_gang``."""

    def __init__(self, client: Client, task_queue: str = TASK_QUEUE) -> None:
        self._client = client
        self._task_queue = task_queue

    @activity.defn(name=ActivityName.JOIN_GANG)
    async def join_gang(self, argument: JoinGang) -> GangState:
        """Be in the gang, and wait for its leave to disturb the job. The retry is the waiting.

        Raises:
            ApplicationError: ``PermitQueued`` while it must wait, ``Unreachable`` without an answer.
        """
        return await self._until(argument, lambda stage: stage in (GangStage.ASKING, GangStage.RELEASED))

    @activity.defn(name=ActivityName.AWAIT_GANG)
    async def await_gang(self, argument: JoinGang) -> GangState:
        """Wait until the gang's checkpoint is seen to, and return what came of it.

        Raises:
            ApplicationError: ``PermitQueued`` while it must wait, ``Unreachable`` without an answer.
        """
        return await self._until(argument, lambda stage: stage is GangStage.RELEASED)

    @activity.defn(name=ActivityName.LEAVE_GANG)
    async def leave_gang(self, argument: LeaveGang) -> GangLeft:
        """Leave the gang. Doing it twice, or when it is over, is harmless.

        Raises:
            ApplicationError: ``Unreachable`` without an answer.
        """
        handle = self._client.get_workflow_handle(gang_id(argument.cluster, argument.job, argument.uid))
        try:
            await handle.signal(LEAVE_SIGNAL, argument, rpc_timeout=_PATIENCE)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise _unreachable(argument.job, error) from error
        if not argument.tell:
            return GangLeft()
        try:
            state: GangState = await handle.query(GANG_QUERY, result_type=GangState, rpc_timeout=_PATIENCE)
        except (RPCError, WorkflowQueryFailedError) as error:
            # It has left, which is what counts: nobody waits for it any more.
            activity.logger.warning("What %s did in the node's name cannot be told: %s", argument.job, error)
            return GangLeft()
        return GangLeft(acts=state.acts)

    @activity.defn(name=ActivityName.TELL_GANG)
    async def tell_gang(self, argument: TellGang) -> ToldGang:
        """Have members look at the gang again, and find those whose incident runs no more."""
        gone = []
        for number, member in enumerate(argument.members):
            activity.heartbeat({"number": number, "of": len(argument.members)})
            if not await self._runs(member, nudge=argument.nudge):
                gone.append(member.key)
        return ToldGang(gone=tuple(gone))

    async def _runs(self, member: GangMember, *, nudge: bool) -> bool:
        fence = member.target.fence
        handle = self._client.get_workflow_handle(fence.incident_id, run_id=fence.run_id)
        try:
            if nudge:
                await handle.signal(PERMIT_GRANTED, PermitGranted(token=member.key), rpc_timeout=_PATIENCE)
                return True
            return (await handle.describe(rpc_timeout=_PATIENCE)).status is WorkflowExecutionStatus.RUNNING
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _unreachable(fence.incident_id, error) from error

    async def _until(self, argument: JoinGang, wanted: Callable[[GangStage], bool]) -> GangState:
        request, member = argument.request, argument.member
        state = await self._look(request)
        if state is None or not _knows(state, member):
            await self._join(request, member)
            state = await self._look(request)
        if state is None or not _knows(state, member) or not wanted(state.stage):
            why = state.summary if state else "it is being started"
            raise _waits(request, why)
        return state

    async def _look(self, request: GangRequest) -> GangState | None:
        """The gang as it stands; None where none runs."""
        handle = self._client.get_workflow_handle(gang_id(request.cluster, request.job, request.uid))
        try:
            state: GangState = await handle.query(
                GANG_QUERY,
                result_type=GangState,
                reject_condition=QueryRejectCondition.NOT_OPEN,
                rpc_timeout=_PATIENCE,
            )
        except WorkflowQueryRejectedError:
            return None
        except (RPCError, WorkflowQueryFailedError) as error:
            if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
                return None
            if isinstance(error, RPCError) and error.status is RPCStatusCode.RESOURCE_EXHAUSTED:
                # The server keeps few queries for a workflow that is at work: many nodes ask at once when it moves on.
                raise _waits(request, "many of its nodes ask at once.") from error
            raise _unreachable(request.job, error) from error
        return state

    async def _join(self, request: GangRequest, member: GangMember) -> None:
        """Start the gang's workflow, or join the one that runs. Joining twice is joining once."""
        try:
            await self._client.start_workflow(
                DISRUPT_GANG,
                request,
                id=gang_id(request.cluster, request.job, request.uid),
                task_queue=self._task_queue,
                start_signal=JOIN_SIGNAL,
                start_signal_args=[member],
                static_summary=f"{request.job} · {member.target.identity.node}"[:80],
                rpc_timeout=_PATIENCE,
            )
        except RPCError as error:
            raise _unreachable(request.job, error) from error


def _knows(state: GangState, member: GangMember) -> bool:
    """Whether it is in the gang as what it says that it is now, and whether its human's word is known there."""
    spoils = (member.data is DataTrust.SUSPECT) == (member.key in state.suspects)
    approved = member.approval is None or member.key in state.approved
    return member.key in state.members and spoils and approved and state.extended >= member.extended


def _waits(request: GangRequest, why: str) -> ApplicationError:
    return ApplicationError(
        f"Waits with {request.job}: {why} It goes on by itself; `hold`, `abort` and `release` work meanwhile.",
        type=ErrorType.PERMIT_QUEUED,
        next_retry_delay=LOOK_AGAIN * random.uniform(0.5, 1.5),  # noqa: S311 - jitter
        category=ApplicationErrorCategory.BENIGN,
    )


def _unreachable(what: str, error: Any) -> ApplicationError:
    return ApplicationError(
        f"The gang of {what} could not be asked ({error}). Nothing of it is disturbed without its word. It is asked "
        "again by itself; see that workers run.",
        type=ErrorType.UNREACHABLE,
    )
