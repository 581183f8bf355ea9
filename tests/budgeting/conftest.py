"""FleetBudget on a real Temporal server, over a world whose nodes are counted from a list."""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest_asyncio
from kubernetes.client import ApiClient
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from activities.cluster import Cluster
from activities.permits import PermitActivities, PermitDesk, open_desk
from activities.waiting_mark import WaitingMark
from contract.budget import HealthyNodes, RepairResult, Traits
from contract.budget_policy import BudgetPolicy
from contract.names import ActivityName, budget_id
from contract.permit import (
    ClusterCount,
    CountCluster,
    GangNode,
    GroupCount,
    GroupLimits,
    PermitApproval,
    PermitKind,
    PermitRequest,
)
from tests.budgeting.world import wide
from tests.runbook.conftest import temporal  # noqa: F401 - one server for both
from worker.main import make_budget_worker


@dataclass
class Fleet:
    """One group, and what an operator would see of it."""

    desired: int = 10
    working: int = 10
    max_concurrent: int = 2
    share: float = 1.0
    gone: tuple[str, ...] = ()
    problem: Exception | None = None
    policy: BudgetPolicy = field(default_factory=wide)
    healthy: HealthyNodes = field(default_factory=HealthyNodes)
    holding: tuple[PermitRequest, ...] = ()
    """What holders say to a budget that has lost its memory."""
    counts: int = 0
    counting_takes_s: float = 0.0
    counting: asyncio.Event = field(default_factory=asyncio.Event)
    """A count has begun."""

    def count(self, argument: CountCluster) -> ClusterCount:
        """The group as it is."""
        self.counts += 1
        if self.problem:
            raise self.problem
        at_work = [f"n{i}" for i in range(self.working)]
        named = tuple(node for node in at_work if node in argument.nodes)
        group = GroupCount(
            group="g",
            desired=self.desired,
            working=named,
            others_working=len(at_work) - len(named),
            limits=GroupLimits(
                max_concurrent=self.max_concurrent, max_disrupted_share=self.share, max_quarantined_share=1.0
            ),
        )
        held = {holder.token for holder in argument.holders}
        return ClusterCount(
            groups=(group,),
            gone=tuple(token for token in self.gone if token in held),
            counted_at=datetime.now(UTC),
            policy=self.policy,
            healthy=self.healthy,
            holding=self.holding if argument.recover else (),
        )


@dataclass
class Budget:
    """A cluster's budget and a desk before it."""

    client: Client
    cluster: str
    fleet: Fleet
    desk: PermitDesk
    told: list[str] = field(default_factory=list)

    def request(
        self,
        node: str,
        kind: PermitKind = PermitKind.DISRUPTION,
        *,
        approval: PermitApproval | None = None,
        traits: Traits | None = None,
    ) -> PermitRequest:
        return PermitRequest(
            kind=kind,
            incident_id=f"incident-{node}",
            run_id=str(uuid.UUID(int=1)),
            cluster=self.cluster,
            group="g",
            node=node,
            rule="hbm",
            approval=approval,
            traits=traits or {},
        )

    async def ask(
        self, *nodes: str, approval: PermitApproval | None = None, traits: Traits | None = None
    ) -> dict[str, bool]:
        """Ask for a disruption permit for each node, at once, as threads of activities do."""
        asks = [self.request(node, approval=approval, traits=traits) for node in nodes]
        answers = await asyncio.gather(*(asyncio.to_thread(self.desk.ask, ask) for ask in asks))
        return {node: answer.granted for node, answer in zip(nodes, answers, strict=True)}

    async def give_back(self, *nodes: str, result: RepairResult | None = None) -> None:
        await asyncio.to_thread(self.desk.give_back, [self.request(node).token for node in nodes], result)


_REVISIONS = itertools.count(1)


def gang(budget: Budget, *nodes: str, drained: tuple[str, ...] = ()) -> PermitRequest:
    """A gang's request for its nodes that fail, beside those whose work is gone."""
    others = (*nodes[1:], *drained)
    places = tuple(GangNode(node=node, group="g", rule="hbm", out=node in drained) for node in others)
    asked = budget.request(nodes[0]).model_copy(update={"incident_id": "disrupt-train", "job": "ml/Job/train"})
    return asked.model_copy(update={"members": others, "others": places, "revision": next(_REVISIONS)})


FLEETS: dict[str, Fleet] = {}


@activity.defn(name=ActivityName.COUNT_CLUSTER)
async def count_cluster(argument: CountCluster) -> ClusterCount:
    fleet = FLEETS[str(activity.info().workflow_id)]
    fleet.counting.set()
    await asyncio.sleep(fleet.counting_takes_s)
    return fleet.count(argument)


def no_mark() -> WaitingMark:
    """Of a cluster that is never called: these tests ask for no quarantine."""
    return WaitingMark(Cluster(ApiClient()))


@pytest_asyncio.fixture(loop_scope="session")
async def budget(temporal: Client) -> AsyncIterator[Budget]:  # noqa: F811
    cluster = f"test-{uuid.uuid4().hex[:8]}"
    fleet = FLEETS.setdefault(budget_id(cluster), Fleet())
    async with open_desk(temporal, cluster) as desk:
        acts = PermitActivities(temporal, desk, no_mark())
        async with make_budget_worker(temporal, [count_cluster, acts.deliver_grants]):
            yield Budget(temporal, cluster, fleet, desk)
    await end(temporal, cluster)


async def end(temporal: Client, cluster: str) -> None:  # noqa: F811
    """No budget outlives its test: the worker of the next one would serve it too."""
    with suppress(RPCError):
        await temporal.get_workflow_handle(budget_id(cluster)).terminate("the test is over")
