"""Permits: what FleetBudget grants. Quarantine takes a node from the scheduler; disruption stops its work."""

from collections.abc import Collection, Iterable
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import Field

from contract.budget import (
    Area,
    Bucket,
    Guard,
    HealthyNodes,
    Limit,
    OrderRecord,
    Pause,
    RepairResult,
    Sighting,
    Traits,
)
from contract.budget_policy import BudgetPolicy
from contract.fault import FaultReport, Verdict
from contract.model import Message
from contract.trail import ActResult

if TYPE_CHECKING:
    from contract.policy import GroupPolicy


class PermitKind(StrEnum):
    """The two things that cost the fleet capacity, with a limit each."""

    QUARANTINE = "quarantine"
    DISRUPTION = "disruption"


class PermitApproval(Message):
    """A human lets a request pass the guards that hold it; what the fleet may lose at once still holds."""

    by: str
    reason: str


class GangNode(Message):
    """A failing node of a gang, beside the first: judged and charged where it is, not where the first one is."""

    node: str
    group: str
    zone: str = ""
    signature: str = ""
    rule: str = ""
    out: bool = False
    """It is drained, or goes along with nodes that the gang has leave for: told so that it counts, not asked for."""


class PermitRequest(Message):
    """One incident or one gang asks for one permit. The token makes asking again harmless."""

    kind: PermitKind
    incident_id: str
    run_id: str
    cluster: str
    group: str
    node: str
    zone: str = ""
    signature: str = ""
    rule: str = ""
    severity: int = 0
    """How urgent, from 0: each step is worth an hour of waiting."""
    traits: Traits = Field(default_factory=dict)
    approval: PermitApproval | None = None
    job: str = ""
    """The gang in whose name it is asked; empty for an incident's own."""
    members: tuple[str, ...] = ()
    """The gang's other failing nodes: one patient, so they pass as one, and all of them count from then on."""
    others: tuple[GangNode, ...] = ()
    """The same, each with its place. Empty from older gangs: theirs are taken to be where the first one is."""
    out: bool = False
    """Of the first node, as of the others."""
    revision: int = 0
    """Of a gang: it asks anew when nodes join and leave, and what was sent earlier may come later. 0 of an incident."""
    useless: bool = False
    """All work on the node is dead: closing it takes nothing away."""
    restarted_at: datetime | None = None
    """Of the gang: when it started again, where that was not its first start."""

    @property
    def fault(self) -> str:
        """What makes faults of two nodes the same: the rule, for a signature names the device too."""
        return self.rule or self.signature

    @property
    def nodes(self) -> tuple[str, ...]:
        """All that it disturbs."""
        return (self.node, *self.members)

    @property
    def name(self) -> str:
        """Its node, for people; of a gang how many more, and of which job."""
        return f"{self.node} and {len(self.members)} more of {self.job}" if self.members else self.node

    @property
    def parts(self) -> tuple["PermitRequest", ...]:
        """What it asks for each of its nodes, the others being its own still: each counts in its own place."""
        if not self.members:
            return (self,)
        known = {other.node: other.model_dump() for other in self.others}
        return (
            self,
            *(
                self.model_copy(update={**known.get(node, {"node": node}), "members": self.nodes, "others": ()})
                for node in self.members
            ),
        )

    @property
    def judged(self) -> tuple["PermitRequest", ...]:
        """Those parts that the limits must admit. Of an older gang that is the first, and its history decides so."""
        return self.parts if self.others else (self,)

    def covers(self, other: "PermitRequest") -> bool:
        """Whether leave for this is leave for the other."""
        return set(other.nodes) <= set(self.nodes)

    def only(self, nodes: Collection[str]) -> "PermitRequest | None":
        """Without the nodes that have left the gang; None where nothing is left."""
        kept = [part for part in self.parts if part.node in nodes]
        if not kept:
            return None
        first, *others = kept
        places = tuple(
            GangNode.model_validate(other.model_dump(include=set(GangNode.model_fields))) for other in others
        )
        return first.model_copy(update={"members": tuple(other.node for other in others), "others": places})

    @property
    def token(self) -> str:
        """Identity of the permit: a new run of the same incident asks under a new token."""
        return f"{self.kind}/{self.incident_id}/{self.run_id}"


def severity_of(reports: Iterable[FaultReport]) -> int:
    """How urgent: a dead device keeps its whole job waiting, one that still works only threatens to."""
    broken = [report for report in reports if report.verdict is Verdict.HARDWARE]
    return 2 if any(not report.workload_alive for report in broken) else 1 if broken else 0


class PermitBatch(Message):
    """Argument of the update ``exchange_permits``: what one worker process has gathered since its last."""

    asks: tuple[PermitRequest, ...] = ()
    returns: tuple[str, ...] = ()
    """Tokens, held or still queued."""
    results: tuple[RepairResult, ...] = ()


class ReturnPermits(Message):
    """Argument of ``return_permits``."""

    cluster: str
    tokens: tuple[str, ...]
    result: RepairResult | None = None
    """At the close of an incident that repaired something, or tried to."""
    node: str = ""
    node_uid: str = ""
    """Whose mark of waiting is taken away; empty where there is none."""


class PermitGranted(Message):
    """Argument of the signal ``permit_granted``."""

    token: str


class PermitAnswer(ActResult):
    """Granted, or queued with the reason in words and what would release it."""

    token: str
    granted: bool
    reason: str = ""
    releases: str = ""
    """What would release it."""
    granted_at: datetime | None = None


class AskPermit(Message):
    """Argument of ``ask_permit``."""

    request: PermitRequest
    nudges: int = 0
    """How many ``permit_granted`` signals have come: each makes the holder ask again, for the issuer's word counts."""
    node_uid: str = ""
    """Of the very Node that is marked while it waits for its quarantine."""
    heard: PermitAnswer | None = None
    """The answer that came with another act a moment ago, so that the first try need not ask the same again."""


class GroupLimits(Message):
    """What the policy allows a group to lose at once, read at each count: tightening holds at once."""

    max_concurrent: int
    max_disrupted_share: float
    max_quarantined_share: float
    min_working: int = 0

    @classmethod
    def of(cls, rules: "GroupPolicy") -> "GroupLimits":
        """Those of a group's policy."""
        return cls(
            max_concurrent=rules.max_concurrent,
            max_disrupted_share=rules.max_disrupted_share,
            max_quarantined_share=rules.max_quarantined_share,
            min_working=rules.min_working,
        )


class GroupCount(Message):
    """One node group as counted from the world, not from who claims to hold what."""

    group: str
    desired: int
    working: tuple[str, ...] = ()
    """Names of nodes that are Ready, open to the scheduler, and ours in no way."""
    quarantined: tuple[str, ...] = ()
    """Names of nodes that are Ready and quarantined by an incident, their work not yet disturbed."""
    others_working: int = 0
    """More of them that nobody asks about: not named, or a large fleet would not fit into a history."""
    others_quarantined: int = 0
    given_up: int = 0
    """Nodes that have been out for too long to be waited for; ``desired`` is without them."""
    opens_at: datetime | None = None
    """When its next maintenance window opens; None while disruption is allowed."""
    limits: GroupLimits


class CountCluster(Message):
    """Argument of ``count_cluster``: the groups that matter now, and the holders to check for life."""

    groups: tuple[str, ...]
    holders: tuple[PermitRequest, ...] = ()
    nodes: tuple[str, ...] = ()
    """Those that ask or hold: to be named in the answer."""
    groups_of_nodes: tuple[int, ...] = ()
    """The place in ``groups`` of the group of each of ``nodes``, for a Node that is gone tells its group no more.
    Empty from older workers."""
    jobs: tuple[str, ...] = ()
    """Jobs (``namespace/kind/name``) to find on healthy nodes too."""
    cluster: str = ""
    recover: bool = False
    """FleetBudget started without a memory: tell it who holds permits."""
    run_id: str = ""
    """The run that it was at its last count: at another one it was reset, and has forgotten what came after."""


class ClusterCount(Message):
    """Result of ``count_cluster``: what the admission decision sees."""

    groups: tuple[GroupCount, ...]
    gone: tuple[str, ...] = ()
    """Tokens of the holders that run no more."""
    counted_at: datetime
    cluster: Area | None = None
    zones: tuple[Area, ...] = ()
    absent: tuple[str, ...] = ()
    """Asked-about nodes that have no Node object."""
    healthy: HealthyNodes = HealthyNodes()
    run_id: str = ""
    """The run of FleetBudget that was counted for."""
    holding: tuple[PermitRequest, ...] = ()
    """Permits that open incidents say they hold, where FleetBudget may not know of them."""
    policy: BudgetPolicy | None = None
    """The fleet's limits as of now. None in the counts of workers before 0.2, which knew of the groups' limits only:
    their histories decide as they did."""


class QueuedRequest(Message):
    """A request that waits, and since when: the oldest goes first."""

    request: PermitRequest
    asked_at: datetime
    reason: str = ""
    limit: Limit | None = None
    releases: str = ""
    """What would release it, in words."""


class HeldPermit(Message):
    """A permit that is out."""

    request: PermitRequest
    granted_at: datetime
    released_from: str = ""
    """What held it until a human approved it."""


class BudgetState(Message):
    """Input of FleetBudget: what it carries from run to run, and what its query shows."""

    cluster: str
    queue: tuple[QueuedRequest, ...] = ()
    queue_unnamed: int = 0
    """In an answer of the query: more that wait than it names."""
    held: tuple[HeldPermit, ...] = ()
    held_unnamed: int = 0
    """In an answer of the query: more that are out than it names."""
    outbox: tuple[PermitRequest, ...] = ()
    """Granted, and the holder not told yet: kept until it is."""
    pauses: tuple[Pause, ...] = ()
    buckets: dict[str, Bucket] = Field(default_factory=dict)
    sightings: tuple[Sighting, ...] = ()
    guards: tuple[Guard, ...] = ()
    repairs: tuple[RepairResult, ...] = ()
    orders: tuple[OrderRecord, ...] = ()
    """The newest of what humans told it."""
    carried: bool = False
    """From the run before: it remembers. A budget that starts without asks the incidents first."""
    packed: str = ""
    """All of it, compressed (base64 of zlib of this model's JSON), where it is too large to be carried as it is."""
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
