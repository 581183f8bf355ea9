"""FleetBudget: the one workflow per cluster that grants permits.

Worker processes ask and return in batches by one update. A pass counts the cluster, then decides with a pure
function. Who had to wait is told through an outbox that is kept until the telling is done; a holder that missed it
asks again, and the same token gets the same answer.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from contract.budget import Guard, Limit, OrderRecord
    from contract.budget_policy import BudgetPolicy
    from contract.names import (
        BUDGET_QUERY,
        EXCHANGE_PERMITS,
        FLEET_BUDGET,
        ActivityName,
        BudgetOrderName,
        ErrorType,
        SearchAttribute,
    )
    from contract.permit import (
        BudgetState,
        ClusterCount,
        CountCluster,
        Delivered,
        DeliverGrants,
        PermitAnswer,
        PermitBatch,
        PermitRequest,
        QueuedRequest,
    )
    from contract.words import counted
    from workflows.budget.admission import Memory, admit
    from workflows.budget.book import Book
    from workflows.budget.carried import answer, carried, carry, some_of, unpack
    from workflows.budget.correlation import candidates
    from workflows.budget.meters import Meters
    from workflows.budget.orders import DESCRIPTIONS, take_order
    from workflows.budget.page import page
    from workflows.timing import HEARTBEAT

_COUNT_AGAIN: Final = timedelta(seconds=15)
"""While somebody waits, the cluster is counted at least this often: nodes come back without telling us."""
_CHECK_HOLDERS: Final = timedelta(minutes=5)
"""While permits are out and nobody waits: holders that were terminated never return theirs."""
_CHECKED_AT_ONCE: Final = 20
"""Of those that have waited for long, this many in each pass: they too may have been terminated."""
_HOLDERS_AT_ONCE: Final = 100
"""Of those that have held for long, this many in each pass: a thousand parked incidents must not fill the history."""
_TOLD_AT_ONCE: Final = 200
_GATHER_AT_MOST: Final = timedelta(seconds=2)
_ORDERS_KEPT: Final = 20
_TELL: Final = RetryPolicy(maximum_attempts=3)


@workflow.defn(name=FLEET_BUDGET)
class FleetBudget:
    """Permits of one cluster."""

    @workflow.init
    def __init__(self, state: BudgetState) -> None:
        """Take over what the run before carried."""
        state = carried(state)
        self._cluster = state.cluster
        self._history_limit = state.history_limit
        self._book = Book(unpack(state.queue, state.sightings), state.held)
        self._outbox = {request.token: request for request in state.outbox}
        self._memory = Memory(state.pauses, dict(state.buckets), state.sightings, state.guards, state.repairs)
        self._orders = state.orders
        self._meters = Meters()
        self._pages_human = any(guard.cleared_at is None for guard in state.guards)
        self._correlation = BudgetPolicy().correlation
        """As of the last count: which jobs are worth looking for in the next."""
        self._remembers = state.carried
        self._run_id = ""
        """The run at the last count."""
        self._dirty = True
        self._passes = 0
        self._asking: set[str] = set()
        """Tokens whose asker waits in an update right now: its answer tells it, so the outbox need not."""

    @workflow.run
    async def run(self, _state: BudgetState) -> None:
        """Grant permits for ever."""
        while not self._should_continue_as_new():
            if await self._woken():
                began = workflow.now()
                await self._pass()
                await self._deliver()
                await self._gather(workflow.now() - began)
        workflow.continue_as_new(carry(self._state()))

    @workflow.update(name=EXCHANGE_PERMITS, description="Asks and returns of one worker process (a PermitBatch).")
    async def exchange_permits(self, batch: PermitBatch) -> list[PermitAnswer]:
        """Answer every ask of the batch, in its order. Returned tokens are free before the asks are looked at."""
        for token in batch.returns:
            self._forget(token)
        known = {(result.incident_id, result.run_id) for result in self._memory.repairs}
        new = tuple(result for result in batch.results if (result.incident_id, result.run_id) not in known)
        self._memory = replace(self._memory, repairs=(*self._memory.repairs, *new))
        asks = self._as_decided(batch.asks)
        for request in asks:
            self._book.ask(request, workflow.now())
        if not all(map(self._book.has_leave, asks)):
            tokens = {request.token for request in asks}
            self._asking |= tokens
            seen = self._passes
            self._dirty = True
            # The pass that runs now may have read the queue already; the next one has not.
            wanted = seen + (2 if self._in_pass else 1)
            await workflow.wait_condition(lambda: self._passes >= wanted)
            self._asking -= tokens
        elif batch.returns:
            self._dirty = True
        return [self._answer(request) for request in asks]

    # A signal works while workers are down; an update answers at once. Both take their argument untyped: one that
    # does not decode would be dropped with a log line, and a human's word must be answered and recorded.

    @workflow.signal(name=BudgetOrderName.PAUSE, description=DESCRIPTIONS[BudgetOrderName.PAUSE])
    def pause_signal(self, argument: Any = None) -> None:
        """Grant nothing new, to the cluster or to one group."""
        self._order(BudgetOrderName.PAUSE, argument)

    @workflow.update(name=BudgetOrderName.PAUSE, description=DESCRIPTIONS[BudgetOrderName.PAUSE])
    def pause_update(self, argument: Any = None) -> str:
        """The same, and answer."""
        return _answered(self._order(BudgetOrderName.PAUSE, argument))

    @workflow.signal(name=BudgetOrderName.RESUME, description=DESCRIPTIONS[BudgetOrderName.RESUME])
    def resume_signal(self, argument: Any = None) -> None:
        """Lift a pause."""
        self._order(BudgetOrderName.RESUME, argument)

    @workflow.update(name=BudgetOrderName.RESUME, description=DESCRIPTIONS[BudgetOrderName.RESUME])
    def resume_update(self, argument: Any = None) -> str:
        """The same, and answer."""
        return _answered(self._order(BudgetOrderName.RESUME, argument))

    @workflow.query(name=BUDGET_QUERY, description="Who holds permits, who waits and why, and what is paused.")
    def budget(self) -> BudgetState:
        """The state as of now, without what only the guard needs, and short enough for one message."""
        return answer(self._state())

    def _as_decided(self, requests: tuple[PermitRequest, ...]) -> tuple[PermitRequest, ...]:
        """The requests as this run decides on them: while workers are upgraded, older ones may have taken them in."""
        if any(request.revision for request in requests) and not workflow.patched("gangs-in-their-places"):
            return tuple(map(self._book.as_before, requests))
        return requests

    def _order(self, name: BudgetOrderName, argument: Any) -> OrderRecord:
        pauses, record = take_order(name, argument, self._memory.pauses, workflow.now())
        self._memory = replace(self._memory, pauses=pauses)
        self._orders = (*self._orders, record)[-_ORDERS_KEPT:]
        self._dirty = True
        return record

    _in_pass = False

    async def _woken(self) -> bool:
        """Wait for something to decide. False when it is time to continue as new instead."""
        self._show()
        patience = _COUNT_AGAIN if self._book.queue or self._outbox else _CHECK_HOLDERS if self._book.held else None
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
        book = self._book
        queue = tuple(book.queue.values())
        if queue or book.held:
            count = await self._count(queue)
            if count and self._recovered(count) and workflow.patched("recovered-are-counted"):
                # Their nodes were not named in it: one whose disruption is still to come would count as at work.
                count = await self._count(queue)
            if count:
                self._decide(queue, count)
        self._in_pass = False
        self._passes += 1

    def _recovered(self, count: ClusterCount) -> bool:
        """Take over permits that were out before it lost its memory; whether there were any."""
        self._remembers, self._run_id = True, count.run_id
        return self._book.recover(self._as_decided(count.holding), workflow.now())

    def _decide(self, queue: tuple[QueuedRequest, ...], count: ClusterCount) -> None:
        for token in count.gone:
            self._forget(token)
        book = self._book
        admission = admit(count, book.still_asked(queue), tuple(book.held.values()), self._memory, workflow.now())
        for grant in admission.granted:
            token = grant.request.token
            book.hold(grant.request, workflow.now(), grant.released_from)
            self._meters.granted(grant.request)
            if token not in self._asking:
                self._outbox[token] = grant.request
        for item in admission.waiting:
            book.queue[item.request.token] = item
        before = {(guard.key, guard.since) for guard in self._memory.guards}
        self._memory = admission.memory
        self._page([guard for guard in self._memory.guards if (guard.key, guard.since) not in before])
        if count.policy:
            self._correlation = count.policy.correlation

    def _page(self, raised: list[Guard]) -> None:
        """Have a human look, once for each common cause: the log, a counter, and the view of what needs a human."""
        for guard in raised:
            workflow.logger.error("Permits are held, a common cause is suspected: %s", guard.words)
            self._meters.raised()
        up = any(guard.cleared_at is None for guard in self._memory.guards)
        if up is not self._pages_human:
            self._pages_human = up
            workflow.upsert_search_attributes([SearchAttributeKey.for_bool(SearchAttribute.NEEDS_HUMAN).value_set(up)])

    async def _count(self, queue: tuple[QueuedRequest, ...]) -> ClusterCount | None:
        held = tuple(self._book.held.values())
        requests = [item.request for item in queue] + [item.request for item in held]
        parts = [part for request in requests for part in request.parts]
        groups = sorted({part.group for part in parts})
        long_ago = workflow.now() - _CHECK_HOLDERS
        holders = [item.request for item in held if item.granted_at <= long_ago]
        patient = [item.request for item in queue if item.asked_at <= long_ago]
        # A gang says where its nodes are, or may not; their incidents ask and hold beside it, and come last.
        place = {group: number for number, group in enumerate(groups)}
        group_of = {part.node: place[part.group] for part in sorted(parts, key=lambda part: not part.job)}
        nodes = sorted(group_of)
        try:
            count: ClusterCount = await workflow.execute_activity(
                ActivityName.COUNT_CLUSTER,
                CountCluster(
                    groups=tuple(groups),
                    holders=(
                        *some_of(holders, _HOLDERS_AT_ONCE, self._passes),
                        *some_of(patient, _CHECKED_AT_ONCE, self._passes),
                    ),
                    nodes=tuple(nodes),
                    groups_of_nodes=tuple(group_of[node] for node in nodes),
                    jobs=candidates(self._memory.sightings, self._correlation),
                    cluster=self._cluster,
                    recover=not self._remembers,
                    run_id=self._run_id,
                ),
                result_type=ClusterCount,
                # Without a memory it asks every open incident what it holds.
                start_to_close_timeout=timedelta(minutes=1 if self._remembers else 5),
                schedule_to_close_timeout=timedelta(minutes=2 if self._remembers else 6),
                heartbeat_timeout=HEARTBEAT,
                summary=f"{counted(len(queue), 'waits', 'wait')}, {len(held)} held",
            )
            return count
        except ActivityError as error:
            reason = f"the cluster could not be counted: {error.cause or error}"
            for item in queue:
                if waiting := self._book.queue.get(item.request.token):
                    self._book.queue[item.request.token] = waiting.model_copy(
                        update={
                            "reason": reason,
                            "limit": Limit.UNCOUNTED,
                            "releases": "It is counted again by itself.",
                        }
                    )
            return None

    async def _deliver(self) -> None:
        """Tell the holders, some at a time: a pause that is lifted may let thousands go, and others ask meanwhile."""
        if not self._outbox:
            return
        requests = tuple(self._outbox.values())[:_TOLD_AT_ONCE]
        try:
            done = await workflow.execute_activity(
                ActivityName.DELIVER_GRANTS,
                DeliverGrants(requests=requests),
                result_type=Delivered,
                start_to_close_timeout=timedelta(minutes=1),
                schedule_to_close_timeout=timedelta(minutes=3),
                heartbeat_timeout=HEARTBEAT,
                retry_policy=_TELL,
                summary=f"{counted(len(requests), 'holder')}",
            )
        except ActivityError:
            return
        for token in done.told:
            self._outbox.pop(token, None)
        for token in done.gone:
            self._forget(token)
        if self._outbox and len(requests) == _TOLD_AT_ONCE:
            self._dirty = True

    async def _gather(self, took: timedelta) -> None:
        """Where more asked meanwhile, wait as long again: in a storm the next count then serves twice as many.

        Each reads all Nodes and all groups, however few ask.
        """
        if self._dirty and workflow.patched("asks-gather"):
            await workflow.sleep(min(took, _GATHER_AT_MOST), summary="letting asks gather")

    def _forget(self, token: str) -> None:
        told = self._outbox.pop(token, None)
        if self._book.forget(token) or told:
            self._dirty = True

    def _answer(self, request: PermitRequest) -> PermitAnswer:
        token = request.token
        permit = self._book.held.get(token)
        if permit and permit.request.covers(request):
            self._outbox.pop(token, None)
            return PermitAnswer(token=token, granted=True, granted_at=permit.granted_at)
        waiting = self._book.queue.get(token)
        if waiting is None:
            return PermitAnswer(token=token, granted=False, reason="it was returned while it was asked for")
        return PermitAnswer(token=token, granted=False, reason=waiting.reason, releases=waiting.releases)

    def _should_continue_as_new(self) -> bool:
        info = workflow.info()
        long = info.get_current_history_length() >= self._history_limit
        return (long or info.is_continue_as_new_suggested()) and workflow.all_handlers_finished()

    def _state(self) -> BudgetState:
        return BudgetState(
            cluster=self._cluster,
            queue=tuple(self._book.queue.values()),
            held=tuple(self._book.held.values()),
            outbox=tuple(self._outbox.values()),
            pauses=self._memory.pauses,
            buckets=self._memory.buckets,
            sightings=self._memory.sightings,
            guards=self._memory.guards,
            repairs=self._memory.repairs,
            orders=self._orders,
            history_limit=self._history_limit,
        )

    def _show(self) -> None:
        state = self._state()
        self._meters.show(state)
        workflow.set_current_details(page(state))


def _answered(record: OrderRecord) -> str:
    if not record.accepted:
        raise ApplicationError(record.answer, type=ErrorType.OVERRIDE_REFUSED, non_retryable=True)
    return record.answer
