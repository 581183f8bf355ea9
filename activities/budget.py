"""Counting the cluster for FleetBudget: what works, what is closed, and which permit holders are dead."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.auto_scaling import AutoScaling
from activities.claim import labels, read_owner, under_verification
from activities.cluster import Cluster, Json
from activities.holders import permits_in_use
from activities.identities import is_ready
from activities.machines.membership import Members, Membership
from activities.together import together
from activities.traits import node_traits, where_they_run
from contract.budget import Area, HealthyNodes
from contract.maintenance import opens_at
from contract.names import ZONE_LABEL, ActivityName
from contract.permit import ClusterCount, CountCluster, GroupCount, GroupLimits, PermitRequest
from contract.policy import Policy


class Standing(StrEnum):
    """How a node counts."""

    WORKING = "working"
    QUARANTINED = "quarantined"
    """Closed to the scheduler, its work undisturbed."""
    UNPROVEN = "unproven"
    """Another's replacement, closed until it is verified: it does not count yet, and what it replaces still does."""
    LOST = "lost"
    GIVEN_UP = "given up"
    """Lost for so long that nobody waits for it."""


@dataclass
class Tally:
    """Nodes of one group, zone or cluster by standing. Those that matter now are named, the others only counted."""

    names: dict[Standing, list[str]] = field(default_factory=lambda: {standing: [] for standing in Standing})
    others: "Counter[Standing]" = field(default_factory=Counter)

    def add(self, node: Json, standing: Standing, named: Collection[str]) -> None:
        """Count a node."""
        name = node["metadata"]["name"]
        if not named or name in named:
            self.names[standing].append(name)
        else:
            self.others[standing] += 1

    def number(self, standing: Standing) -> int:
        """How many have it."""
        return len(self.names[standing]) + self.others[standing]

    def area(self, name: str, missing: int = 0) -> Area:
        """As an area of the count."""
        return Area(
            name=name,
            desired=sum(map(self.number, (Standing.WORKING, Standing.QUARANTINED, Standing.LOST))) + missing,
            working=tuple(self.names[Standing.WORKING]),
            quarantined=tuple(self.names[Standing.QUARANTINED]),
            others_working=self.others[Standing.WORKING],
            others_quarantined=self.others[Standing.QUARANTINED],
        )


class BudgetActivities:
    """The act ``count_cluster``."""

    def __init__(
        self, client: Client, cluster: Cluster, auto_scaling: AutoScaling, policy: Callable[[], Policy]
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._membership = Membership(cluster, auto_scaling)
        self._policy = policy

    @activity.defn(name=ActivityName.COUNT_CLUSTER)
    async def count_cluster(self, argument: CountCluster) -> ClusterCount:
        """Count the cluster from the API server and Auto Scaling, with the limits of the policy as of now.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``; then nothing is granted.
        """
        count = await asyncio.to_thread(self._count, argument)
        alive = await together(map(self._runs, argument.holders))
        gone = [request.token for request, runs in zip(argument.holders, alive, strict=True) if not runs]
        run_id = str(activity.info().workflow_run_id)
        forgot = argument.recover or (argument.run_id and argument.run_id != run_id)
        holding = await permits_in_use(self._client, argument.cluster) if forgot else ()
        return count.model_copy(update={"gone": tuple(gone), "run_id": run_id, "holding": holding})

    def _count(self, argument: CountCluster) -> ClusterCount:
        policy, nodes, now = self._policy(), self._cluster.nodes(), datetime.now(UTC)
        named = frozenset(argument.nodes)
        standings = {node["metadata"]["name"]: standing_of(node, now, policy.budget.given_up_after) for node in nodes}
        absent = _absent_by_group(argument, standings)
        groups, missing = [], 0
        for name, members in self._membership.of(argument.groups, nodes).items():
            group = count_group(name, members, absent.get(name, set()), standings, policy, named, now)
            missing += group.missing
            groups.append(group.count)
        whole, zones = Tally(), dict[str, Tally]()
        for node in nodes:
            standing = standings[node["metadata"]["name"]]
            whole.add(node, standing, named)
            if zone := labels(node).get(ZONE_LABEL):
                zones.setdefault(zone, Tally()).add(node, standing, named)
        return ClusterCount(
            groups=tuple(groups),
            counted_at=now,
            cluster=whole.area("the cluster", missing),
            zones=tuple(tally.area(zone) for zone, tally in sorted(zones.items())),
            absent=tuple(sorted(named - set(standings))),
            healthy=self._healthy(nodes, standings, argument, policy.budget.correlation.trait_labels),
            policy=policy.budget,
        )

    def _healthy(
        self, nodes: Sequence[Json], standings: dict[str, Standing], argument: CountCluster, by_label: dict[str, str]
    ) -> HealthyNodes:
        """The traits of nodes that work and are not asked about. Only values that a named node has too are told."""
        asked_about = frozenset(argument.nodes)
        named = [node for node in nodes if node["metadata"]["name"] in asked_about]
        well = [
            node
            for node in nodes
            if standings[node["metadata"]["name"]] is Standing.WORKING and node["metadata"]["name"] not in asked_about
        ]
        wanted = [node_traits(node, by_label) for node in named]
        counts: dict[str, Counter[str]] = {trait: Counter() for traits in wanted for trait in traits}
        values = {(trait, value) for traits in wanted for trait, value in traits.items()}
        for node in well:
            for trait, value in node_traits(node, by_label).items():
                if (trait, value) in values:
                    counts[trait][value] += 1
        traits = {trait: dict(count) for trait, count in counts.items()}
        names = {node["metadata"]["name"] for node in well}
        return HealthyNodes(total=len(well), traits={**traits, **self._work(argument.jobs, names)})

    def _work(self, jobs: Iterable[str], healthy: set[str]) -> dict[str, dict[str, int]]:
        """On how many healthy nodes the jobs run too, and the images of their namespaces."""
        namespaces = sorted({job.partition("/")[0] for job in jobs})
        if not namespaces:
            return {}
        by_job, by_image = where_they_run(pod for name in namespaces for pod in self._cluster.pods_in(name))
        return {
            "job": {job: len(by_job.get(job, set()) & healthy) for job in jobs},
            "image": {image: len(where & healthy) for image, where in by_image.items()},
        }

    async def _runs(self, request: PermitRequest) -> bool:
        handle = self._client.get_workflow_handle(request.incident_id, run_id=request.run_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            return error.status is not RPCStatusCode.NOT_FOUND
        return description.status is WorkflowExecutionStatus.RUNNING


def standing_of(node: Json, now: datetime, given_up_after: timedelta) -> Standing:
    """How a node counts: who works, who is closed, who is lost, and who is lost for good. Pure."""
    owner = read_owner(node)
    if owner is None and under_verification(node):
        age = now - datetime.fromisoformat(node["metadata"]["creationTimestamp"])
        return Standing.GIVEN_UP if age >= given_up_after else Standing.UNPROVEN
    long = timedelta(0) if owner is None else now - owner.since
    if not is_ready(node):
        down = now - _not_ready_since(node, now)
        return Standing.GIVEN_UP if max(down, long) >= given_up_after else Standing.LOST
    if owner is None:
        return Standing.QUARANTINED if node["spec"].get("unschedulable", False) else Standing.WORKING
    if owner.disrupting:
        return Standing.GIVEN_UP if long >= given_up_after else Standing.LOST
    # Parked for long: it works, and no longer counts among those that are closed for a while.
    return Standing.WORKING if long >= given_up_after else Standing.QUARANTINED


@dataclass(frozen=True)
class CountedGroup:
    """A group, and how many of its nodes the cluster lacks."""

    count: GroupCount
    missing: int


def count_group(
    name: str,
    members: Members,
    absent: Collection[str],
    standings: dict[str, Standing],
    policy: Policy,
    named: Collection[str],
    now: datetime,
) -> CountedGroup:
    """One group with its limits. Pure.

    Where nobody says how many there should be, that is those that there are, those whose machine is there without its
    Node, and ``absent``: those that incidents are about and whose Node is gone.
    """
    rules, tally = policy.for_node(name, members.nodegroup), Tally()
    for node in members.nodes:
        tally.add(node, standings[node["metadata"]["name"]], named)
    gone = len(members.unregistered | set(absent)) if members.open_ended else 0
    there = sum(standings[node["metadata"]["name"]] is not Standing.UNPROVEN for node in members.unsized)
    desired = members.wanted + there + gone
    given_up = tally.number(Standing.GIVEN_UP)
    present = len(members.nodes) - tally.number(Standing.UNPROVEN)
    count = GroupCount(
        group=name,
        desired=max(0, desired - given_up),
        working=tuple(tally.names[Standing.WORKING]),
        quarantined=tuple(tally.names[Standing.QUARANTINED]),
        others_working=tally.others[Standing.WORKING],
        others_quarantined=tally.others[Standing.QUARANTINED],
        given_up=given_up,
        opens_at=opens_at(rules.maintenance, now),
        limits=GroupLimits.of(rules),
    )
    return CountedGroup(count, max(0, desired - present))


def _absent_by_group(argument: CountCluster, there: Collection[str]) -> dict[str, set[str]]:
    """The asked-about nodes that are gone, by the group that they had."""
    found: dict[str, set[str]] = {}
    for node, place in zip(argument.nodes, argument.groups_of_nodes, strict=False):
        if node not in there:
            found.setdefault(argument.groups[place], set()).add(node)
    return found


def _not_ready_since(node: Json, now: datetime) -> datetime:
    for condition in node["status"].get("conditions", []):
        if condition["type"] == "Ready" and condition.get("lastTransitionTime"):
            return datetime.fromisoformat(condition["lastTransitionTime"])
    return now
