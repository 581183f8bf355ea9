"""Who replaces a machine: found out once, when it is identified, and by the kind that was frozen from then on."""

from dataclasses import dataclass

from activities.auto_scaling import AutoScaling
from activities.claim import labels
from activities.cluster import Cluster, Json
from activities.machines.cluster_api import ClusterApiReplacer, claim_of
from activities.machines.group import GroupReplacer
from activities.machines.karpenter import NODEPOOL_LABEL, KarpenterReplacer
from activities.machines.kind import Replacer
from activities.machines.manual import ManualReplacer
from activities.objects import Objects
from contract.identity import MachineKind, NodeIdentity


@dataclass(frozen=True)
class Keeper:
    """Who brings another machine, and what stands for this one there."""

    kind: MachineKind = MachineKind.AUTO_SCALING
    group: str | None = None
    claim: str = ""


class Machines:
    """The replacers of a cluster."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling) -> None:
        objects = Objects(cluster)
        self.groups = GroupReplacer(auto_scaling)
        self._auto_scaling = auto_scaling
        self._karpenter = KarpenterReplacer(objects)
        self._by_kind: dict[MachineKind, Replacer] = {
            MachineKind.AUTO_SCALING: self.groups,
            MachineKind.KARPENTER: self._karpenter,
            MachineKind.CLUSTER_API: ClusterApiReplacer(objects),
            MachineKind.MANUAL: ManualReplacer(cluster),
        }

    def of(self, identity: NodeIdentity) -> Replacer:
        """What replaces this machine."""
        return self._by_kind[identity.kind]

    def keeper(self, node: Json, instance_id: str | None) -> Keeper:
        """Who keeps a machine: by what its Node says, and never by a guess; without a group when nobody does."""
        if (pool := labels(node).get(NODEPOOL_LABEL)) and (claim := self._karpenter.claim_of(node)):
            return Keeper(MachineKind.KARPENTER, pool, claim)
        machine, owner = claim_of(node)
        if machine:
            return Keeper(MachineKind.CLUSTER_API, owner or None, machine)
        seen = self._auto_scaling.instance(instance_id) if instance_id else None
        return Keeper(group=seen["AutoScalingGroupName"] if seen else None)
