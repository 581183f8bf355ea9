"""What proves a doubtful line: a second witness that did not read the same line, and which of them a group demands."""

from enum import StrEnum

from pydantic import Field, model_validator

from contract.model import Document, Message


class Corroboration(StrEnum):
    """Kinds of second witness. Whatever reads the kernel log is the first witness again, under another name."""

    COUNTERS = "counters"
    """The driver's own count of uncorrected errors of the same device moved around the moment."""
    EC2 = "ec2"
    """EC2 has scheduled an event for the instance, or its status check fails."""
    OTHER_SOURCE = "other-source"
    """The kubelet fell silent, or a condition or taint that the policy calls independent is there."""
    RECURRENCE = "recurrence"
    """The same device failed before, under other work: software does not follow a serial number around."""


class CorroborationPolicy(Document):
    """What turns a finding that is in doubt into one that is acted on. Without it, a human decides."""

    accepted: tuple[Corroboration, ...] = tuple(Corroboration)
    """Which kinds count; none: nothing but a human's word does."""
    needed: int = Field(default=1, ge=1)
    """How many different kinds it takes."""
    independent: tuple[str, ...] = ()
    """Condition types and taint keys whose makers do not read the kernel log, in the owner's word. Node Problem
    Detector's, and those of agents like it, repeat the line that is in doubt."""

    @model_validator(mode="after")
    def _can_be_reached(self) -> "CorroborationPolicy":
        kinds = len(set(self.accepted))
        if kinds and self.needed > kinds:
            raise ValueError(f"{self.needed} kinds are needed and {kinds} are accepted: no finding could be proven")
        return self


class Circumstances(Message):
    """What ``identify`` found out about a machine whose findings leave doubt. Sentences, without their full stop."""

    ec2: tuple[str, ...] = ()
    """What EC2 says against the instance."""
    ec2_asked: bool = False
    """Whether EC2 answered: only then does its silence mean anything."""
    recurrence: tuple[str, ...] = ()
    """Earlier failures of the same device under other work."""
    work_dead: bool = False
    """There is work on the node, and all of it is dead."""
