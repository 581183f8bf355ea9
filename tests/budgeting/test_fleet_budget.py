"""FleetBudget on a real Temporal server: batches, tokens, returns, dead holders, continue-as-new."""

import asyncio
import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.permits import PermitActivities, open_desk
from contract.budget import HealthyNodes, RepairResult
from contract.budget_policy import CorrelationGuard, Rate
from contract.names import (
    BUDGET_QUERY,
    BUDGET_TASK_QUEUE,
    FLEET_BUDGET,
    TASK_QUEUE,
    BudgetOrderName,
    ErrorType,
    SearchAttribute,
    budget_id,
)
from contract.permit import AskPermit, BudgetState, PermitAnswer, PermitRequest
from tests.budgeting.conftest import Budget, gang, no_mark
from tests.budgeting.world import ADA, wide

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]


def handle(budget: Budget) -> WorkflowHandle[object, object]:
    return budget.client.get_workflow_handle(budget_id(budget.cluster))


async def state(budget: Budget) -> BudgetState:
    return await handle(budget).query(BUDGET_QUERY, result_type=BudgetState)


async def test_budget_starts_with_the_first_ask(budget: Budget) -> None:
    assert await budget.ask("n0") == {"n0": True}


async def test_limit_holds_over_many_asks_at_once_and_they_travel_together(budget: Budget) -> None:
    answers = await budget.ask(*(f"n{i}" for i in range(10)))
    assert sum(answers.values()) == 2
    assert budget.fleet.counts < 10
    waiting = (await state(budget)).queue
    assert len(waiting) == 8
    assert all("at most 2" in item.reason for item in waiting)


async def test_who_asks_during_a_count_waits_as_long_again_and_others_share_the_next_one(budget: Budget) -> None:
    """A storm asks all the time, and each count reads every Node and every group."""
    budget.fleet.counting_takes_s = 2.0
    async with open_desk(budget.client, budget.cluster) as other:
        first = asyncio.create_task(budget.ask("n0"))
        await budget.fleet.counting.wait()
        second = asyncio.create_task(asyncio.to_thread(other.ask, budget.request("n1")))
        assert await first == {"n0": True}
        budget.fleet.counting_takes_s = 0.0
        # Asked for after the first count, and before the next one, which began at once and had n1 to itself before.
        assert await budget.ask("n2") == {"n2": False}
        assert (await second).granted
    assert budget.fleet.counts == 2


async def test_asking_again_with_a_token_gets_the_same_answer_and_no_second_permit(budget: Budget) -> None:
    await budget.ask("n0", "n0", "n0")
    assert await budget.ask("n0") == {"n0": True}
    assert len((await state(budget)).held) == 1


async def test_what_a_waiting_holder_has_just_heard_is_asked_again_only_by_its_next_try(budget: Budget) -> None:
    """In a storm each holder hears no from `identify` a moment before: the budget need not say so twice."""
    acts, try_one = PermitActivities(budget.client, budget.desk, no_mark()), ActivityEnvironment()
    request = budget.request("n0")
    heard = PermitAnswer(token=request.token, granted=False, reason="2 of 2 are in use")
    ask = AskPermit(request=request, heard=heard)
    with pytest.raises(ApplicationError, match="2 of 2 are in use"):
        await asyncio.to_thread(try_one.run, acts.ask_permit, ask)
    assert not budget.fleet.counts
    try_two = ActivityEnvironment()
    try_two.info = replace(try_two.info, attempt=2)
    assert (await asyncio.to_thread(try_two.run, acts.ask_permit, ask)).granted


async def test_returned_permit_goes_to_the_next_in_line(budget: Budget) -> None:
    await budget.ask("n0", "n1")
    assert await budget.ask("n2") == {"n2": False}
    await budget.give_back("n0")
    async with asyncio.timeout(20):
        while not (await budget.ask("n2"))["n2"]:
            await asyncio.sleep(0.1)


async def test_queued_ask_can_be_withdrawn(budget: Budget) -> None:
    await budget.ask("n0", "n1", "n2")
    await budget.give_back("n0", "n1", "n2")
    after = await state(budget)
    assert not after.held
    assert not after.queue


async def test_permit_of_a_holder_that_is_gone_comes_back(budget: Budget) -> None:
    # Nobody runs under these incident ids, so telling the holder finds it gone.
    await budget.ask("n0", "n1", "n2")
    await budget.give_back("n0")
    async with asyncio.timeout(20):
        while [item.request.node for item in (await state(budget)).held] != ["n1"]:
            await asyncio.sleep(0.1)


async def test_cluster_that_cannot_be_counted_grants_nothing_and_says_so(budget: Budget) -> None:
    budget.fleet.problem = ApplicationError("The API server is away.", type=ErrorType.UNREACHABLE, non_retryable=True)
    assert await budget.ask("n0") == {"n0": False}
    assert "could not be counted" in (await state(budget)).queue[0].reason
    budget.fleet.problem = None
    assert await budget.ask("n0") == {"n0": True}


async def test_continue_as_new_loses_nothing(budget: Budget) -> None:
    await budget.client.start_workflow(
        FLEET_BUDGET,
        BudgetState(cluster=budget.cluster, history_limit=40),
        id=budget_id(budget.cluster),
        task_queue=BUDGET_TASK_QUEUE,
    )
    first = (await handle(budget).describe()).run_id
    await budget.ask("n0", "n1")
    for number in range(2, 14):
        await budget.ask(f"n{number}")
    assert (await handle(budget).describe()).run_id != first
    after = await state(budget)
    assert {item.request.node for item in after.held} == {"n0", "n1"}
    assert {item.request.node for item in after.queue} == {f"n{i}" for i in range(2, 14)}


async def test_budget_never_shares_slots_with_those_who_wait_for_it(budget: Budget) -> None:
    """150 faults at once, a hundred slots: on one queue the count that the answer needs would never have run."""
    await budget.ask("n0")
    described = await handle(budget).describe()
    assert described.task_queue == BUDGET_TASK_QUEUE != TASK_QUEUE


# --- what humans and guards say ---------------------------------------------------------------------------------------


async def tell(budget: Budget, order: BudgetOrderName, **argument: object) -> str:
    answer: str = await handle(budget).execute_update(
        order, {"by": "ada", "reason": "driver roll-out", **argument}, result_type=str
    )
    return answer


async def test_pause_holds_until_resume_and_both_are_in_the_record(budget: Budget) -> None:
    await budget.ask("n0")
    assert "What was granted before goes on" in await tell(budget, BudgetOrderName.PAUSE)
    assert await budget.ask("n1") == {"n1": False}
    assert "ada paused the whole cluster" in (await state(budget)).queue[0].reason
    assert "granted again" in await tell(budget, BudgetOrderName.RESUME)
    assert await budget.ask("n1") == {"n1": True}
    orders = (await state(budget)).orders
    assert [(order.name, order.by) for order in orders] == [("pause", "ada"), ("resume", "ada")]


async def test_pause_of_one_group_is_lifted_by_its_own_resume(budget: Budget) -> None:
    await budget.ask("n0")
    await tell(budget, BudgetOrderName.PAUSE, group="g")
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await tell(budget, BudgetOrderName.RESUME)
    assert "There is no pause of the whole cluster" in str(refused.value.cause)
    assert "Still paused: g" in str(refused.value.cause)
    await tell(budget, BudgetOrderName.RESUME, group="g")
    assert not (await state(budget)).pauses


async def test_order_that_cannot_be_read_is_refused_and_recorded_and_changes_nothing(budget: Budget) -> None:
    await budget.ask("n0")
    await handle(budget).signal(BudgetOrderName.PAUSE, {"by": "ada"})
    async with asyncio.timeout(20):
        while not (orders := (await state(budget)).orders):
            await asyncio.sleep(0.05)
    assert not orders[0].accepted
    assert "reason" in orders[0].answer
    assert not (await state(budget)).pauses


async def test_common_cause_holds_all_pages_once_and_shows_on_the_page(budget: Budget) -> None:
    budget.fleet.policy = wide(correlation=CorrelationGuard(nodes=3))
    budget.fleet.healthy = HealthyNodes(total=40, traits={"driver": {"2.29": 40}})
    asked = await budget.ask(*(f"n{i}" for i in range(5)), traits={"driver": "2.30"})
    # Asks that travelled before the third were alone; how many share a journey is the machine's affair.
    assert sum(asked.values()) < 3
    await budget.ask("n1", "n2")
    (guard,) = (await state(budget)).guards
    assert "share driver 2.30; 0 of the 40 healthy nodes do" in guard.words
    described = await handle(budget).describe()
    assert described.typed_search_attributes[SearchAttributeKey.for_bool(SearchAttribute.NEEDS_HUMAN)] is True
    history = await handle(budget).fetch_history()
    upserts = [
        event for event in history.events if event.HasField("upsert_workflow_search_attributes_event_attributes")
    ]
    assert len(upserts) == 1
    assert "A common cause is suspected" in await details(budget)


async def test_approval_releases_one_that_a_guard_holds_and_stands_in_the_record(budget: Budget) -> None:
    budget.fleet.policy = wide(disruptions=Rate(per_hour=0.01, burst=1))
    await budget.ask("n0")
    assert await budget.ask("n1") == {"n1": False}
    assert await budget.ask("n1", approval=ADA) == {"n1": True}
    (permit,) = [item for item in (await state(budget)).held if item.request.node == "n1"]
    assert permit.request.approval == ADA
    assert "the rate of disruption permits is used up" in permit.released_from


async def test_failed_repair_is_told_with_the_returned_permit_and_counted_once(budget: Budget) -> None:
    await budget.ask("n0")
    failed = RepairResult(
        incident_id="incident-n0",
        run_id=str(uuid.UUID(int=1)),
        group="g",
        fault="hbm",
        node="n0",
        failed=True,
        at=datetime.now(UTC),
    )
    await budget.give_back("n0", result=failed)
    await budget.give_back("n0", result=failed)
    assert await budget.ask("n1") == {"n1": False}
    after = await state(budget)
    assert "1 repair of hbm in g failed, the last on n0" in after.queue[0].reason
    assert len(after.repairs) == 1


async def test_pitfall_10_pauses_guards_and_rates_survive_continue_as_new(budget: Budget) -> None:
    budget.fleet.policy = wide(disruptions=Rate(per_hour=0.01, burst=1), correlation=CorrelationGuard(nodes=3))
    await budget.client.start_workflow(
        FLEET_BUDGET,
        BudgetState(cluster=budget.cluster, history_limit=30),
        id=budget_id(budget.cluster),
        task_queue=BUDGET_TASK_QUEUE,
    )
    first = (await handle(budget).describe()).run_id
    assert await budget.ask("n0") == {"n0": True}
    await budget.ask("n1", "n2", "n3", traits={"driver": "2.30"})
    await tell(budget, BudgetOrderName.PAUSE, group="h")
    for number in range(4, 12):
        await budget.ask(f"n{number}")
    assert (await handle(budget).describe()).run_id != first
    after = await state(budget)
    assert [item.request.node for item in after.held] == ["n0"]
    assert [pause.group for pause in after.pauses] == ["h"]
    assert [guard.fault for guard in after.guards] == ["hbm"]
    assert after.buckets["disruption"].tokens < 1
    assert {item.request.node for item in after.queue} == {f"n{i}" for i in range(1, 12)}


async def test_pitfall_10_terminated_budget_grants_no_second_permit_for_what_the_world_shows(budget: Budget) -> None:
    """Its memory is gone, and the count is not: what is out of work still costs."""
    await budget.ask("n0", "n1")
    await handle(budget).terminate("by a test")
    budget.fleet.working, budget.fleet.share = 8, 0.2
    assert await budget.ask("n2", "n3") == {"n2": False, "n3": False}


async def test_pitfall_10_permit_whose_effect_is_still_to_come_counts_after_terminate(budget: Budget) -> None:
    """No count shows it: its holder says so, and its node is named before anything is granted."""
    budget.fleet.share, budget.fleet.max_concurrent = 0.2, 5
    assert await budget.ask("n0", "n1") == {"n0": True, "n1": True}
    budget.fleet.holding = (budget.request("n0"), budget.request("n1"))
    await handle(budget).terminate("by a test")
    assert await budget.ask("n2") == {"n2": False}
    assert {item.request.node for item in (await state(budget)).held} == {"n0", "n1"}


# --- gangs ------------------------------------------------------------------------------------------------------------


async def ask(budget: Budget, request: PermitRequest) -> bool:
    return (await asyncio.to_thread(budget.desk.ask, request)).granted


async def test_gang_that_loses_a_node_after_the_others_are_drained_asks_for_it_too(budget: Budget) -> None:
    """The job runs again by then: leave for the first nodes is no leave to disturb it once more."""
    assert await ask(budget, gang(budget, "n0", "n1"))
    await tell(budget, BudgetOrderName.PAUSE)
    later = gang(budget, "n2", drained=("n0", "n1"))
    assert not await ask(budget, later)
    assert [item.request.nodes for item in (await state(budget)).held] == [("n0", "n1")], "those stay out"
    await tell(budget, BudgetOrderName.RESUME)
    assert await ask(budget, later)
    assert [item.request.nodes for item in (await state(budget)).held] == [("n2", "n0", "n1")]


async def test_node_that_has_left_its_gang_is_free_once_the_gang_has_leave_for_the_next(budget: Budget) -> None:
    assert await ask(budget, gang(budget, "n0", "n1"))
    assert await ask(budget, gang(budget, "n2", drained=("n1",)))
    assert await budget.ask("n0") == {"n0": False}, "two are out"
    await asyncio.to_thread(budget.desk.give_back, [gang(budget, "n2").token])
    assert await budget.ask("n0") == {"n0": True}


async def test_gang_that_queues_is_granted_with_the_nodes_that_it_has_by_then(budget: Budget) -> None:
    budget.fleet.max_concurrent = 1
    assert await budget.ask("n9") == {"n9": True}
    assert not await ask(budget, gang(budget, "n0"))
    assert not await ask(budget, gang(budget, "n0", "n1"))
    await budget.give_back("n9")
    assert await ask(budget, gang(budget, "n0", "n1"))
    (held,) = (await state(budget)).held
    assert held.request.nodes == ("n0", "n1")


async def test_node_that_joins_while_the_job_is_disturbed_goes_along_and_is_counted(budget: Budget) -> None:
    """Two gangs that held a part and waited for the rest would wait for each other for ever."""
    assert await ask(budget, gang(budget, "n0"))
    await tell(budget, BudgetOrderName.PAUSE)
    assert await ask(budget, gang(budget, "n0", "n1"))
    (held,) = (await state(budget)).held
    assert held.request.nodes == ("n0", "n1")


async def test_node_that_joins_while_the_cluster_is_counted_is_decided_on_once_it_was(budget: Budget) -> None:
    """It is not named in that count, and would look like one that is out of work already."""
    budget.fleet.share, budget.fleet.max_concurrent, budget.fleet.counting_takes_s = 0.2, 5, 0.5
    assert await budget.ask("n8", "n9") == {"n8": True, "n9": True}
    budget.fleet.counting.clear()
    first = asyncio.create_task(ask(budget, gang(budget, "n0")))
    await budget.fleet.counting.wait()
    async with open_desk(budget.client, budget.cluster) as other:
        # The first has left meanwhile.
        later = asyncio.create_task(asyncio.to_thread(other.ask, gang(budget, "n1")))
        assert not await first
        assert not (await later).granted


async def details(budget: Budget) -> str:
    """The page of the workflow in the Temporal UI."""
    metadata = await handle(budget).query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(metadata.current_details)
