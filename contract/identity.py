"""Who is meant, and who holds it: the machine frozen at the start, and the claim that stands on its Node."""

from datetime import datetime

from pydantic import Field

from contract.model import Message


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
    """Auto Scaling group that holds the instance; None when none does."""
    nodegroup: str | None = None
    """EKS managed node group, from the Node's label."""
    zone: str = ""
    instance_type: str = ""
    devices: dict[str, int] = Field(default_factory=dict)
    """Extended resources and how many of each a whole node of this kind has."""
    ready: bool = True
    foreign_owners: tuple[str, ...] = ()
    """Other controllers that say they act on this node, in words (A23)."""

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
