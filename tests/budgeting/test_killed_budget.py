"""Pitfall 10 end to end: workers die, FleetBudget is terminated and reset, and not one permit too many is granted."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.claim import read_owner
from activities.cluster import Cluster
from activities.identities import is_ready
from contract.names import NODEGROUP_LABEL, ActivityName, Outcome, budget_id
from deploy.local.scene import NodeGroup
from deploy.local.stack import CLUSTER, Stack
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, send, worker_that_comes_back, write_policy

pytestmark = pytest.mark.stack

AT_ONCE = 2
DEATHS = [
    f"{ActivityName.COUNT_CLUSTER} after",
    f"{ActivityName.ASK_PERMIT} after",
    f"{ActivityName.DELIVER_GRANTS} before",
    f"{ActivityName.RETURN_PERMITS} after",
    f"{ActivityName.COUNT_CLUSTER} before",
    f"{ActivityName.REQUEST_CHECKPOINTS} after",
]


def out_of_work(cluster: Cluster, group: NodeGroup) -> int:
    """Counted from the nodes alone: how many of the group do no work, or are about to."""
    members = [node for node in cluster.nodes() if node["metadata"]["labels"].get(NODEGROUP_LABEL) == group.name]
    at_work = 0
    for node in members:
        owner = read_owner(node)
        at_work += is_ready(node) and not (owner and owner.disrupting)
    return len(group.nodes) - at_work


@asynccontextmanager
async def watching(cluster: Cluster, group: NodeGroup) -> AsyncIterator[list[int]]:
    """Look all the time, as a job that needs the nodes would."""
    seen: list[int] = []

    async def look() -> None:
        while True:
            seen.append(await asyncio.to_thread(out_of_work, cluster, group))
            await asyncio.sleep(0.1)

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def reset(client: Client) -> None:
    """Have FleetBudget forget the second half of its history."""
    described = await client.get_workflow_handle(budget_id(CLUSTER)).describe()
    history = await client.get_workflow_handle(budget_id(CLUSTER), run_id=described.run_id).fetch_history()
    finished = [e.event_id for e in history.events if e.HasField("workflow_task_completed_event_attributes")]
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=budget_id(CLUSTER), run_id=described.run_id),
            reason="by a test",
            workflow_task_finish_event_id=finished[len(finished) // 2],
            request_id=str(uuid.uuid4()),
        )
    )


@pytest.mark.timeout(600)
async def test_pitfall_10_not_one_permit_too_many_through_kills_terminate_and_reset(
    local_stack: Stack, acting: Acting, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(7)
    deaths = tmp_path / "deaths"
    deaths.write_text("\n".join(DEATHS))
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: {**QUICK_POLICY, "max_concurrent": AT_ONCE}})
    client = await connect(local_stack)
    async with watching(acting.cluster, group) as seen:
        with worker_that_comes_back(
            local_stack, policy, tmp_path, "tests.recovering.dying_worker", TEST_DEATHS=str(deaths)
        ) as codes:
            handles = [await send(client, report_about(local_stack, node)) for node in group.nodes]
            budget = client.get_workflow_handle(budget_id(CLUSTER))
            for upset in (budget.terminate, lambda: reset(client), budget.terminate):
                target = len(seen)
                # Each upset comes while repairs are on their way.
                while seen[-1] == 0 or len(seen) < target + 30:
                    await asyncio.sleep(0.1)
                with suppress(RPCError):
                    await upset()
            reports = [await handle.result() for handle in handles]
    assert codes.count(-9) == len(DEATHS) - len(deaths.read_text().split("\n")) + (not deaths.read_text())
    assert {report.outcome for report in reports} == {Outcome.REPLACED}
    assert max(seen) == AT_ONCE
