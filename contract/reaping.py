"""What ReapOrphans is told, and what it says it did."""

from pydantic import Field

from contract.model import Message


class ReapOrphans(Message):
    """Input of the workflow and of its act: whose nodes."""

    cluster: str


class Reaped(Message):
    """What was found, for the page in the Temporal UI. Nodes by name, each with a sentence; at most a hundred."""

    restarted: dict[str, str] = Field(default_factory=dict)
    """Their incident goes on: what it was about still holds."""
    given_back: dict[str, str] = Field(default_factory=dict)
    """Nothing is known against them any more."""
    left: dict[str, str] = Field(default_factory=dict)
    """A human has to say what becomes of them."""
    exported: dict[str, str] = Field(default_factory=dict)
    """Incidents whose record was missing, by id, and where it is now, or why it still is missing."""


class ExportRecords(Message):
    """Input of the act: whose incidents."""

    cluster: str


class Exported(Message):
    """What was exported, for the page in the Temporal UI: incidents by id, each with a sentence; at most a hundred."""

    written: dict[str, str] = Field(default_factory=dict)
    """Where their record is now."""
    missed: dict[str, str] = Field(default_factory=dict)
    """Why it is not; the next look tries again."""
