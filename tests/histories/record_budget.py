"""Records a history of FleetBudget to replay: ``python -m tests.histories.record_budget NAME-OF-THIS-SET``.

As in ``tests.histories.record``: once per set, never again.
"""

import asyncio
import gzip
import sys
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from activities.permits import PermitActivities, open_desk
from contract.names import budget_id
from contract.permit import PermitKind
from tests.budgeting.conftest import FLEETS, Budget, Fleet, count_cluster, gang, no_mark
from tests.histories.record import FOLDER
from worker.main import make_budget_worker


async def play(budget: Budget) -> None:
    """Asks, waits, returns, a tightened policy and a count that fails: what a budget sees in its life."""
    await budget.ask(*(f"n{number}" for number in range(6)))
    await asyncio.to_thread(budget.desk.ask, budget.request("n7", PermitKind.QUARANTINE))
    await budget.give_back("n0", "n1")
    await budget.ask("n2", "n3", "n8")
    budget.fleet.working = 7
    budget.fleet.max_concurrent = 3
    await budget.ask("n4", "n9")
    await budget.give_back("n2", "n3", "n4")
    await budget.ask("n5", "n8")
    # While a count runs, another process asks: it waits for others to share the next one.
    budget.fleet.counting_takes_s = 1.0
    budget.fleet.counting.clear()
    async with open_desk(budget.client, budget.cluster) as other:
        first = asyncio.create_task(budget.ask("n4"))
        await budget.fleet.counting.wait()
        await asyncio.gather(first, asyncio.to_thread(other.ask, budget.request("n2")))
    budget.fleet.counting_takes_s = 0.0
    for nodes, drained in ((("n6",), ()), (("n6", "n0"), ()), (("n1",), ("n6", "n0"))):
        await asyncio.to_thread(budget.desk.ask, gang(budget, *nodes, drained=drained))


async def play_again(budget: Budget) -> None:
    """The next one, after Terminate: it asks the holders, and counts once more with what they say."""
    await budget.client.get_workflow_handle(budget_id(budget.cluster)).terminate("to be recorded")
    budget.fleet.holding = (budget.request("n5"), gang(budget, "n1", drained=("n6",)))
    await budget.ask("n2", "n3")


async def main(name: str) -> None:
    """Play and write the history."""
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
        dev_server_log_level="error",
    ) as environment:
        client: Client = environment.client
        cluster = "recorded"
        fleet = FLEETS.setdefault(budget_id(cluster), Fleet())
        async with open_desk(client, cluster) as desk:
            acts = PermitActivities(client, desk, no_mark())
            async with make_budget_worker(client, [count_cluster, acts.deliver_grants]):
                budget = Budget(client, cluster, fleet, desk)
                for scenario, kind in ((play, "budget"), (play_again, "budget_recovered")):
                    await scenario(budget)
                    await asyncio.sleep(timedelta(seconds=1).total_seconds())
                    history = await client.get_workflow_handle(budget_id(cluster)).fetch_history()
                    target = FOLDER / f"{name}-{kind}.json.gz"
                    target.write_bytes(gzip.compress(history.to_json().encode(), mtime=0))
                    print(f"{target.name}: {len(history.events)} events")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
