"""Every name that other people's systems may hold on to: histories, saved views, labels, dashboards, alarms.

Part of the public API. ``tests/contract/test_names.py`` fails when one of them changes. Nothing here computes
more than a string.
"""

from enum import StrEnum
from typing import Final

PREFIX: Final = "nodemend.io"

# --- Temporal ---------------------------------------------------------------------------------------------------

TASK_QUEUE: Final = "nodemend"
BUDGET_TASK_QUEUE: Final = "nodemend-budget"
"""Of FleetBudget and its acts: incidents that wait for its answer must never hold the slots that it needs."""
REMEDIATE_NODE: Final = "RemediateNode"
FLEET_BUDGET: Final = "FleetBudget"
DISRUPT_GANG: Final = "DisruptGang"
REAP_ORPHANS: Final = "ReapOrphans"

REPORT_FAULT: Final = "report_fault"
PERMIT_GRANTED: Final = "permit_granted"
EXCHANGE_PERMITS: Final = "exchange_permits"
INCIDENT_QUERY: Final = "incident"
PERMITS_QUERY: Final = "permits"
BUDGET_QUERY: Final = "budget"
JOIN_GANG: Final = "join_gang"
LEAVE_GANG: Final = "leave_gang"
GANG_QUERY: Final = "gang"

INCIDENT_MEMO: Final = "incident"
"""Memo key of the running incident report: readable without workers."""

UNKNOWN_INSTANCE: Final = "unknown"
"""Stands where an instance id should be, when neither DMI nor the Node names an EC2 instance."""


def incident_id(cluster: str, node: str, instance_id: str | None, *, drill: bool = False) -> str:
    """The workflow id of an incident. The machine is what fails, so its id is part of it: node names come back.

    A drill has an id of its own, so that a real fault never joins a rehearsal.
    """
    kind = "drill" if drill else "remediate"
    return f"{kind}-{cluster}-{node}-{instance_id or UNKNOWN_INSTANCE}"


def budget_id(cluster: str) -> str:
    """The workflow id of the cluster's FleetBudget."""
    return f"fleet-budget-{cluster}"


def reaper_id(cluster: str) -> str:
    """The id of the cluster's schedule of ReapOrphans, and of its workflows."""
    return f"reap-orphans-{cluster}"


def gang_id(cluster: str, job: str, uid: str) -> str:
    """The workflow id of a job's DisruptGang; ``job`` is ``namespace/kind/name``. Each run of it is one attempt."""
    return f"disrupt-{cluster}-{job.replace('/', '-')}-{uid}"


class OverrideName(StrEnum):
    """What a human can press: each is a signal and an update of this name."""

    APPROVE = "approve"
    HOLD = "hold"
    RESUME = "resume"
    RETRY_STEP = "retry_step"
    SKIP_STEP = "skip_step"
    EXTEND_DEADLINE = "extend_deadline"
    ABORT = "abort"
    RELEASE = "release"
    ACKNOWLEDGE = "acknowledge"


class BudgetOrderName(StrEnum):
    """What a human can tell FleetBudget: each is a signal and an update of this name."""

    PAUSE = "pause"
    RESUME = "resume"


class Step(StrEnum):
    """The steps of the runbook, in order."""

    IDENTIFY = "identify"
    QUARANTINE = "quarantine"
    SETTLE = "settle"
    ASSESS = "assess"
    PRESERVE = "preserve"
    DISRUPT = "disrupt"
    CHECKPOINT = "checkpoint"
    DRAIN = "drain"
    RESET_DEVICE = "reset-device"
    REBOOT = "reboot"
    REPLACE = "replace"
    AWAIT_REPLACEMENT = "await-replacement"
    VERIFY = "verify"
    CLOSE = "close"


class Phase(StrEnum):
    """Value of the search attribute NodePhase. Few on purpose: each change costs history and a visibility write."""

    QUEUED = "queued"
    ADMITTED = "admitted"
    NEEDS_HUMAN = "needs-human"
    CLOSED = "closed"


class Outcome(StrEnum):
    """How an incident ended."""

    REPLACED = "replaced"
    REPLACED_UNVERIFIED = "replaced-unverified"
    REPAIRED = "repaired"
    OBSERVED = "observed"
    SHADOWED = "shadowed"
    STALE = "stale"
    REFUSED = "refused"
    NODE_GONE = "node-gone"
    VETOED = "vetoed"
    ABORTED = "aborted"
    RELEASED = "released"
    TERMINATED = "terminated"
    """Its workflow was ended from outside, and its report made by others from what Temporal keeps."""


class ActivityName(StrEnum):
    """What touches the world. The type is what people read in *Pending Activities*, so it explains itself."""

    IDENTIFY_NODE = "identify_node"
    PROVE_REPORTS = "prove_reports"
    ASK_PERMIT = "ask_permit"
    RETURN_PERMITS = "return_permits"
    DELIVER_GRANTS = "deliver_grants"
    COUNT_CLUSTER = "count_cluster"
    QUARANTINE_NODE = "quarantine_node"
    GIVE_BACK_NODE = "give_back_node"
    PRESERVE_EVIDENCE = "preserve_evidence"
    FIND_JOBS = "find_jobs"
    PRICE_DISRUPTION = "price_disruption"
    JOIN_GANG = "join_gang"
    AWAIT_GANG = "await_gang"
    LEAVE_GANG = "leave_gang"
    LOOK_AT_GANG = "look_at_gang"
    TELL_GANG = "tell_gang"
    REQUEST_CHECKPOINTS = "request_checkpoints"
    REQUEST_GANG_CHECKPOINT = "request_gang_checkpoint"
    FOLLOW_JOBS = "follow_jobs"
    WRITE_RECEIPTS = "write_receipts"
    DRAIN_NODE = "drain_node"
    SURVEY_GROUP = "survey_group"
    RAISE_SPARE = "raise_spare"
    LOWER_SPARE = "lower_spare"
    MARK_INSTANCE_UNHEALTHY = "mark_instance_unhealthy"
    REBOOT_MACHINE = "reboot_machine"
    RESET_DEVICES = "reset_devices"
    AWAIT_REPLACEMENT = "await_replacement"
    VERIFY_REPLACEMENT = "verify_replacement"
    CLOSE_INCIDENT = "close_incident"
    WRITE_RECORD = "write_record"
    SEE_AFTERMATH = "see_aftermath"
    REAP_ORPHANS = "reap_orphans"
    EXPORT_RECORDS = "export_records"


class ErrorType(StrEnum):
    """Types of ApplicationError: retry semantics and meaning are in the type, the message is for people."""

    NODE_GONE = "NodeGone"
    HUMAN_VETO = "HumanVeto"
    OWNED_BY_ANOTHER = "OwnedByAnother"
    FENCED_OUT = "FencedOut"
    POLICY_FORBIDS = "PolicyForbids"
    PERMIT_QUEUED = "PermitQueued"
    INSTANCE_NOT_IN_GROUP = "InstanceNotInGroup"
    WRONG_INSTANCE = "WrongInstance"
    ACCESS_DENIED = "AccessDenied"
    UNREACHABLE = "Unreachable"
    CONFLICT = "Conflict"
    DRAIN_FORBIDDEN = "DrainForbidden"
    DRAIN_BLOCKED = "DrainBlocked"
    NO_REPLACEMENT = "NoReplacement"
    NOT_VERIFIED = "NotVerified"
    BUDGET_UNAVAILABLE = "BudgetUnavailable"
    OVERRIDE_REFUSED = "OverrideRefused"
    NOT_PROVEN = "NotProven"
    EVIDENCE_OVER = "EvidenceOver"


NON_RETRYABLE: Final = tuple(
    str(name)
    for name in (
        ErrorType.NODE_GONE,
        ErrorType.HUMAN_VETO,
        ErrorType.OWNED_BY_ANOTHER,
        ErrorType.FENCED_OUT,
        ErrorType.POLICY_FORBIDS,
        ErrorType.INSTANCE_NOT_IN_GROUP,
        ErrorType.WRONG_INSTANCE,
        ErrorType.ACCESS_DENIED,
        ErrorType.DRAIN_FORBIDDEN,
        ErrorType.DRAIN_BLOCKED,
        ErrorType.NO_REPLACEMENT,
        ErrorType.NOT_VERIFIED,
        ErrorType.EVIDENCE_OVER,
    )
)
"""Trying again changes nothing: a human or another step has to."""


class SearchAttribute(StrEnum):
    """Keyword attributes, except NEEDS_HUMAN which is a Bool. The worker registers them; the detector sends none."""

    NODE_NAME = "NodeName"
    NODE_GROUP = "NodeGroup"
    NODE_ZONE = "NodeZone"
    NODE_PHASE = "NodePhase"
    FAULT_SIGNATURE = "FaultSignature"
    NEEDS_HUMAN = "NeedsHuman"


# --- Kubernetes -------------------------------------------------------------------------------------------------

QUARANTINE_TAINT: Final = f"{PREFIX}/quarantine"
STARTUP_TAINT: Final = f"{PREFIX}/startup"
OWNER_ANNOTATION: Final = f"{PREFIX}/owner"
REPLACES_ANNOTATION: Final = f"{PREFIX}/replaces"
REPLACED_BY_ANNOTATION: Final = f"{PREFIX}/replaced-by"
"""On a NodeClaim that is deleted: the incident that did it."""
REASON_ANNOTATION: Final = f"{PREFIX}/reason"
HANDLED_ANNOTATION: Final = f"{PREFIX}/handled"
"""``<boot id>/<sequence number>``: findings up to there are dealt with and start nothing again."""
FINDING_DIGESTS_ANNOTATION: Final = f"{PREFIX}/finding-digests"
"""Digests of what the node's own detector reported (``contract.proof``); only that detector may write it."""
FINDINGS_ANNOTATION: Final = f"{PREFIX}/findings"
"""Whole reports, where the detector has no Temporal credentials (``NODEMEND_DELIVERY=node``)."""
CLUSTER_FINDING_DIGESTS_ANNOTATION: Final = f"{PREFIX}/cluster-finding-digests"
"""Digests of what ``watch-cluster`` reported about the node; only it may write it."""
INCIDENT_LABEL: Final = f"{PREFIX}/quarantined"
TRIED_ANNOTATION: Final = f"{PREFIX}/tried"
"""Rungs that were tried on this machine and did not mend it, by comma: none is repeated."""
SERIALS_ANNOTATION: Final = f"{PREFIX}/device-serials"
"""Serial numbers of a node's devices, by comma, as whoever can read them writes it: a failed one is known again."""
SKIP_ANNOTATION: Final = f"{PREFIX}/skip"
CHECKPOINT_ANNOTATION: Final = f"{PREFIX}/checkpoint"
CHECKPOINT_COMMAND_ANNOTATION: Final = f"{PREFIX}/checkpoint-command"
CHECKPOINT_CONTAINER_ANNOTATION: Final = f"{PREFIX}/checkpoint-container"
CHECKPOINT_PORT_ANNOTATION: Final = f"{PREFIX}/checkpoint-port"
CHECKPOINT_PATH_ANNOTATION: Final = f"{PREFIX}/checkpoint-path"
CHECKPOINT_MANIFESTS_ANNOTATION: Final = f"{PREFIX}/checkpoint-manifests"
CHECKPOINT_TIMEOUT_ANNOTATION: Final = f"{PREFIX}/checkpoint-timeout"
CHECKPOINT_FALLBACK_ANNOTATION: Final = f"{PREFIX}/checkpoint-fallback"
GANG_LABEL: Final = f"{PREFIX}/gang"
"""On pods of a job that no table knows: pods of one namespace with the same value are one gang."""
RECEIPT_ANNOTATION: Final = f"{PREFIX}/receipt"
"""On a job: why it was restarted, for its owner."""

SCALE_DOWN_DISABLED_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""Keeps cluster-autoscaler off the node (Cluster Autoscaler FAQ)."""
DO_NOT_DISRUPT_ANNOTATION: Final = "karpenter.sh/do-not-disrupt"
"""Keeps Karpenter off the node (Karpenter, Disruption)."""
NO_LOAD_BALANCER_LABEL: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
"""Takes the node out of the cluster's load balancers (Kubernetes, Well-known labels)."""

MIRROR_POD_ANNOTATION: Final = "kubernetes.io/config.mirror"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
NODEGROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"

EVENT_SOURCE: Final = "nodemend"
FAILED_MACHINES: Final = "nodemend-failed-machines"
"""ConfigMap, in the worker's namespace, that remembers machines that failed."""

KERNEL_LOG: Final = "kmsg"
"""Source of a report that the node's own detector made."""
DEVICE_COUNTERS: Final = "device-counters"
"""Source of a report that it made of what the devices' driver counts: no line of the kernel log says it."""
KERNEL_LOG_HEALTH: Final = "KernelLogHealth"
"""Condition by which a detector says whether it reads at all: it says nothing about the machine."""
CULPRIT_SEARCH: Final = "culprit-search"
"""Source of a report about the likely culprit of a hang, that the worker made of what other nodes complained of."""


LIFECYCLE_REASON: Final = "NodemendRepair"
"""Reason of the node lifecycle conditions that are ours (KEP-5683)."""


class ClusterSource(StrEnum):
    """Sources of the reports that ``watch-cluster`` makes."""

    CONDITION = "node-condition"
    TAINT = "node-taint"
    NOT_READY = "node-not-ready"
    EC2 = "ec2"
    SILENCE = "detector-lease"


DETECTOR_LEASE_PREFIX: Final = "nodemend-detector-"
"""And the node's name: the Lease that says that the node's detector lives."""
WATCH_CLUSTER: Final = "nodemend-watch-cluster"
"""Its Lease (who is active) and its ConfigMap (what was sent); the component of its Events."""

# --- telemetry --------------------------------------------------------------------------------------------------


class Interval(StrEnum):
    """What an incident spends its time on: label ``interval`` of the histogram ``INTERVAL_METRIC``."""

    DETECT = "detect"
    QUARANTINE = "quarantine"
    CHECKPOINT = "checkpoint"
    DRAIN = "drain"
    REPLACE = "replace"
    VERIFY = "verify"


INTERVAL_METRIC: Final = "nodemend_interval"
DURATION_METRIC: Final = "nodemend_incident_duration"
ESCALATIONS_METRIC: Final = "nodemend_escalations"
GUARDS_RAISED_METRIC: Final = "nodemend_guards_raised"

NEURON_CLOUDWATCH_NAMESPACE: Final = "NeuronHealthCheck"
"""Of AWS's Neuron recovery agent: a metric per reason, dimensions ``ClusterName`` and ``InstanceId``."""
CLOUDWATCH_NAMESPACE: Final = "Nodemend"


class CloudWatchMetric(StrEnum):
    """Metrics of ``CLOUDWATCH_NAMESPACE``, beside ``ClusterName`` by one dimension each at most."""

    FAULTS = "Faults"
    """By ``Reason``, by ``NodeGroup`` and by ``NodeName``: findings that an incident took up."""
    INCIDENTS_CLOSED = "IncidentsClosed"
    """By ``Outcome``."""
    # How things stand, by nothing else: what the pager sees from outside.
    NEEDS_HUMAN = "NeedsHuman"
    """Incidents that wait for a human."""
    STUCK_INCIDENTS = "StuckIncidents"
    """Incidents that are at work for hours and have not asked for a human."""
    BUDGET_HELD = "BudgetHeld"
    """Requests for a permit that a limit holds."""
    DETECTORS_BLIND = "DetectorsBlind"
    """Nodes whose detector sees nothing."""
    POLLERS = "Pollers"
    """Workers that Temporal sees poll."""


# --- sysexits.h: how processes end ------------------------------------------------------------------------------


class ExitCode:
    """Exit codes of every Nodemend command, from sysexits.h where one fits."""

    OK: Final = 0
    FAILED: Final = 1
    USAGE: Final = 2
    DATA: Final = 65
    NO_INPUT: Final = 66
    UNAVAILABLE: Final = 69
    SOFTWARE: Final = 70
    NO_PERMISSION: Final = 77
    CONFIG: Final = 78
