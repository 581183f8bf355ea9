"""Arguments and results of the activities: small, frozen, and the same words on both sides.

Lists are bounded by their makers (a result holds names and counts, never objects), so that the history of an
incident does not grow with the pods on its node.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from contract.budget import Traits
from contract.fault import DataTrust, FaultReport, RemediationRequest
from contract.identity import NodeIdentity, Target
from contract.incident import IncidentReport
from contract.model import Message
from contract.permit import PermitAnswer, PermitRequest
from contract.policy import GroupPolicy

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


class IdentifyNode(Message):
    """Argument of ``identify_node``, which also asks for the quarantine permit where the policy acts (shape R)."""

    request: RemediationRequest
    reports: tuple[FaultReport, ...]
    incident_id: str
    run_id: str
    wants_permit: bool = True
    """Whether the findings may lead to a quarantine at all."""


class NodeFacts(Message):
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


# --- quarantine and give back --------------------------------------------------------------------------------------


class QuarantineNode(Message):
    """Argument of ``quarantine_node``."""

    target: Target
    rule: str
    reason: str


class Quarantined(Message):
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


class GivenBack(Message):
    """Result of ``give_back_node``."""

    changed: bool
    """False when there was nothing of ours on it any more."""
    unschedulable: bool


# --- preserve ------------------------------------------------------------------------------------------------------


class PreserveEvidence(Message):
    """Argument of ``preserve_evidence``."""

    target: Target
    reports: tuple[FaultReport, ...]


class Evidence(Message):
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
    """For each job's answer."""
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


class Checkpoints(Message):
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


class Drained(Message):
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


# --- replace -------------------------------------------------------------------------------------------------------


class SurveyGroup(Message):
    """Argument of ``survey_group``: look at the group before anything irreversible."""

    target: Target


class GroupSurvey(Message):
    """Result of ``survey_group``: the group as it was before the replacement."""

    group: str
    desired: int
    instances: tuple[str, ...]
    """Instance ids in the group: whatever is not among them later was launched later."""
    obstacles: tuple[str, ...] = ()
    """Why a replacement would not come, in words (A4); empty when nothing stands in the way."""


class MarkUnhealthy(Message):
    """Argument of ``mark_instance_unhealthy``."""

    target: Target
    drill: bool = False


class MarkedUnhealthy(Message):
    """Result of ``mark_instance_unhealthy``."""

    instance_id: str
    already: str = ""
    """The state that made a call needless, e.g. ``Terminating:Wait``; empty when the call was made."""
    at: datetime


class AwaitReplacement(Message):
    """Argument of ``await_replacement``."""

    target: Target
    survey: GroupSurvey
    deadline: timedelta


class Replacement(Message):
    """Result of ``await_replacement``: the launch claimed for this incident, and its Node."""

    instance_id: str
    node: str
    node_uid: str
    zone: str
    instance_type: str


class VerifyReplacement(Message):
    """Argument of ``verify_replacement``."""

    target: Target
    replacement: Replacement
    soak: timedelta
    deadline: timedelta


class Verified(Message):
    """Result of ``verify_replacement``."""

    checks: tuple[str, ...]
    """What was proven, in words, one per check."""
    devices: dict[str, int] = Field(default_factory=dict)
    ready_since: datetime


# --- close ---------------------------------------------------------------------------------------------------------


class CloseIncident(Message):
    """Argument of ``close_incident``: see the old machine gone."""

    target: Target
    deadline: timedelta


class Closed(Message):
    """Result of ``close_incident``."""

    instance_state: str
    node_gone: bool


class WriteRecord(Message):
    """Argument of ``write_record``."""

    report: IncidentReport


class Recorded(Message):
    """Result of ``write_record``."""

    uris: tuple[str, ...]
