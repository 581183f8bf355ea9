"""What was decided about a machine, with the reasons a person reads."""

from datetime import datetime
from enum import StrEnum

from contract.fault import DataTrust
from contract.model import Message


class Rung(StrEnum):
    """Rungs of the response ladder, from nothing to another machine."""

    OBSERVE = "observe"
    """Record it; the machine is not what failed."""
    QUARANTINE = "quarantine"
    """Keep new work away and ask a human."""
    RESET_DEVICE = "reset-device"
    """Take its work off and reset the devices with the vendor's command."""
    REBOOT = "reboot"
    """Take its work off and reboot it."""
    REPLACE = "replace"
    """Take its work off and have the Auto Scaling group replace it."""


class Confidence(StrEnum):
    """How sure a decision is of what it says about the machine, from the least."""

    LOW = "low"
    """In doubt: nothing is destroyed on such a word without a human."""
    MEDIUM = "medium"
    """A doubtful line that a second witness, or a human, confirms; or a line that somebody may have written."""
    HIGH = "high"
    """The rule is certain, and nothing known speaks against it."""


class Plan(Message):
    """The decision. Made by a pure function, and made again before every later step."""

    rung: Rung
    reasons: tuple[str, ...]
    """Sentences: what was found, and why that leads here."""
    remedy: str = ""
    """What a human can do, where one is needed."""
    confidence: Confidence = Confidence.LOW
    evidence_for: tuple[str, ...] = ()
    """Sentences: what speaks for the fault being this machine's, each witness once."""
    evidence_against: tuple[str, ...] = ()
    """Sentences: what speaks against it."""
    would_change: tuple[str, ...] = ()
    """Sentences: what would lead to another decision."""
    data: DataTrust = DataTrust.TRUSTED
    evidence_since: datetime | None = None
    """First sign of the fault: what a suspect device computed later is not to be believed."""
    fuse: str = ""
    """A clause: which other repairer acts on the machine, and when; the waits are cut to be done before."""
    device_resource: str | None = None
    """Extended resource of the failing device, where the finding names one."""

    def decides_as(self, other: "Plan") -> bool:
        """Whether both lead to the same acts for the same reasons. Evidence alone changes no decision."""
        told = {"confidence", "evidence_for", "evidence_against", "would_change", "fuse"}
        return self.model_dump(exclude=told) == other.model_dump(exclude=told)
