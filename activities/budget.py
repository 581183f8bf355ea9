"""Counting the cluster for FleetBudget: what works, what is closed, and which permit holders are dead."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.auto_scaling import AutoScaling
from activities.claim import read_owner
from activities.cluster import Cluster, Json
from activities.identify import is_ready
from contract.names import ActivityName
from contract.permit import ClusterCount, CountCluster, GroupCount, GroupLimits, PermitRequest
from contract.policy import Policy


class BudgetActivities:
    """The act ``count_cluster``."""

    def __init__(
        self, client: Client, cluster: Cluster, auto_scaling: AutoScaling, policy: Callable[[], Policy]
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._auto_scaling = auto_scaling
        self._policy = policy

    @activity.defn(name=ActivityName.COUNT_CLUSTER)
    async def count_cluster(self, argument: CountCluster) -> ClusterCount:
        """Count the asked groups from the API server and Auto Scaling, with the limits of the policy as of now.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``; then nothing is granted.
        """
        counts = await asyncio.to_thread(self._count, argument.groups)
        gone = [request.token for request in argument.holders if not await self._runs(request)]
        return ClusterCount(groups=counts, gone=tuple(gone), counted_at=datetime.now(UTC))

    def _count(self, names: tuple[str, ...]) -> tuple[GroupCount, ...]:
        policy, nodes = self._policy(), self._cluster.nodes()
        found = {g["AutoScalingGroupName"]: g for g in self._auto_scaling.groups([name for name in names if name])}
        by_instance = {node["spec"].get("providerID", "").rpartition("/")[2]: node for node in nodes}
        counts = []
        for name in names:
            if group := found.get(name):
                members = [
                    by_instance[instance["InstanceId"]]
                    for instance in group.get("Instances", [])
                    if instance["InstanceId"] in by_instance
                ]
                desired = group["DesiredCapacity"]
            else:
                # Nodes of no group have no desired size: what there is, is what should be.
                members = [node for node in nodes if not node["spec"].get("providerID", "").startswith("aws:///")]
                desired = max(len(members), 1)
            counts.append(count_group(name, desired, members, policy))
        return tuple(counts)

    async def _runs(self, request: PermitRequest) -> bool:
        handle = self._client.get_workflow_handle(request.incident_id, run_id=request.run_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            return error.status is not RPCStatusCode.NOT_FOUND
        return description.status is WorkflowExecutionStatus.RUNNING


def count_group(name: str, desired: int, members: list[Json], policy: Policy) -> GroupCount:
    """Sort a group's nodes into those that work untouched and those that are quarantined and still work. Pure."""
    rules = policy.for_node(name, None)
    working, quarantined = [], []
    for node in members:
        if not is_ready(node):
            continue
        owner = read_owner(node)
        if owner is None:
            if not node["spec"].get("unschedulable", False):
                working.append(node["metadata"]["name"])
            else:
                quarantined.append(node["metadata"]["name"])
        elif not owner.disrupting:
            quarantined.append(node["metadata"]["name"])
    return GroupCount(
        group=name,
        desired=desired,
        working=tuple(working),
        quarantined=tuple(quarantined),
        limits=GroupLimits(
            max_concurrent=rules.max_concurrent,
            max_disrupted_share=rules.max_disrupted_share,
            max_quarantined_share=rules.max_quarantined_share,
        ),
    )
