"""Arguments and results of the activities: small, frozen, and the same words on both sides.

Lists are bounded by their makers (a result holds names and counts, never objects), so that the history of an
incident does not grow with the pods on its node.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from contract.budget import Traits
from contract.checkpoints import Checkpoints, CheckpointStatus, JobCheckpoint, RequestCheckpoints
from contract.corroboration import Circumstances
from contract.culprit import CulpritSearch
from contract.fault import FaultReport, RemediationRequest
from contract.identity import NodeIdentity, Target
from contract.incident import IncidentReport
from contract.machine_acts import (
    AwaitReplacement,
    GroupSurvey,
    MarkedUnhealthy,
    MarkUnhealthy,
    Mended,
    MendMachine,
    RaiseSpare,
    Replacement,
    SpareRaised,
    SurveyGroup,
    Verified,
    VerifyReplacement,
)
from contract.model import Message
from contract.permit import PermitAnswer
from contract.policy import Deadlines, DrainEscalation, GroupPolicy
from contract.trail import ActResult

__all__ = [
    "AwaitReplacement",
    "CheckpointStatus",
    "Checkpoints",
    "GroupSurvey",
    "JobCheckpoint",
    "MarkUnhealthy",
    "MarkedUnhealthy",
    "MendMachine",
    "Mended",
    "RaiseSpare",
    "Replacement",
    "RequestCheckpoints",
    "SpareRaised",
    "SurveyGroup",
    "Verified",
    "VerifyReplacement",
]
"""Of modules beside this one: whoever means an act names it by this one."""

LIST_MAX = 20
"""Longest list of names in a result; counts beside it say how many there were."""


# --- identify -----------------------------------------------------------------------------------------------------


class Identified(StrEnum):
    """What ``identify_node`` made of a report."""

    FOUND = "found"
    NODE_ABSENT = "node-absent"
    """No Node of that name."""
    STALE = "stale"
    """The report is about another instance, an ended boot, or was handled before."""
    UNPROVEN = "unproven"
    """The node's own detector does not say so: whoever reported it may not speak for that node."""
    HANDED_OVER = "handed-over"
    """The incident of this machine has another id, and got the findings."""


class IdentifyNode(Message):
    """Argument of ``identify_node``, which also asks for the quarantine permit where the policy acts (shape R)."""

    request: RemediationRequest
    reports: tuple[FaultReport, ...]
    incident_id: str
    run_id: str
    wants_permit: bool = True
    """Whether the findings may lead to a quarantine at all."""
    closes: bool = False
    """Close the node in the same act where nothing stands against it: each act saved counts when a fleet fails."""


class NodeFacts(ActResult):
    """Result of ``identify_node``."""

    identified: Identified
    explanation: str
    """A sentence for people, e.g. why the report is stale."""
    identity: NodeIdentity | None = None
    policy: GroupPolicy = GroupPolicy()
    policy_version: str = ""
    traits: Traits = Field(default_factory=dict)
    """What it may share with other nodes that fail."""
    permit: PermitAnswer | None = None
    quarantined: "Quarantined | None" = None
    """The node is closed already; None where that is left to ``quarantine_node``."""
    proven: tuple[str, ...] | None = None
    """Keys of the reports whose origin is proven; None from a worker that did not ask for proof."""
    circumstances: Circumstances | None = None
    """What may corroborate a doubtful finding; None from a worker that knew of no corroboration."""
    search: CulpritSearch | None = None
    """Where its job hangs because of another node: who that may be; None where nobody was looked for."""


class ProveReports(Message):
    """Argument of ``prove_reports``: findings that joined after the machine was identified."""

    identity: NodeIdentity
    reports: tuple[FaultReport, ...]
    patience: timedelta


class Proven(Message):
    """Result of ``prove_reports``."""

    keys: tuple[str, ...]
    """Of the reports whose origin is proven."""


# --- quarantine and give back --------------------------------------------------------------------------------------


class QuarantineNode(Message):
    """Argument of ``quarantine_node``."""

    target: Target
    rule: str
    reason: str
    drill: bool = False


class Quarantined(ActResult):
    """Result of ``quarantine_node``."""

    epoch: int
    was_unschedulable: bool
    """A human or another controller had closed it before us."""
    at: datetime


class GiveBackNode(Message):
    """Argument of ``give_back_node``: remove our marks, restore what was before, say what is known against it."""

    target: Target
    by: str
    reason: str
    handled_seq: int = Field(ge=0)
    """Findings of this boot up to this sequence number are dealt with: they start nothing again."""


class GivenBack(ActResult):
    """Result of ``give_back_node``."""

    changed: bool
    """False when there was nothing of ours on it any more."""
    unschedulable: bool


# --- preserve ------------------------------------------------------------------------------------------------------


class PreserveEvidence(Message):
    """Argument of ``preserve_evidence``."""

    target: Target
    reports: tuple[FaultReport, ...]


class Evidence(ActResult):
    """Result of ``preserve_evidence``: where each piece went, and what could not be had."""

    kept: tuple[str, ...]
    missed: tuple[str, ...] = ()


# --- drain ---------------------------------------------------------------------------------------------------------


class Cause(Message):
    """A finding, as far as the Node shows when it holds no more (D31)."""

    boot_id: str = ""
    """The boot that it is of; empty where only another machine ends it."""
    condition: str = ""
    bad_status: str = ""
    """Of that condition, where the finding is a condition that another detector wrote; else empty."""


class DrainNode(Message):
    """Argument of ``drain_node``."""

    target: Target
    evict_unmanaged_pods: bool
    evict_local_storage_pods: bool
    deadline: timedelta
    """On top of the longest grace period among the pods."""
    escalation: DrainEscalation = DrainEscalation.NEEDS_HUMAN
    detach_deadline: timedelta = Deadlines().detach
    """For the volumes, from the moment when the pods are gone."""
    load_balancers: timedelta = timedelta(0)
    """For the load balancers that send to the node to stop."""
    causes: tuple[Cause, ...] = ()
    """Why it is drained: nothing is evicted where none of it holds any more. Empty: that is not asked."""
    drill: bool = False


class Drained(ActResult):
    """Result of ``drain_node``."""

    evicted: int
    """Pods that left through the Eviction API."""
    pods: tuple[str, ...] = ()
    """Names of some of them."""
    left: tuple[str, ...] = ()
    """Pods that stay by right: of DaemonSets, static, finished."""
    left_total: int = 0
    blocked_by: tuple[str, ...] = ()
    """PodDisruptionBudgets that made it wait."""
    deleted: tuple[str, ...] = ()
    """Pods that refused eviction to the end and were deleted, as the policy says, each with why."""
    deleted_total: int = 0
    abandoned: tuple[str, ...] = ()
    """Pods and volumes that are left to the end of the instance, as the policy says, each with why."""
    abandoned_total: int = 0


# --- close ---------------------------------------------------------------------------------------------------------


class CloseIncident(Message):
    """Argument of ``close_incident``: see the old machine gone."""

    target: Target
    deadline: timedelta


class Closed(ActResult):
    """Result of ``close_incident``."""

    instance_state: str
    node_gone: bool


class WriteRecord(Message):
    """Argument of ``write_record``."""

    report: IncidentReport


class Recorded(Message):
    """Result of ``write_record``."""

    uris: tuple[str, ...]
    missed: tuple[str, ...] = ()
    """Sinks that refused for good, and why."""
