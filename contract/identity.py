"""Who is meant, and who holds it: the machine frozen at the start, and the claim that stands on its Node."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from contract.model import Message


class MachineKind(StrEnum):
    """Who brings another machine for one that is given up: chosen by what the Node says, one module each."""

    AUTO_SCALING = "auto-scaling"
    """An Auto Scaling group, self-managed or of an EKS managed node group."""
    KARPENTER = "karpenter"
    """A NodeClaim: it is deleted, never the instance under it."""
    CLUSTER_API = "cluster-api"
    """A Machine: it is marked for remediation, and its owner replaces it."""
    MANUAL = "manual"
    """Nobody but people."""


class Fuse(Message):
    """Another repairer that will act on a machine by itself (A23)."""

    at: datetime
    """When it will; in the past where that may be at any moment."""
    says: str
    """A clause for people: who, when and why."""


class NodeIdentity(Message):
    """One machine, frozen by ``identify``: every later act compares with it and none looks a name up again (A1)."""

    cluster: str
    node: str
    node_uid: str
    boot_id: str
    provider_id: str = ""
    instance_id: str | None = None
    """EC2 instance id from ``spec.providerID``; None when that names no EC2 instance."""
    group: str | None = None
    """What replaces the machine: its Auto Scaling group, NodePool or Machine set; None when nothing does."""
    kind: MachineKind = MachineKind.AUTO_SCALING
    claim: str = ""
    """``[namespace/]name`` of the NodeClaim or Machine that stands for the machine, where there is one."""
    nodegroup: str | None = None
    """EKS managed node group, from the Node's label."""
    zone: str = ""
    instance_type: str = ""
    devices: dict[str, int] = Field(default_factory=dict)
    """Extended resources and how many of each a whole node of this kind has."""
    ready: bool = True
    foreign_owners: tuple[str, ...] = ()
    """Other controllers that say they act on this node, in words (A23)."""
    launched_at: datetime | None = None
    """EC2's launch time, which is that of its last start."""
    fuse: Fuse | None = None
    """Who else will repair it, and when, where one is known to."""
    image: str = ""
    """Machine image that it runs."""
    placement: dict[str, str] = Field(default_factory=dict)
    """What a gang needs its machines to share: placement group, capacity reservation or block (V2)."""
    host: str = ""
    """The dedicated host that it runs on, where EC2 names one."""
    network_node: str = ""
    """What it hangs on in the network, the nearest that EC2 names of a machine that is not on a dedicated host."""
    tried: tuple[str, ...] = ()
    """Rungs that were tried on this machine before, and failed: none is repeated."""

    @property
    def place(self) -> str:
        """Group and zone for a sentence."""
        return f"{self.group or 'no Auto Scaling group'}, {self.zone or 'unknown zone'}"


class Fence(Message):
    """Which incident, and which run of it, wants to write. Each run that takes over raises the epoch on the Node."""

    incident_id: str
    run_id: str


class NodeBefore(Message):
    """What was there before us and must be there after us (D32)."""

    unschedulable: bool = False
    annotations: dict[str, str] = Field(default_factory=dict)
    """Values of the annotations that we overwrite, where there were any."""
    labels: dict[str, str | None] = Field(default_factory=dict)
    """The same of the labels that were overwritten so far; None where there was none."""


class Ownership(Message):
    """Value of the annotation ``nodemend.io/owner``: truth about who holds a node is on the node."""

    incident: str
    run: str
    epoch: int = Field(ge=1)
    rule: str
    since: datetime
    before: NodeBefore = NodeBefore()
    disrupting: bool = False
    """Whether its work is being stopped: from the first request to its pods until it is given back or gone."""


class Target(Message):
    """What every act on a node is told: which machine, and in whose name."""

    identity: NodeIdentity
    fence: Fence
