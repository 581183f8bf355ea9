"""What the owners of the fleet allow. Read by the worker; the detector never sees it.

Defaults are safe: nothing is touched until a group says ``mode: act``.
"""

import hashlib
from datetime import timedelta
from enum import StrEnum

from pydantic import Field, field_validator

from contract.budget_policy import BudgetPolicy
from contract.corroboration import CorroborationPolicy
from contract.gates import Gate, must_be_gated
from contract.maintenance import MaintenanceWindow
from contract.model import Document
from contract.names import Step
from contract.replacement import ReplacementPolicy


class Mode(StrEnum):
    """How far Nodemend goes on a group."""

    OBSERVE = "observe"
    """Record findings, decide nothing."""
    SHADOW = "shadow"
    """Take every decision, touch nothing, record what it would have done."""
    ACT = "act"


class DrainEscalation(StrEnum):
    """What a drain does when pods do not leave in time. Whatever it is, the record names the pods and says it."""

    WAIT = "wait"
    """Wait until the drain's deadline, for pods that hang too; then ask a human."""
    NEEDS_HUMAN = "needs-human"
    """Ask a human: at the drain's deadline, or as soon as all that is left hangs past its own grace period."""
    DELETE = "delete"
    """At the drain's deadline delete what refuses eviction, with its own grace period; budgets are overrun."""
    TERMINATE_INSTANCE = "terminate-instance"
    """Leave what is left, at the same moments, to the end of the instance."""


class Deadlines(Document):
    """How long each step may take before a human is asked. None of them may be zero: zero is not infinity (D40)."""

    proof: timedelta = Field(default=timedelta(minutes=10), gt=timedelta(0), le=timedelta(minutes=25))
    """For the detector to put the proof of a report on its own Node."""
    settle: timedelta = Field(default=timedelta(seconds=30), ge=timedelta(0))
    """Quiet time in which findings of the same fault gather."""
    preserve: timedelta = Field(default=timedelta(minutes=2), gt=timedelta(0))
    checkpoint: timedelta = Field(default=timedelta(minutes=10), gt=timedelta(0))
    """For one job's answer to one checkpoint request."""
    drain: timedelta = Field(default=timedelta(minutes=30), gt=timedelta(0))
    """On top of the longest grace period among the pods."""
    load_balancers: timedelta = Field(default=timedelta(seconds=30), ge=timedelta(0), le=timedelta(hours=1))
    """For the load balancers that send to the node to stop, from its label on. Zero does not wait."""
    group: timedelta = Field(default=timedelta(hours=1), gt=timedelta(0))
    """For what stands in the way at the group and passes by itself, e.g. an instance refresh (A19)."""
    reboot: timedelta = Field(default=timedelta(minutes=20), gt=timedelta(0))
    """From a reboot, or a device reset, to the machine whole again."""
    detach: timedelta = Field(default=timedelta(minutes=10), gt=timedelta(0))
    """For the volumes of an empty node to be detached. Kubernetes itself gives up waiting for a kubelet after 6 min."""
    replacement: timedelta = Field(default=timedelta(minutes=45), gt=timedelta(0))
    """From marking the instance unhealthy to its replacement's Node."""
    soak: timedelta = Field(default=timedelta(minutes=3), ge=timedelta(0))
    """How long the new node must stay Ready with all devices (V3)."""
    verification: timedelta = Field(default=timedelta(minutes=20), gt=timedelta(0))
    escalation: timedelta = Field(default=timedelta(hours=1), gt=timedelta(0))
    """How often an incident that waits for a human says so again."""


class Otherwise(StrEnum):
    """What to do where a job's work would be lost."""

    EVICT = "evict"
    """Go on: the hardware fails, and the report says what was lost."""
    ASK = "ask"
    """A human decides."""


class CheckpointPolicy(Document):
    """How long the work on a failing node is worth waiting for."""

    urgent: timedelta = Field(default=timedelta(minutes=3), gt=timedelta(0))
    """Instead of ``deadlines.checkpoint`` where the fault has ended the ranks on the node: only survivors answer."""
    overdue_after: timedelta = Field(default=timedelta(hours=4), gt=timedelta(0))
    """A job whose newest checkpoint is older than this has much to lose:"""
    longest: timedelta = Field(default=timedelta(minutes=30), gt=timedelta(0))
    """it is waited for this long."""
    hung_after: timedelta = Field(default=timedelta(minutes=30), gt=timedelta(0))
    """A job that says itself that it took its last step longer ago is hung: nothing is asked of it."""
    malformed: Otherwise = Otherwise.EVICT
    """What to do with a job whose declaration cannot be understood."""
    last_attempt: Otherwise = Otherwise.ASK
    """What to do where the disruption would end the job for good."""
    gather: timedelta = Field(default=timedelta(seconds=10), ge=timedelta(0))
    """How long a job's failing nodes are gathered before the job is disturbed once for all of them."""
    resume: timedelta = Field(default=timedelta(minutes=30), gt=timedelta(0))
    """How long a job is followed afterwards, until it runs again and has passed its checkpoint (V13)."""


class OnCulprit(StrEnum):
    """What to do with the node of a hanging job that the search for the culprit found, where it is one alone."""

    NAME = "name"
    """Name it, with the evidence, to a human; nothing is done to it."""
    INCIDENT = "incident"
    """Open an incident of its own, in the mode of its own group: it is closed to new work, and its doubt weighed."""


class GroupPolicy(Document):
    """The rules of one node group."""

    mode: Mode = Mode.SHADOW
    drills: Mode = Mode.SHADOW
    """What to do with a record that user space wrote. ``act`` lets anyone who can write the log destroy machines."""
    follow_shadow: timedelta = Field(default=timedelta(0), ge=timedelta(0), le=timedelta(days=7))
    """How long an incident that decided in mode shadow looks on what becomes of its node, for `nodemend scorecard`."""
    approve_before: tuple[Step, ...] = ()
    """Steps that wait for ``approve``: ``disrupt``, ``replace``; the same as a gate without conditions."""
    gates: tuple[Gate, ...] = ()
    """Approvals that are asked for under conditions, or of two people."""
    evict_unmanaged_pods: bool = False
    """Whether a pod without a controller may be evicted: nothing brings it back (D18)."""
    evict_local_storage_pods: bool = True
    """Whether a pod with an emptyDir may be evicted once its job's checkpoint step is over (D17)."""
    drain_escalation: DrainEscalation = DrainEscalation.NEEDS_HUMAN
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
    checkpoints: CheckpointPolicy = CheckpointPolicy()
    culprits: OnCulprit = OnCulprit.NAME
    """What a node of this group that complains of a hang may set off, when another node of its job is to blame."""
    replacement: ReplacementPolicy = ReplacementPolicy()
    corroboration: CorroborationPolicy = CorroborationPolicy()

    def mode_for(self, *, drill: bool) -> Mode:
        """How far to go: a drill goes no further than real findings may, nor than ``drills`` says."""
        order = tuple(Mode)
        return min((self.mode, self.drills), key=order.index) if drill else self.mode

    @property
    def all_gates(self) -> tuple[Gate, ...]:
        """Those of ``approve_before``, which ask always, and ``gates``."""
        return (*(Gate(before=step) for step in self.approve_before), *self.gates)

    @field_validator("approve_before")
    @classmethod
    def _gates_are_before_something(cls, value: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(must_be_gated(step) for step in value)


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
