"""What the owners of the fleet allow. Read by the worker; the detector never sees it.

Defaults are safe: nothing is touched until a group says ``mode: act``.
"""

import hashlib
from datetime import timedelta
from enum import StrEnum

from pydantic import Field, field_validator

from contract.budget_policy import BudgetPolicy
from contract.maintenance import MaintenanceWindow
from contract.model import Document
from contract.names import Step


class Mode(StrEnum):
    """How far Nodemend goes on a group."""

    OBSERVE = "observe"
    """Record findings, decide nothing."""
    SHADOW = "shadow"
    """Take every decision, touch nothing, record what it would have done."""
    ACT = "act"


class Deadlines(Document):
    """How long each step may take before a human is asked. None of them may be zero: zero is not infinity (D40)."""

    settle: timedelta = Field(default=timedelta(seconds=30), ge=timedelta(0))
    """Quiet time in which findings of the same fault gather."""
    preserve: timedelta = Field(default=timedelta(minutes=2), gt=timedelta(0))
    checkpoint: timedelta = Field(default=timedelta(minutes=10), gt=timedelta(0))
    """For one job's answer to one checkpoint request."""
    drain: timedelta = Field(default=timedelta(minutes=30), gt=timedelta(0))
    """On top of the longest grace period among the pods."""
    replacement: timedelta = Field(default=timedelta(minutes=45), gt=timedelta(0))
    """From marking the instance unhealthy to its replacement's Node."""
    soak: timedelta = Field(default=timedelta(minutes=3), ge=timedelta(0))
    """How long the new node must stay Ready with all devices (V3)."""
    verification: timedelta = Field(default=timedelta(minutes=20), gt=timedelta(0))
    escalation: timedelta = Field(default=timedelta(hours=1), gt=timedelta(0))
    """How often an incident that waits for a human says so again."""


class GroupPolicy(Document):
    """The rules of one node group."""

    mode: Mode = Mode.SHADOW
    drills: Mode = Mode.SHADOW
    """What to do with a record that user space wrote. ``act`` lets anyone who can write the log destroy machines."""
    approve_before: tuple[Step, ...] = ()
    """Steps that wait for ``approve``: ``disrupt``, ``replace``."""
    evict_unmanaged_pods: bool = False
    """Whether a pod without a controller may be evicted: nothing brings it back (D18)."""
    evict_local_storage_pods: bool = True
    """Whether a pod with an emptyDir may be evicted once its job's checkpoint step is over (D17)."""
    max_concurrent: int = Field(default=1, ge=1)
    """Nodes of this group whose work may be disrupted at once."""
    max_disrupted_share: float = Field(default=0.1, gt=0, le=1)
    """Share of the desired size that may be out of work at once, at least one node."""
    max_quarantined_share: float = Field(default=0.3, gt=0, le=1)
    """Share of the desired size that may be closed to the scheduler at once, at least one node."""
    min_working: int = Field(default=0, ge=0)
    """Nodes that must go on working when one more is disrupted: what the gang needs, where the group has spares."""
    maintenance: tuple[MaintenanceWindow, ...] = ()
    """When work may be disturbed; always, where none is given. Quarantine does not wait for it."""
    deadlines: Deadlines = Deadlines()

    def mode_for(self, *, drill: bool) -> Mode:
        """How far to go: a drill goes no further than real findings may, nor than ``drills`` says."""
        order = tuple(Mode)
        return min((self.mode, self.drills), key=order.index) if drill else self.mode

    @field_validator("approve_before")
    @classmethod
    def _gates_are_before_something(cls, value: tuple[Step, ...]) -> tuple[Step, ...]:
        allowed = {Step.DISRUPT, Step.REPLACE}
        wrong = [step.value for step in value if step not in allowed]
        if wrong:
            raise ValueError(f"approval can be asked before {sorted(a.value for a in allowed)}, not before {wrong}")
        return value


class Policy(Document):
    """The whole policy of a cluster: a default, and groups that replace it by name."""

    default: GroupPolicy = GroupPolicy()
    groups: dict[str, GroupPolicy] = Field(default_factory=dict)
    """By Auto Scaling group name or EKS node group name; an entry replaces the default as a whole."""
    budget: BudgetPolicy = BudgetPolicy()
    """What the whole fleet may lose, whatever its groups allow."""

    def for_node(self, group: str | None, nodegroup: str | None) -> GroupPolicy:
        """The policy of a node: of its Auto Scaling group, else of its EKS node group, else the default."""
        return self.groups.get(group or "") or self.groups.get(nodegroup or "") or self.default

    @property
    def version(self) -> str:
        """Short digest of the effective policy: it goes into every record."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]
