"""Permits: what FleetBudget grants. Quarantine takes a node from the scheduler; disruption stops its work."""

from datetime import datetime
from enum import StrEnum

from contract.model import Message


class PermitKind(StrEnum):
    """The two things that cost the fleet capacity, with a limit each."""

    QUARANTINE = "quarantine"
    DISRUPTION = "disruption"


class PermitRequest(Message):
    """One incident asks for one permit. The token makes asking again harmless."""

    kind: PermitKind
    incident_id: str
    run_id: str
    cluster: str
    group: str
    node: str
    zone: str = ""
    signature: str = ""

    @property
    def token(self) -> str:
        """Identity of the permit: a new run of the same incident asks under a new token."""
        return f"{self.kind}/{self.incident_id}/{self.run_id}"


class PermitAnswer(Message):
    """Granted, or queued with the reason in words and what would release it."""

    token: str
    granted: bool
    reason: str = ""
    granted_at: datetime | None = None


class GroupCount(Message):
    """One node group as counted from the world, not from who claims to hold what."""

    group: str
    desired: int
    ready: tuple[str, ...] = ()
    """Names of nodes that are Ready and carry no work of ours."""
    quarantined: tuple[str, ...] = ()
    """Names of nodes that are Ready, quarantined by an incident, their work not yet disturbed."""
    disrupted: tuple[str, ...] = ()
    """Names of nodes that an incident is disrupting, or that are not Ready."""


class ClusterCount(Message):
    """What the admission decision sees."""

    groups: tuple[GroupCount, ...]
    counted_at: datetime
