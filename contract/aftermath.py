"""What became of a node whose incident only decided (mode shadow): what its decision is scored against."""

from datetime import datetime
from enum import StrEnum

from contract.identity import NodeIdentity
from contract.model import Message


class Fate(StrEnum):
    """What became of it. Declared from what is final to what is not."""

    REPLACED = "replaced"
    """Its Node is gone, or is another machine now: another repairer, a human or EC2 did that."""
    CORDONED = "cordoned"
    """Somebody closed it to new work, and it stayed so."""
    STILL_FAILING = "still-failing"
    """It is not Ready, or the fault showed again."""
    REBOOTED = "rebooted"
    """It was rebooted, and went on without the fault."""
    RECOVERED = "recovered"
    """It went on as it was, without the fault showing again."""


class Aftermath(Message):
    """The answer, as far as it was followed."""

    fate: Fate
    at: datetime
    """When it was first seen so."""
    followed_until: datetime
    explanation: str
    """A sentence, with who it was where the node said so."""


class SeeAftermath(Message):
    """Argument of ``see_aftermath``."""

    identity: NodeIdentity


class Seen(Message):
    """Result of ``see_aftermath``: the node at one moment."""

    fate: Fate
    explanation: str
    acts_now: bool = False
    """Whether the policy acts on its group by now: then what joined since is for an incident that acts."""
