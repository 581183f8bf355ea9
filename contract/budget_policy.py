"""What the owners allow the whole fleet to lose, however many groups it has. Part of the policy file."""

from datetime import timedelta
from typing import Final

from pydantic import Field, model_validator

from contract.model import Document
from contract.names import INSTANCE_TYPE_LABEL, ZONE_LABEL

TRAIT_LABELS: Final = {
    "AMI": "eks.amazonaws.com/nodegroup-image",
    "driver": "nvidia.com/cuda.driver-version.full",
    "instance type": INSTANCE_TYPE_LABEL,
    "switch": "topology.k8s.aws/network-node-layer-3",
    "zone": ZONE_LABEL,
}
"""EKS managed node groups, NVIDIA GPU feature discovery, EKS network topology, and Kubernetes set these."""


class AreaLimits(Document):
    """What the cluster, or each of its zones, may lose at once. At least one node each."""

    max_disrupted_share: float = Field(default=0.1, gt=0, le=1)
    max_quarantined_share: float = Field(default=0.3, gt=0, le=1)


class Rate(Document):
    """A token bucket: ``burst`` at once, then ``per_hour``. What opens after a storm does not open all at once."""

    per_hour: float = Field(gt=0)
    burst: int = Field(ge=1)


class CorrelationGuard(Document):
    """When many faults are one: a roll-out, a switch, a job. Then replacing machines makes it worse."""

    nodes: int = Field(default=3, ge=2)
    """Nodes with one fault, or sharing a trait that healthy nodes do not, that make it a common cause."""
    share: float = Field(default=0.02, gt=0, le=1)
    """In a large cluster nodes fail by chance: as many as this share with one fault are no common cause yet."""
    window: timedelta = Field(default=timedelta(minutes=15), gt=timedelta(0))
    job_window: timedelta = Field(default=timedelta(hours=6), gt=timedelta(0))
    """For a job or image that leaves faults on node after node: each of its restarts takes a while."""
    cooldown: timedelta = Field(default=timedelta(minutes=30), gt=timedelta(0))
    """Without another such fault for this long, it is over."""
    trait_labels: dict[str, str] = Field(default_factory=lambda: dict(TRAIT_LABELS))
    """What else nodes may have in common: a name for people, and the node label that says it."""

    @model_validator(mode="after")
    def _cools_no_faster_than_it_looks(self) -> "CorrelationGuard":
        if self.cooldown < self.window:
            raise ValueError("cooldown must be at least as long as window, or the guard would flap")
        return self


class FailedRepairs(Document):
    """A repair that did not help is not repeated at once: the image or the driver may be what is broken."""

    first: timedelta = Field(default=timedelta(hours=1), gt=timedelta(0))
    """Wait after the first one, doubling with each."""
    longest: timedelta = Field(default=timedelta(hours=24), gt=timedelta(0))
    forget: timedelta = Field(default=timedelta(days=3), gt=timedelta(0))
    """A failure this old counts no more. A replacement that fails the same way within it is a failed repair."""


class BudgetPolicy(Document):
    """The limits of the whole fleet. Every one of them must admit, and those of the group as well."""

    cluster: AreaLimits = AreaLimits()
    zone: AreaLimits = AreaLimits(max_disrupted_share=0.2, max_quarantined_share=0.4)
    max_disrupted: int = Field(default=20, ge=1)
    """Nodes that permits may have out of work at once, in a fleet of any size."""
    disruptions: Rate = Rate(per_hour=30, burst=10)
    quarantines: Rate = Rate(per_hour=120, burst=50)
    correlation: CorrelationGuard = CorrelationGuard()
    failed_repairs: FailedRepairs = FailedRepairs()
    peace_after_restart: timedelta = Field(default=timedelta(minutes=15), ge=timedelta(0))
    """A job on several nodes that has just started again is left in peace for this long: it would lose its start-up
    twice, and has saved nothing yet. Its first start is not meant, nor a job that is dead."""
    useless_costs_nothing: bool = False
    """Whether a node on which all work is dead may be closed whatever its group, zone and cluster may lose: it does
    nothing for them any more. A pause and the guard against a common cause hold it all the same."""
    given_up_after: timedelta = Field(default=timedelta(days=1), gt=timedelta(0))
    """A node that has been out for this long is no longer waited for: it is taken out of the reckoning, so that
    parked incidents do not hold the budget shut for ever."""
