"""FleetBudget: the one workflow per cluster that grants permits.

Worker processes ask and return in batches by one update. A pass counts the cluster, then decides with a pure
function. Who had to wait is told through an outbox that is kept until the telling is done; a holder that missed it
asks again, and the same token gets the same answer.
"""

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from contract.names import BUDGET_QUERY, EXCHANGE_PERMITS, FLEET_BUDGET, ActivityName
    from contract.permit import (
        BudgetState,
        ClusterCount,
        CountCluster,
        Delivered,
        DeliverGrants,
        HeldPermit,
        PermitAnswer,
        PermitBatch,
        PermitRequest,
        QueuedRequest,
    )
    from workflows.admission import admit
    from workflows.timing import HEARTBEAT

_COUNT_AGAIN: Final = timedelta(seconds=15)
"""While somebody waits, the cluster is counted at least this often: nodes come back without telling us."""
_CHECK_HOLDERS: Final = timedelta(minutes=5)
"""While permits are out and nobody waits: holders that were terminated never return theirs."""
_TELL: Final = RetryPolicy(maximum_attempts=3)


@workflow.defn(name=FLEET_BUDGET)
class FleetBudget:
    """Permits of one cluster."""

    @workflow.init
    def __init__(self, state: BudgetState) -> None:
        """Take over what the run before carried."""
        self._cluster = state.cluster
        self._history_limit = state.history_limit
        self._queue = {item.request.token: item for item in state.queue}
        self._held = {item.request.token: item for item in state.held}
        self._outbox = {request.token: request for request in state.outbox}
        self._dirty = True
        self._passes = 0
        self._asking: set[str] = set()
        """Tokens whose asker waits in an update right now: its answer tells it, so the outbox need not."""

    @workflow.run
    async def run(self, _state: BudgetState) -> None:
        """Grant permits for ever."""
        while not self._should_continue_as_new():
            if await self._woken():
                await self._pass()
                await self._deliver()
        workflow.continue_as_new(self._state())

    @workflow.update(name=EXCHANGE_PERMITS, description="Asks and returns of one worker process (a PermitBatch).")
    async def exchange_permits(self, batch: PermitBatch) -> list[PermitAnswer]:
        """Answer every ask of the batch, in its order. Returned tokens are free before the asks are looked at."""
        for token in batch.returns:
            self._forget(token)
        for request in batch.asks:
            if request.token not in self._held and request.token not in self._queue:
                self._queue[request.token] = QueuedRequest(request=request, asked_at=workflow.now())
        if any(request.token not in self._held for request in batch.asks):
            tokens = {request.token for request in batch.asks}
            self._asking |= tokens
            seen = self._passes
            self._dirty = True
            # The pass that runs now may have read the queue already; the next one has not.
            wanted = seen + (2 if self._in_pass else 1)
            await workflow.wait_condition(lambda: self._passes >= wanted)
            self._asking -= tokens
        elif batch.returns:
            self._dirty = True
        return [self._answer(request) for request in batch.asks]

    @workflow.query(name=BUDGET_QUERY, description="Who holds permits, who waits, and why.")
    def budget(self) -> BudgetState:
        """The state as of now."""
        return self._state()

    _in_pass = False

    async def _woken(self) -> bool:
        """Wait for something to decide. False when it is time to continue as new instead."""
        self._show()
        patience = _COUNT_AGAIN if self._queue or self._outbox else _CHECK_HOLDERS if self._held else None
        try:
            await workflow.wait_condition(
                lambda: self._dirty or self._should_continue_as_new(),
                timeout=patience,
                timeout_summary="count the cluster again",
            )
        except TimeoutError:
            return True
        return self._dirty

    async def _pass(self) -> None:
        """Count, decide, and answer those who wait."""
        self._dirty = False
        self._in_pass = True
        queue, held = tuple(self._queue.values()), tuple(self._held.values())
        if queue or held:
            count = await self._count(queue, held)
            if count:
                self._decide(queue, count)
        self._in_pass = False
        self._passes += 1

    def _decide(self, queue: tuple[QueuedRequest, ...], count: ClusterCount) -> None:
        for token in count.gone:
            self._forget(token)
        # Returned while the count ran: no longer asked for.
        still = [item for item in queue if item.request.token in self._queue]
        admission = admit(count.groups, still, tuple(self._held.values()))
        for request in admission.granted:
            del self._queue[request.token]
            self._held[request.token] = HeldPermit(request=request, granted_at=workflow.now())
            if request.token not in self._asking:
                self._outbox[request.token] = request
        for item in admission.waiting:
            self._queue[item.request.token] = item

    async def _count(self, queue: tuple[QueuedRequest, ...], held: tuple[HeldPermit, ...]) -> ClusterCount | None:
        groups = sorted({item.request.group for item in queue} | {item.request.group for item in held})
        holders = tuple(item.request for item in held if workflow.now() - item.granted_at >= _CHECK_HOLDERS)
        try:
            count: ClusterCount = await workflow.execute_activity(
                ActivityName.COUNT_CLUSTER,
                CountCluster(groups=tuple(groups), holders=holders),
                result_type=ClusterCount,
                start_to_close_timeout=timedelta(minutes=1),
                schedule_to_close_timeout=timedelta(minutes=2),
                heartbeat_timeout=HEARTBEAT,
                summary=f"{len(queue)} wait, {len(held)} held",
            )
            return count
        except ActivityError as error:
            reason = f"the cluster could not be counted: {error.cause or error}"
            for item in queue:
                if item.request.token in self._queue:
                    self._queue[item.request.token] = item.model_copy(update={"reason": reason})
            return None

    async def _deliver(self) -> None:
        if not self._outbox:
            return
        requests = tuple(self._outbox.values())
        try:
            done = await workflow.execute_activity(
                ActivityName.DELIVER_GRANTS,
                DeliverGrants(requests=requests),
                result_type=Delivered,
                start_to_close_timeout=timedelta(minutes=1),
                schedule_to_close_timeout=timedelta(minutes=3),
                heartbeat_timeout=HEARTBEAT,
                retry_policy=_TELL,
                summary=f"{len(requests)} holders",
            )
        except ActivityError:
            return
        for token in done.told:
            self._outbox.pop(token, None)
        for token in done.gone:
            self._forget(token)

    def _forget(self, token: str) -> None:
        for book in (self._queue, self._held, self._outbox):
            if book.pop(token, None) is not None:
                self._dirty = True

    def _answer(self, request: PermitRequest) -> PermitAnswer:
        token = request.token
        if permit := self._held.get(token):
            self._outbox.pop(token, None)
            return PermitAnswer(token=token, granted=True, granted_at=permit.granted_at)
        waiting = self._queue.get(token)
        reason = waiting.reason if waiting else "it was returned while it was asked for"
        return PermitAnswer(token=token, granted=False, reason=reason)

    def _should_continue_as_new(self) -> bool:
        info = workflow.info()
        long = info.get_current_history_length() >= self._history_limit
        return (long or info.is_continue_as_new_suggested()) and workflow.all_handlers_finished()

    def _state(self) -> BudgetState:
        return BudgetState(
            cluster=self._cluster,
            queue=tuple(self._queue.values()),
            held=tuple(self._held.values()),
            outbox=tuple(self._outbox.values()),
            history_limit=self._history_limit,
        )

    def _show(self) -> None:
        held = "\n".join(f"- {item.request.kind} `{item.request.node}`" for item in list(self._held.values())[:20])
        queue = "\n".join(
            f"- {item.request.kind} `{item.request.node}`: {item.reason or 'not looked at yet'}"
            for item in list(self._queue.values())[:20]
        )
        workflow.set_current_details(
            f"**{len(self._held)} permits out, {len(self._queue)} wait**\n\n### Out\n{held or '- none'}\n\n"
            f"### Waiting\n{queue or '- none'}"
        )
