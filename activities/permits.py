"""Asking FleetBudget. Each worker process has one desk, which gathers asks and returns into one update in flight.

A thousand incidents at once would otherwise be a thousand updates, and Temporal takes ten at a time
(``docs/decisions``, shape of admission).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from activities.together import together
from activities.waiting_mark import WaitingMark
from contract.budget import RepairResult
from contract.names import (
    BUDGET_TASK_QUEUE,
    EXCHANGE_PERMITS,
    FLEET_BUDGET,
    PERMIT_GRANTED,
    ActivityName,
    ErrorType,
    budget_id,
)
from contract.permit import (
    AskPermit,
    BudgetState,
    Delivered,
    DeliverGrants,
    PermitAnswer,
    PermitBatch,
    PermitGranted,
    PermitKind,
    PermitRequest,
    ReturnPermits,
)

ASK_AGAIN: Final = timedelta(minutes=1)
"""How often a holder that waits asks again by itself, in case the word that it was granted got lost."""
_BATCH_MAX: Final = 200
_ANSWER_WITHIN: Final = timedelta(seconds=50)


@dataclass
class _Errand:
    """One thread's business at the desk."""

    asks: tuple[PermitRequest, ...] = ()
    returns: tuple[str, ...] = ()
    results: tuple[RepairResult, ...] = ()
    answers: "Future[list[PermitAnswer]]" = field(default_factory=Future)


class PermitDesk:
    """Asks and returns for one cluster's FleetBudget, from any thread of this process."""

    def __init__(self, client: Client, cluster: str) -> None:
        """Must be made on the event loop that ``client`` belongs to."""
        self._client = client
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Errand] = []
        self._wake = asyncio.Event()

    async def serve(self) -> None:
        """Carry errands until cancelled: what comes in while one update is in flight goes with the next."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH_MAX], self._waiting[_BATCH_MAX:]
                await self._carry(batch)

    def ask(self, request: PermitRequest) -> PermitAnswer:
        """Ask for one permit. Blocks its thread.

        Raises:
            ApplicationError: ``BudgetUnavailable`` when FleetBudget does not answer.
        """
        return self._send(_Errand(asks=(request,)))[0]

    def spend(self, request: PermitRequest) -> None:
        """See that FleetBudget, as it is now, grants this permit: it may have been terminated since it did.

        Raises:
            ApplicationError: ``PermitQueued`` when it does not, ``BudgetUnavailable`` without an answer.
        """
        answer = self.ask(request)
        if not answer.granted:
            raise _queued(request, answer)

    def give_back(self, tokens: Sequence[str], result: RepairResult | None = None) -> None:
        """Return permits, held or only asked for, and tell how the repair ended. Blocks its thread.

        Raises:
            ApplicationError: ``BudgetUnavailable`` when FleetBudget does not answer.
        """
        self._send(_Errand(returns=tuple(tokens), results=(result,) if result else ()))

    def _send(self, errand: _Errand) -> list[PermitAnswer]:
        self._loop.call_soon_threadsafe(self._enqueue, errand)
        try:
            return errand.answers.result(_ANSWER_WITHIN.total_seconds())
        except TimeoutError:
            raise _unavailable(f"it has not answered within {_ANSWER_WITHIN.total_seconds():.0f} s") from None

    def _enqueue(self, errand: _Errand) -> None:
        self._waiting.append(errand)
        self._wake.set()

    async def _carry(self, errands: list[_Errand]) -> None:
        batch = PermitBatch(
            asks=tuple(request for errand in errands for request in errand.asks),
            returns=tuple(token for errand in errands for token in errand.returns),
            results=tuple(result for errand in errands for result in errand.results),
        )
        try:
            answers = iter(await self._exchange(batch))
        except (TimeoutError, RPCError, WorkflowUpdateFailedError) as error:
            for errand in errands:
                errand.answers.set_exception(_unavailable(str(error)))
            return
        for errand in errands:
            errand.answers.set_result([next(answers) for _ in errand.asks])

    async def _exchange(self, batch: PermitBatch) -> list[PermitAnswer]:
        # Starting it with each update costs nothing while it runs, and nobody has to see to its being there.
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            FLEET_BUDGET,
            BudgetState(cluster=self._cluster),
            id=budget_id(self._cluster),
            task_queue=BUDGET_TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=f"Permits of {self._cluster}",
        )
        answers: list[PermitAnswer] = await self._client.execute_update_with_start_workflow(
            EXCHANGE_PERMITS,
            batch,
            start_workflow_operation=start,
            result_type=list[PermitAnswer],
            rpc_timeout=_ANSWER_WITHIN,
        )
        return answers


class PermitActivities:
    """The acts of incidents and of FleetBudget that are about permits."""

    def __init__(self, client: Client, desk: PermitDesk, mark: WaitingMark) -> None:
        self._client = client
        self._desk = desk
        self._mark = mark

    @activity.defn(name=ActivityName.ASK_PERMIT, no_thread_cancel_exception=True)
    def ask_permit(self, argument: AskPermit) -> PermitAnswer:
        """Ask, and fail with the reason while the answer is no: the retry is the waiting, and costs no history.

        Raises:
            ApplicationError: ``PermitQueued`` while it must wait, ``BudgetUnavailable`` without an answer.
        """
        request = argument.request
        # Whoever is let in after it heard no is told so, by a nudge, and asks; a lost one is found by the next try.
        answer = argument.heard if argument.heard and activity.info().attempt == 1 else self._desk.ask(request)
        if not answer.granted:
            if request.kind is PermitKind.QUARANTINE:
                self._mark.put(request.node, argument.node_uid)
            raise _queued(request, answer)
        return answer

    @activity.defn(name=ActivityName.RETURN_PERMITS, no_thread_cancel_exception=True)
    def return_permits(self, argument: ReturnPermits) -> None:
        """Give permits back, with how the repair ended. Doing it twice is harmless."""
        self._desk.give_back(argument.tokens, argument.result)
        if argument.node:
            self._mark.take(argument.node, argument.node_uid)

    @activity.defn(name=ActivityName.DELIVER_GRANTS)
    async def deliver_grants(self, argument: DeliverGrants) -> Delivered:
        """Tell the holders that waited. One that runs no more gives its permit back that way."""
        told: list[str] = []
        gone: list[str] = []

        async def tell(request: PermitRequest) -> None:
            handle = self._client.get_workflow_handle(request.incident_id, run_id=request.run_id)
            try:
                await handle.signal(PERMIT_GRANTED, PermitGranted(token=request.token))
                told.append(request.token)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    gone.append(request.token)
                activity.heartbeat({"told": len(told), "gone": len(gone)})

        await together(map(tell, argument.requests))
        return Delivered(told=tuple(told), gone=tuple(gone))


@contextlib.asynccontextmanager
async def open_desk(client: Client, cluster: str) -> AsyncIterator[PermitDesk]:
    """A desk that serves for the length of the block."""
    desk = PermitDesk(client, cluster)
    serving = asyncio.create_task(desk.serve(), name="permit-desk")
    try:
        yield desk
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def _queued(request: PermitRequest, answer: PermitAnswer) -> ApplicationError:
    return ApplicationError(
        f"Queued for a {request.kind} permit: {answer.reason or 'not looked at yet'}. {answer.releases} "
        "`hold`, `abort` and `release` work meanwhile.",
        type=ErrorType.PERMIT_QUEUED,
        next_retry_delay=ASK_AGAIN,
        category=ApplicationErrorCategory.BENIGN,
    )


def _unavailable(why: str) -> ApplicationError:
    return ApplicationError(
        f"FleetBudget could not be asked ({why}). Nothing is disrupted without its permit. It is asked again by "
        "itself; see that workers run and that the workflow is not stuck.",
        type=ErrorType.BUDGET_UNAVAILABLE,
    )
