"""What FleetBudget remembers and counts besides permits: who said pause, what failed where, how fast it went."""

import shlex
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from contract.model import Document, Message, Text

Traits = dict[str, str]
"""What a node has in common with others, by name for people: ``driver`` → ``2.30.2``."""


class Limit(StrEnum):
    """What makes a request wait: for tables and metrics; the reason in words stands beside it."""

    UNCOUNTED = "uncounted"
    PAUSED = "paused"
    CORRELATION = "correlation"
    FAILED_REPAIRS = "failed-repairs"
    RESTARTED = "restarted"
    WINDOW = "window"
    NODE = "node"
    GROUP = "group"
    SPARE = "spare"
    ZONE = "zone"
    CLUSTER = "cluster"
    RATE = "rate"


class Area(Message):
    """The cluster, or one of its zones, as counted from its Nodes. Only nodes that matter now are named."""

    name: str
    desired: int
    """Nodes that there should be."""
    working: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    others_working: int = 0
    others_quarantined: int = 0


class HealthyNodes(Message):
    """What the nodes without a fault have in common: against it a shared trait means something, or nothing."""

    total: int = 0
    traits: dict[str, dict[str, int]] = Field(default_factory=dict)
    """How many have each value, by trait. A trait that could not be looked at is absent."""


class Sighting(Message):
    """A fault on a node, as the correlation guard remembers it."""

    node: str
    fault: str
    """The rule that found it."""
    incident_id: str
    at: datetime
    traits: Traits = Field(default_factory=dict)


class Guard(Message):
    """A common cause, seen. While it is up, everything of its kind waits."""

    fault: str = ""
    """Holds this fault on any node; empty where it is about a trait."""
    trait: str = ""
    value: str = ""
    """Hold any fault on nodes that share this."""
    since: datetime
    last: datetime
    """The newest sighting of it."""
    nodes: int
    words: str
    cleared_at: datetime | None = None
    """Kept after that for a while, so that what raised it does not raise it again."""

    @property
    def key(self) -> str:
        """What it is about."""
        return self.fault or f"{self.trait}={self.value}"


class Bucket(Message):
    """Tokens left of one rate."""

    tokens: float
    at: datetime


class Pause(Message):
    """An operator stopped new permits, of the cluster or of one group."""

    group: str | None = None
    by: str
    reason: str
    at: datetime

    @property
    def place(self) -> str:
        """What is paused, for a sentence."""
        return "the whole cluster" if self.group is None else (self.group or "nodes of no group")

    @property
    def lifted_by(self) -> str:
        """The command that lifts it."""
        return "nodemend resume" if self.group is None else f"nodemend resume --group {shlex.quote(self.group)}"


class RepairResult(Message):
    """How a repair ended, told at the close of its incident."""

    incident_id: str
    run_id: str
    group: str
    fault: str
    node: str
    replacement: str = ""
    """The node that came instead."""
    failed: bool
    at: datetime


class OrderRecord(Message):
    """What a human told FleetBudget, and what came of it."""

    name: str
    by: str
    reason: str
    at: datetime
    accepted: bool
    answer: str


class BudgetOrder(Document):
    """Argument of ``pause`` and ``resume``. Example: ``{"by": "ada", "reason": "driver roll-out"}``."""

    by: Text
    reason: Text
    group: str | None = Field(default=None, max_length=255)
    """None: the whole cluster."""
