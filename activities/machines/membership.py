"""Which nodes are a group's, and how many there should be: for all nodes at once, as each is identified by itself.

A group is known by its name alone (``NodeIdentity.group``): an Auto Scaling group and a NodePool of one name are one.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from activities.auto_scaling import AutoScaling, tags_of
from activities.claim import labels
from activities.cluster import Cluster, Json
from activities.eks import NODEGROUP_TAG
from activities.machines.cluster_api import ClusterApiReplacer, claim_of
from activities.machines.karpenter import KarpenterReplacer
from activities.objects import Objects
from contract.names import NODEGROUP_LABEL


@dataclass
class Members:
    """A group's nodes. Part of them may be kept by something that says how many it wants."""

    nodes: list[Json] = field(default_factory=list)
    """All that there are."""
    wanted: int = 0
    """How many the keepers want that say so: Auto Scaling, a static NodePool, the owner of Machines."""
    unsized: list[Json] = field(default_factory=list)
    """Those of ``nodes`` whose keeper does not say how many it wants: what there is, is what should be."""
    open_ended: bool = False
    """Whether there is such a keeper, or nobody keeps them."""
    unregistered: frozenset[str] = frozenset()
    """Names of Nodes that are gone while an unsized keeper still has their machines."""
    nodegroup: str | None = None
    """Its name as an EKS managed node group."""

    def add_sized(self, nodes: Sequence[Json], wanted: int) -> None:
        """Nodes of a keeper that wants so many."""
        self.nodes += nodes
        self.wanted += wanted

    def add_unsized(self, nodes: Sequence[Json], unregistered: Collection[str] = ()) -> None:
        """Nodes of a keeper that does not say, or of none."""
        self.nodes += nodes
        self.unsized += nodes
        self.open_ended = True
        self.unregistered |= frozenset(unregistered)


class Membership:
    """Reads them from the cluster and Auto Scaling. Keeps nothing."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling) -> None:
        objects = Objects(cluster)
        self._auto_scaling = auto_scaling
        self._karpenter = KarpenterReplacer(objects)
        self._cluster_api = ClusterApiReplacer(objects)

    def of(self, names: Sequence[str], nodes: Sequence[Json]) -> dict[str, Members]:
        """The groups of these names (empty: the nodes that nobody keeps) among all nodes of the cluster.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``.
        """
        found = {name: Members() for name in names}
        in_pools, of_owners, left = self._by_keeper(nodes)
        self._add_auto_scaling(found, left)
        for name, members in found.items():
            if machines := of_owners.get(name):
                self._add_machines(members, name, machines)
            if name and (name in in_pools or (not members.nodes and not members.wanted)):
                self._add_pool(members, name, in_pools.get(name, []))
            labelled = (labels(node).get(NODEGROUP_LABEL) for node in members.nodes)
            members.nodegroup = next(filter(None, labelled), members.nodegroup)
        return found

    def _by_keeper(self, nodes: Sequence[Json]) -> tuple[dict[str, list[Json]], dict[str, list[Json]], list[Json]]:
        """Nodes by NodePool, by the owner of their Machines, and those that are left to Auto Scaling."""
        pools = self._karpenter.pools_of(nodes)
        in_pools, of_owners = defaultdict[str, list[Json]](list), defaultdict[str, list[Json]](list)
        left: list[Json] = []
        for node in nodes:
            machine, owner = claim_of(node)
            if pool := pools.get(node["metadata"]["name"]):
                in_pools[pool].append(node)
            elif machine:
                of_owners[owner].append(node)
            else:
                left.append(node)
        return in_pools, of_owners, left

    def _add_auto_scaling(self, found: dict[str, Members], nodes: Sequence[Json]) -> None:
        by_instance = {instance: node for node in nodes if (instance := _instance(node))}
        for group in self._auto_scaling.groups([name for name in found if name]):
            ids = [instance["InstanceId"] for instance in group.get("Instances", [])]
            members = found[group["AutoScalingGroupName"]]
            members.add_sized([by_instance[i] for i in ids if i in by_instance], group["DesiredCapacity"])
            members.nodegroup = tags_of(group).get(NODEGROUP_TAG)
        if "" in found:
            grouped = self._auto_scaling.grouped() if any(map(_on_aws, nodes)) else set()
            found[""].add_unsized([node for node in nodes if _instance(node) not in grouped])

    def _add_machines(self, members: Members, owner: str, nodes: Sequence[Json]) -> None:
        wanted = self._cluster_api.machines_wanted(owner, nodes) if owner else 0
        if wanted:
            members.add_sized(nodes, wanted)
        else:
            members.add_unsized(nodes)

    def _add_pool(self, members: Members, pool: str, nodes: Sequence[Json]) -> None:
        replicas = self._karpenter.replicas(pool)
        if replicas is None:
            members.add_unsized(nodes, self._karpenter.registered(pool) - {n["metadata"]["name"] for n in nodes})
        else:
            members.add_sized(nodes, replicas)


def _instance(node: Json) -> str:
    return str(node["spec"].get("providerID", "")).rpartition("/")[2]


def _on_aws(node: Json) -> bool:
    return str(node["spec"].get("providerID", "")).startswith("aws:///")
