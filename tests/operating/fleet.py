"""A cluster of its own in a shared Temporal, without workers: incidents are started there, and commands given."""

import asyncio
import subprocess
import uuid
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.contrib.pydantic import pydantic_data_converter

from contract.fault import RemediationRequest
from contract.names import REMEDIATE_NODE, TASK_QUEUE, OverrideName, incident_id
from deploy.local.temporal import Temporal
from tests.operating.command import nodemend


class Fleet:
    """A cluster of its own in the shared Temporal: incidents are started, and commands given, for it."""

    def __init__(self, temporal: Temporal) -> None:
        self.temporal = temporal
        self.cluster = f"c{uuid.uuid4().hex[:6]}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TEMPORAL_ADDRESS": self.temporal.address,
            "TEMPORAL_NAMESPACE": self.temporal.namespace,
            "NODEMEND_CLUSTER": self.cluster,
        }

    async def client(self) -> Client:
        return await Client.connect(
            self.temporal.address, namespace=self.temporal.namespace, data_converter=pydantic_data_converter
        )

    async def start(
        self,
        node: str,
        *,
        cluster: str = "",
        drill: bool = False,
        memo: dict[str, Any] | None = None,
        instance: str = "",
    ) -> WorkflowHandle[Any, Any]:
        instance = instance or f"i-{uuid.uuid4().hex[:17]}"
        where = cluster or self.cluster
        client = await self.client()
        handle = await client.start_workflow(
            REMEDIATE_NODE,
            RemediationRequest(cluster=where, node=node, instance_id=instance, drill=drill),
            id=incident_id(where, node, instance, drill=drill),
            task_queue=TASK_QUEUE,
            memo=memo,
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
        )
        async with asyncio.timeout(20):
            while not [e async for e in client.list_workflows(f'WorkflowId="{handle.id}"')]:
                await asyncio.sleep(0.05)
        return handle

    async def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(nodemend, *arguments, **self.environment)

    async def press(self, target: str, name: OverrideName = OverrideName.HOLD) -> "subprocess.CompletedProcess[str]":
        return await self.command(name, target, "--by", "ada", "--reason", "r", "--output", "json")
