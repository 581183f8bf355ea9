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


class PermitBatch(Message):
    """Argument of the update ``exchange_permits``: what one worker process has gathered since its last."""

    asks: tuple[PermitRequest, ...] = ()
    returns: tuple[str, ...] = ()
    """Tokens, held or still queued."""


class AskPermit(Message):
    """Argument of ``ask_permit``."""

    request: PermitRequest
    nudges: int = 0
    """How many ``permit_granted`` signals have come: each makes the holder ask again, for the issuer's word counts."""


class ReturnPermits(Message):
    """Argument of ``return_permits``."""

    cluster: str
    tokens: tuple[str, ...]


class PermitGranted(Message):
    """Argument of the signal ``permit_granted``."""

    token: str


class PermitAnswer(Message):
    """Granted, or queued with the reason in words and what would release it."""

    token: str
    granted: bool
    reason: str = ""
    granted_at: datetime | None = None


class GroupLimits(Message):
    """What the policy allows a group to lose at once, read at each count: tightening holds at once."""

    max_concurrent: int
    max_disrupted_share: float
    max_quarantined_share: float


class GroupCount(Message):
    """One node group as counted from the world, not from who claims to hold what."""

    group: str
    desired: int
    working: tuple[str, ...] = ()
    """Names of nodes that are Ready, open to the scheduler, and ours in no way."""
    quarantined: tuple[str, ...] = ()
    """Names of nodes that are Ready and quarantined by an incident, their work not yet disturbed."""
    limits: GroupLimits


class CountCluster(Message):
    """Argument of ``count_cluster``: the groups that matter now, and the holders to check for life."""

    groups: tuple[str, ...]
    holders: tuple[PermitRequest, ...] = ()


class ClusterCount(Message):
    """Result of ``count_cluster``: what the admission decision sees."""

    groups: tuple[GroupCount, ...]
    gone: tuple[str, ...] = ()
    """Tokens of the holders that run no more."""
    counted_at: datetime


class QueuedRequest(Message):
    """A request that waits, and since when: the oldest goes first."""

    request: PermitRequest
    asked_at: datetime
    reason: str = ""


class HeldPermit(Message):
    """A permit that is out."""

    request: PermitRequest
    granted_at: datetime


class BudgetState(Message):
    """Input of FleetBudget: what it carries from run to run, and what its query shows."""

    cluster: str
    queue: tuple[QueuedRequest, ...] = ()
    held: tuple[HeldPermit, ...] = ()
    outbox: tuple[PermitRequest, ...] = ()
    """Granted, and the holder not told yet: kept until it is."""
    history_limit: int = 2000
    """Events after which it continues as new; a test forces it."""


class DeliverGrants(Message):
    """Argument of ``deliver_grants``."""

    requests: tuple[PermitRequest, ...]


class Delivered(Message):
    """Result of ``deliver_grants``."""

    told: tuple[str, ...]
    """Tokens whose holder has the signal."""
    gone: tuple[str, ...] = ()
    """Tokens whose holder runs no more: the permit is free again."""
