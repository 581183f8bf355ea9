"""A gang on a real Temporal server: its nodes' incidents are played, its acts answer as told, its workflow is real."""

import asyncio
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.gang_members import GangMemberActivities
from contract.fault import DataTrust
from contract.gang import (
    GangLeft,
    GangMember,
    GangRequest,
    GangStage,
    GangState,
    JoinGang,
    LeaveGang,
    RequestGangCheckpoint,
)
from contract.identity import Fence, Target
from contract.names import GANG_QUERY, PERMITS_QUERY, ActivityName, ErrorType, gang_id
from contract.permit import PermitRequest
from contract.policy import CheckpointPolicy
from tests.runbook.world import WORLDS, World, identity

PATIENCE_S = 30.0


@dataclass
class GangPlay:
    """One job, and the incidents of its nodes as far as the gang sees them."""

    client: Client
    task_queue: str
    world: World
    gather: timedelta = timedelta(seconds=0.3)
    job: str = field(default_factory=lambda: f"default/Job/train-{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        WORLDS[self.id] = self.world
        self._acts = GangMemberActivities(self.client, self.task_queue)

    @property
    def id(self) -> str:
        """Of the workflow."""
        return gang_id("test", self.job, "uid-1")

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        """Of the workflow."""
        return self.client.get_workflow_handle(self.id, result_type=GangState)

    def request(self) -> GangRequest:
        rules = CheckpointPolicy(gather=self.gather, longest=timedelta(seconds=5))
        return GangRequest(cluster="test", job=self.job, uid="uid-1", deadline=timedelta(seconds=5), rules=rules)

    def member(self, node: str, **changes: Any) -> GangMember:
        """A failing node."""
        who = identity(node=node, node_uid=f"uid-{node}")
        usual = {"data": DataTrust.TRUSTED, "signature": "rule/0/CODE"}
        fence = Fence(incident_id=f"remediate-test-{node}", run_id="run-1")
        return GangMember(target=Target(identity=who, fence=fence), **{**usual, **changes})

    async def join(self, node: str, **changes: Any) -> GangState | None:
        """One look of a node's incident that wants leave; None while it must wait."""
        return await self._once(self._acts.join_gang, node, **changes)

    async def look(self, node: str, **changes: Any) -> GangState | None:
        """One look of a node's incident that wants to drain; None while it must wait."""
        return await self._once(self._acts.await_gang, node, **changes)

    async def until_released(self, node: str, **changes: Any) -> GangState:
        """Look until the node may be drained."""
        async with asyncio.timeout(PATIENCE_S):
            while not (state := await self.look(node, **changes)):
                await asyncio.sleep(0.05)
        return state

    async def leave(self, node: str, *, drained: bool = False, tell: bool = False) -> GangLeft:
        """The node is drained, or done with."""
        argument = LeaveGang(
            cluster="test", job=self.job, uid="uid-1", member=self.member(node).key, drained=drained, tell=tell
        )
        left: GangLeft = await ActivityEnvironment().run(self._acts.leave_gang, argument)
        return left

    async def state(self) -> GangState:
        """The gang as of now."""
        return await self.handle.query(GANG_QUERY, result_type=GangState)

    async def permits(self) -> list[PermitRequest]:
        """What it says to a budget that has lost its memory."""
        return await self.handle.query(PERMITS_QUERY, result_type=list[PermitRequest])

    async def until_permits(self, nodes: tuple[str, ...], *, out: bool) -> list[PermitRequest]:
        """Look until it has leave for these nodes, the first of them asked for or told of."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await self.permits()
                if [(request.nodes, request.out) for request in found] == [(nodes, out)]:
                    return found
                await asyncio.sleep(0.05)

    async def until_stage(self, stage: GangStage) -> GangState:
        """Look until it is that far."""
        async with asyncio.timeout(PATIENCE_S):
            while (state := await self.state()).stage is not stage:
                await asyncio.sleep(0.05)
        return state

    def asked(self) -> list[RequestGangCheckpoint]:
        """What the job was asked."""
        return list(self.world.arguments(ActivityName.REQUEST_GANG_CHECKPOINT))

    async def _once(self, act: Any, node: str, **changes: Any) -> GangState | None:
        try:
            argument = JoinGang(request=self.request(), member=self.member(node, **changes))
            found: GangState = await ActivityEnvironment().run(act, argument)
        except ApplicationError as error:
            # Both are tried again by Temporal.
            if error.type not in (ErrorType.PERMIT_QUEUED, ErrorType.UNREACHABLE):
                raise
            return None
        return found
