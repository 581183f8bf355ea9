"""The machine behind a Node, as the cluster and AWS know it at this moment. Reads only, for whoever wants to know."""

import re
from datetime import UTC, datetime
from typing import Final

from activities.auto_scaling import AutoScaling
from activities.claim import labels
from activities.cluster import Cluster, Json
from activities.machines.all import Machines
from activities.machines.karpenter import NODEPOOL_LABEL
from activities.node_facts import boot_id, host_of, read_tried
from activities.placement import placement_of
from contract.identity import MachineKind, NodeIdentity
from contract.names import INSTANCE_TYPE_LABEL, LIFECYCLE_REASON, NODEGROUP_LABEL, ZONE_LABEL

_EC2_PROVIDER_ID: Final = re.compile(r"^aws:///(?P<zone>[a-z0-9-]+)/(?P<instance>i-[0-9a-f]{8,17})$")
"""As the AWS cloud provider writes it into ``spec.providerID``."""

_FOREIGN_TAINTS: Final = {
    "ToBeDeletedByClusterAutoscaler": "cluster-autoscaler is removing it",
    "karpenter.sh/disrupted": "Karpenter is disrupting it",
    "karpenter.sh/disruption": "Karpenter is disrupting it",
    "aws-node-termination-handler/asg-lifecycle-termination": "aws-node-termination-handler is draining it",
    "aws-node-termination-handler/spot-itn": "EC2 is taking its Spot instance back",
    "aws-node-termination-handler/scheduled-maintenance": "aws-node-termination-handler is draining it",
    "aws-node-termination-handler/rebalance-recommendation": "aws-node-termination-handler is draining it",
}
_FOREIGN_LABELS: Final = {
    NODEPOOL_LABEL: "it belongs to a Karpenter NodePool, whose NodeClaim must be replaced instead",
    "eks.amazonaws.com/compute-type": "EKS Auto Mode manages it",
    # Set before it cordons and drains for a scheduled event, with taints switched off too (NTH, pkg/node).
    "aws-node-termination-handler/event-id": "aws-node-termination-handler is draining it",
}
_FOREIGN_CONDITIONS: Final = {
    "DrainInProgress": "somebody is draining it",
    "MaintenanceInProgress": "it is under maintenance",
    "GracefulNodeShutdownInProgress": "it is shutting down",
}
"""Kubernetes' node lifecycle conditions (KEP-5683, of 1.37), by which administrators and their controllers say so."""


class IdentityReader:
    """Reads identities."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling) -> None:
        self._machines = Machines(cluster, auto_scaling)
        self._auto_scaling = auto_scaling

    def of(self, cluster: str, node: Json) -> NodeIdentity:
        """The machine behind a Node as the cluster and AWS know it now. Reads only."""
        provider_id = node["spec"].get("providerID", "")
        match = _EC2_PROVIDER_ID.match(provider_id)
        instance_id = match["instance"] if match else None
        instance = self._auto_scaling.ec2.instance(instance_id) if instance_id else None
        kept = self._machines.keeper(node, instance_id)
        known = labels(node)
        return NodeIdentity(
            cluster=cluster,
            node=node["metadata"]["name"],
            node_uid=node["metadata"]["uid"],
            boot_id=boot_id(node),
            provider_id=provider_id,
            instance_id=instance_id,
            group=kept.group,
            kind=kept.kind,
            claim=kept.claim,
            nodegroup=known.get(NODEGROUP_LABEL),
            zone=known.get(ZONE_LABEL) or (match["zone"] if match else ""),
            instance_type=known.get(INSTANCE_TYPE_LABEL, ""),
            devices=devices(node),
            ready=is_ready(node),
            foreign_owners=foreign_owners(node, kept.kind),
            launched_at=instance.get("LaunchTime") if instance else None,
            image=instance.get("ImageId", "") if instance else "",
            placement=placement_of(instance) if instance else {},
            host=host_of(instance),
            network_node=self._auto_scaling.ec2.network_node(instance_id) if instance_id and instance else "",
            tried=tuple(read_tried(node, datetime.now(UTC))),
        )


def instance_of(node: Json) -> str | None:
    """The EC2 instance that a Node says it is."""
    match = _EC2_PROVIDER_ID.match(node["spec"].get("providerID", ""))
    return match["instance"] if match else None


def devices(node: Json) -> dict[str, int]:
    """Extended resources of a node that are devices, with their capacity. Their names carry a vendor's domain."""
    capacity: dict[str, str] = node["status"].get("capacity", {})
    return {
        name: int(amount)
        for name, amount in capacity.items()
        if "/" in name and not name.split("/")[0].endswith("kubernetes.io") and amount.isdigit()
    }


def is_ready(node: Json) -> bool:
    """Whether the node's ``Ready`` condition is true."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )


def foreign_owners(node: Json, kind: MachineKind = MachineKind.AUTO_SCALING) -> tuple[str, ...]:
    """Other controllers that say they act on this node. What replaces it on our behalf is none of them."""
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    known = labels(node)
    found = [words for key, words in _FOREIGN_TAINTS.items() if key in taints]
    found += [
        words
        for key, words in _FOREIGN_LABELS.items()
        if key in known and not (kind is MachineKind.KARPENTER and key == NODEPOOL_LABEL)
    ]
    found += [
        f"{words} (condition {told['type']}, reason {told.get('reason') or 'not given'})"
        for told in node["status"].get("conditions", [])
        if told["status"] == "True"
        and told.get("reason") != LIFECYCLE_REASON
        and (words := _FOREIGN_CONDITIONS.get(told["type"]))
    ]
    return tuple(dict.fromkeys(found))
