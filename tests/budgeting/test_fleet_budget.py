"""FleetBudget on a real Temporal server: batches, tokens, returns, dead holders, continue-as-new."""

import asyncio

import pytest
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError

from contract.names import BUDGET_QUERY, BUDGET_TASK_QUEUE, FLEET_BUDGET, TASK_QUEUE, ErrorType, budget_id
from contract.permit import BudgetState
from tests.budgeting.conftest import Budget

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


async def test_asking_again_with_a_token_gets_the_same_answer_and_no_second_permit(budget: Budget) -> None:
    await budget.ask("n0", "n0", "n0")
    assert await budget.ask("n0") == {"n0": True}
    assert len((await state(budget)).held) == 1


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
