"""Incidents in a Karpenter NodePool, from end to end: what the pool must keep, it keeps, and then the next one goes."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.objects import Objects
from contract.names import BUDGET_QUERY, Outcome, budget_id
from contract.permit import BudgetState, PermitKind
from deploy.local.scene import wait_for
from deploy.local.stack import CLUSTER, Stack
from tests.acting import Acting
from tests.budgeting.test_membership import pool_of
from tests.harness import PATIENCE_S, QUICK_POLICY, connect, report_about, running_worker, send, write_policy
from tests.replacing.custom_machines import CLAIMS, install, karpenter_node

pytestmark = pytest.mark.stack


def given_up(karpenter: Objects, pool: str) -> list[tuple[str, str]]:
    """NodeClaims of the pool that were deleted and whose instance is still there, with their Nodes."""
    claims = karpenter.list(CLAIMS, labelSelector=f"karpenter.sh/nodepool={pool}")
    return [
        (claim["metadata"]["name"], claim["status"]["nodeName"])
        for claim in claims
        if claim["metadata"].get("deletionTimestamp")
    ]


async def reasons(client: Client, pool: str) -> list[str]:
    """Why disruptions in the pool wait, once one does."""
    found: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while not found:
            found = await reasons_now(client, pool)
            await asyncio.sleep(0.1)
    return found


async def reasons_now(client: Client, pool: str) -> list[str]:
    handle = client.get_workflow_handle(budget_id(CLUSTER))
    state: BudgetState = await handle.query(BUDGET_QUERY, result_type=BudgetState)
    return [
        item.reason for item in state.queue if item.request.group == pool and item.request.kind is PermitKind.DISRUPTION
    ]


@pytest.mark.timeout(300)
async def test_pool_keeps_what_it_must_and_its_sick_nodes_go_one_after_another(
    local_stack: Stack, acting: Acting, joined: list[str], tmp_path: Path
) -> None:
    karpenter = install(acting, "karpenter")
    pool, nodes = pool_of(acting, karpenter, joined, 4)
    policy = write_policy(tmp_path / "policy.yaml", **{pool: {**QUICK_POLICY, "min_working": 3}})
    client = await connect(local_stack)
    gone: list[str] = []
    with running_worker(local_stack, policy, tmp_path):
        handles = [await send(client, report_about(local_stack, node)) for node in nodes[:2]]
        for _ in handles:
            await asyncio.to_thread(wait_for, lambda: given_up(karpenter, pool), "a NodeClaim to be deleted")
            if not gone:
                assert ["must keep 3" in reason for reason in await reasons(client, pool)] == [True]
            # Be Karpenter: the instance is terminated, so Node and finalizer go, and another is launched.
            ((claim, node),) = given_up(karpenter, pool)
            gone.append(node)
            fresh, _ = karpenter_node(acting, karpenter, pool)
            joined.append(fresh)
            await asyncio.to_thread(acting.core.delete_node, node)
            karpenter.patch(f"{CLAIMS}/{claim}", {"metadata": {"finalizers": None}})
        reports = [await handle.result() for handle in handles]
    assert [report.outcome for report in reports] == [Outcome.REPLACED] * 2, [r.summary for r in reports]
    assert sorted(gone) == sorted(nodes[:2])
