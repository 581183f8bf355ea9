"""What proves a doubtful line: a second witness that did not read the same line.

A rule says which of them can confirm what it finds, and a group's policy which of those it takes, and how many.
"""

from enum import StrEnum

from pydantic import ConfigDict, Field, model_validator

from contract.model import Document, Message
from contract.words import counted


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


class RuleCorroboration(Message):
    """What a rule asks for before anything is destroyed on its word. A policy may ask for more, never for less."""

    model_config = ConfigDict(extra="forbid")

    by: tuple[Corroboration, ...] = tuple(Corroboration)
    """Kinds that can confirm it; none: a human alone decides, as for a code that no catalogue lists yet."""
    needed: int = Field(default=1, ge=1)
    """How many different kinds it takes."""

    @model_validator(mode="after")
    def _can_be_reached(self) -> "RuleCorroboration":
        kinds = len(set(self.by))
        if kinds and self.needed > kinds:
            raise ValueError(f"{_needed(self.needed)} and {kinds} can confirm it: leave `by` empty for a human")
        return self


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
            raise ValueError(f"{_needed(self.needed)} and {kinds} accepted: no finding could be proven")
        return self

    def of_rule(self, asked: RuleCorroboration | None) -> "CorroborationPolicy":
        """What holds for a finding of a rule that asks for this: the stricter of both in each respect."""
        if asked is None:
            return self
        accepted = tuple(kind for kind in self.accepted if kind in asked.by)
        return self.model_copy(update={"accepted": accepted, "needed": max(self.needed, asked.needed)})


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


def _needed(kinds: int) -> str:
    return f"{counted(kinds, 'kind is', 'kinds are')} needed"
