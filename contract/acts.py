"""Arguments and results of the activities: small, frozen, and the same words on both sides.

Lists are bounded by their makers (a result holds names and counts, never objects), so that the history of an
incident does not grow with the pods on its node.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from contract.budget import Traits
from contract.corroboration import Circumstances
from contract.culprit import CulpritSearch
from contract.fault import DataTrust, FaultReport, RemediationRequest
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
from contract.permit import PermitAnswer, PermitRequest
from contract.policy import CheckpointPolicy, Deadlines, DrainEscalation, GroupPolicy, Otherwise
from contract.trail import ActResult

__all__ = [
    "AwaitReplacement",
    "GroupSurvey",
    "MarkUnhealthy",
    "MarkedUnhealthy",
    "MendMachine",
    "Mended",
    "RaiseSpare",
    "Replacement",
    "SpareRaised",
    "SurveyGroup",
    "Verified",
    "VerifyReplacement",
]
"""Of the module beside this one: whoever means an act names it by this one."""

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


# --- checkpoint ----------------------------------------------------------------------------------------------------


class RequestCheckpoints(Message):
    """Argument of ``request_checkpoints``."""

    target: Target
    nonce: str
    data: DataTrust
    device_resource: str | None = None
    evidence_since: datetime | None = None
    deadline: timedelta
    """For all answers together."""
    ranks_alive: bool = True
    """Whether the fault leaves processes on its node that can answer."""
    rules: CheckpointPolicy = CheckpointPolicy()
    leave_out: tuple[str, ...] = ()
    """Jobs that were asked as a whole already."""
    permit: PermitRequest | None = None
    """What allows it. None from incidents that were started before 0.2."""


class CheckpointStatus(StrEnum):
    """What came of one job's checkpoint."""

    SAVED = "saved"
    """Asked, answered with our nonce, verified."""
    NAMED = "named"
    """Not asked, because the failing device may have spoiled its data: the last one from before is named."""
    UNDECLARED = "undeclared"
    """The job declares no checkpoint."""
    FAILED = "failed"
    """Asked, and no valid answer came before the deadline."""
    OBSERVED = "observed"
    """Never asked, as it declares: its newest manifest was read."""
    AT_END = "at-end"
    """Saves when it is ended, as it declares."""
    DEAD = "dead"
    """Dead or hung already: there was nothing to ask for."""


class JobCheckpoint(Message):
    """One job on the node and its checkpoint."""

    job: str
    """``namespace/kind/name`` of the pods' controller."""
    pod: str = ""
    status: CheckpointStatus
    step: int | None = None
    uri: str = ""
    saved_at: datetime | None = None
    suspect: int = 0
    """How many later checkpoints are suspect."""
    explanation: str = ""
    mode: str = ""
    """As the job declares it."""
    proof: str = ""
    """What stands behind it: ``file``, ``s3``, or the pod's own ``word``."""
    asks: int = 0
    """How often it was asked; every time with the same nonce."""
    previous_step: int | None = None
    previous_at: datetime | None = None
    """The newest checkpoint from before the request: what the job would have gone back to."""
    stands_at: int | None = None
    """The step that it said it was at."""
    accelerators: int = 0
    """Devices that the job holds, as far as its pods were seen."""
    otherwise: Otherwise = Otherwise.EVICT
    """What its owner or the policy wants where nothing was saved."""


class Checkpoints(ActResult):
    """Result of ``request_checkpoints``."""

    jobs: tuple[JobCheckpoint, ...] = ()
    jobs_total: int = 0


# --- drain ---------------------------------------------------------------------------------------------------------


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
