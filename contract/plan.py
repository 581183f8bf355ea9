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


class Plan(Message):
    """The decision. Made by a pure function, and made again before every later step."""

    rung: Rung
    reasons: tuple[str, ...]
    """Sentences: what was found, and why that leads here."""
    remedy: str = ""
    """What a human can do, where one is needed."""
    data: DataTrust = DataTrust.TRUSTED
    evidence_since: datetime | None = None
    """First sign of the fault: what a suspect device computed later is not to be believed."""
    device_resource: str | None = None
    """Extended resource of the failing device, where the finding names one."""
