"""The model of a fleet: how big, how it fails, how its jobs save their work. Written by people, as YAML."""

from datetime import timedelta

from pydantic import Field, model_validator

from contract.model import Document
from contract.words import counted


class FaultClass(Document):
    """One kind of fault."""

    per_1000_node_days: float = Field(ge=0)
    kills: bool = True
    """Whether it stops the job at once. One that does not leaves time to save."""


class RollOut(Document):
    """A mistake that makes healthy nodes look broken: a driver, a rule of the detector, a health check."""

    day: float = Field(ge=0)
    share: float = Field(gt=0, le=1)
    """Of all nodes."""
    within: timedelta = Field(default=timedelta(minutes=10), gt=timedelta(0))
    fixed_after: timedelta = Field(default=timedelta(hours=4), gt=timedelta(0))
    """Until then replacements are hit as well; then people have undone it, and what still waits is withdrawn."""


class FleetModel(Document):
    """A fleet of gangs: a job needs all of its nodes, and stands still while one is missing."""

    source: str = ""
    """Where its numbers come from."""
    nodes: int = Field(ge=1)
    spares: int = Field(default=0, ge=0)
    """Of the nodes, those that no gang needs."""
    gang: int = Field(ge=1)
    """Nodes of one job."""
    days: float = Field(gt=0)
    groups: int = Field(default=1, ge=1)
    """Node groups, of equal size."""
    zones: int = Field(default=1, ge=1)
    faults: dict[str, FaultClass]
    false_alarms_per_1000_node_days: float = Field(default=0.0, ge=0)
    """Healthy nodes that are reported as broken, one at a time."""
    mistakes: tuple[RollOut, ...] = ()
    checkpoint_every: timedelta = Field(default=timedelta(hours=1), gt=timedelta(0))
    checkpoint: timedelta = Field(default=timedelta(minutes=2), ge=timedelta(0))
    """To save once more before a node that still works is taken."""
    restart: timedelta = Field(default=timedelta(minutes=10), ge=timedelta(0))
    launch: timedelta = Field(default=timedelta(minutes=30), gt=timedelta(0))
    """From taking a node to its replacement."""

    @model_validator(mode="after")
    def _has_room_for_a_gang(self) -> "FleetModel":
        if self.gang > self.nodes - self.spares:
            raise ValueError(
                f"a gang of {self.gang} needs more than the {counted(self.nodes - self.spares, 'node')} beside spares"
            )
        return self

    @property
    def gangs(self) -> int:
        """Jobs that run side by side."""
        return (self.nodes - self.spares) // self.gang
