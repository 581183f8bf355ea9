"""What the detector says: facts about one kernel record, never a decision."""

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from contract.corroboration import RuleCorroboration
from contract.model import MESSAGE_MAX, SCHEMA_VERSION, Message
from contract.names import KERNEL_LOG

SERIAL_FIELDS: Final = ("serial", "serial-num", "serial_num", "serial-number")
"""Names under which rules and kernel lines carry a device's serial number."""
_INSTANCE_FIELDS: Final = ("instance-id", "instance_id")


class Verdict(StrEnum):
    """What a rule makes of a line. The words are those of the labelled corpus."""

    HARDWARE = "hardware"
    REPAIRABLE = "repairable"
    AMBIGUOUS = "ambiguous"
    ELSEWHERE = "elsewhere"
    APPLICATION = "application"
    NOTICE = "notice"


CLOSING: Final = frozenset({Verdict.HARDWARE, Verdict.REPAIRABLE, Verdict.AMBIGUOUS})
"""Verdicts that close a node to new work, until more is known; the others are about something else than the machine."""


class DataTrust(StrEnum):
    """Whether what the failing device computed can still be believed after this fault."""

    TRUSTED = "trusted"
    SUSPECT = "suspect"


class EvidenceEnd(StrEnum):
    """When a finding stops being evidence (rule C6)."""

    BOOT = "boot"
    """A reboot of the same machine ends it."""
    REPLACEMENT = "replacement"
    """Only another machine ends it: silicon does not heal by rebooting."""


class FaultReport(Message):
    """One finding of one detector, as it travels to Temporal and stays in the history."""

    schema_version: int = SCHEMA_VERSION
    cluster: str
    node: str
    """Name of the Node object that the detector runs on."""
    instance_id: str | None = None
    """EC2 instance id as the detector knows it (DMI, else its Node's provider id); None when neither names one."""
    boot_id: str
    """``/proc/sys/kernel/random/boot_id``."""
    seq: int = Field(ge=0)
    """Sequence number of the first record of this finding: ``/dev/kmsg`` numbers records per boot, 64 bit."""
    last_seq: int | None = None
    """Sequence number of the newest record of this finding; None while it is the first."""
    source: str = KERNEL_LOG
    rule: str
    component: str
    verdict: Verdict
    data: DataTrust = DataTrust.TRUSTED
    evidence_end: EvidenceEnd = EvidenceEnd.REPLACEMENT
    corroboration: RuleCorroboration | None = None
    """What its rule asks for before anything is destroyed on its word; None: nothing, unless it leaves doubt."""
    workload_alive: bool = True
    """Whether the rule presumes that processes on the device still run."""
    device_resource: str | None = None
    """Extended resource that the failing device serves, e.g. ``aws.amazon.com/neuron``."""
    condition_type: str
    """Node condition that carries it, e.g. ``NeuronHealth``."""
    reason: str
    """Reason of the condition and the Event, e.g. ``NeuronHasError_HBM_UNCORRECTABLE_ERROR``."""
    signature: str
    """Rule, device and code: what de-duplication counts."""
    fields: dict[str, str] = Field(default_factory=dict)
    """Named groups of the rule and the line's own key=value pairs: device, core, serial, code, advice."""
    message: str = Field(max_length=MESSAGE_MAX)
    context: tuple[str, ...] = ()
    """Some lines before it, bounded."""
    context_after: tuple[str, ...] = ()
    """Some lines after it, as far as they were there when it was delivered, bounded."""
    facility: int = Field(ge=0)
    level: int = Field(ge=0, le=7)
    kernel_time_us: int = Field(ge=0)
    """printk clock, microseconds since boot. It stops in suspend and drifts: never compared with wall clocks (K19)."""
    first_seen: datetime
    last_seen: datetime
    count: int = Field(default=1, ge=1)
    drill: bool = False
    """User space wrote the record (facility is not the kernel's): today's way of testing a set-up, and forgeable."""
    detector_version: str = ""
    kernel_version: str = ""

    @property
    def newest_seq(self) -> int:
        """The newest record of this finding."""
        return self.seq if self.last_seq is None else self.last_seq

    @property
    def key(self) -> str:
        """Identity of the finding: node, boot and sequence number."""
        return f"{self.node}/{self.boot_id}/{self.seq}"

    @property
    def request_id(self) -> str:
        """Request id of the delivery, so that delivering it again is not a second signal."""
        return hashlib.sha256(f"{self.key}/{self.count}".encode()).hexdigest()[:32]


def named_instance(report: FaultReport) -> str:
    """The machine that the line itself names; empty where it names none. Pure."""
    return next((value for key in _INSTANCE_FIELDS if (value := report.fields.get(key, ""))), "")


class RemediationRequest(Message):
    """Input of RemediateNode: which machine. The findings arrive as ``report_fault`` signals."""

    schema_version: int = SCHEMA_VERSION
    cluster: str
    node: str
    instance_id: str | None = None
    drill: bool = False
