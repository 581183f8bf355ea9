"""Jobs that span nodes: what ``DisruptGang`` is asked and answers, and what is found out about a job."""

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from contract.checkpoints import JobCheckpoint
from contract.fault import DataTrust
from contract.identity import Target
from contract.model import Message
from contract.permit import PermitApproval, PermitRequest
from contract.policy import CheckpointPolicy
from contract.trail import ActRecord, ActResult


class JobOnNode(Message):
    """One job with pods on a node."""

    job: str
    """``namespace/kind/name``."""
    uid: str = ""
    """Of its object; empty where that cannot be read."""
    declared: bool = False
    """Whether it declares a checkpoint."""
    pods: int = 0
    """On this node."""
    nodes: int = 1
    """That it runs on; more than one makes it a gang with more than one patient."""
    ranks: int = 0
    """Its pods that run, on all nodes."""
    attempts_left: int | None = None
    """How many more failures it survives; None where nothing bounds them, or nobody knows."""
    ends: bool = False
    """Whether this disruption would end it for good."""
    why: str = ""
    """About attempts, in words."""
    idle: str = ""
    """Of a job that has no part elsewhere: why it has no work to disturb, dead or hung as it is; empty where it has,
    or where that was not looked at because another job on the node has."""
    unread: bool = False
    """Its kind has an object, which could not be read: nothing can be written on it."""


class FindJobs(Message):
    """Argument of ``find_jobs``."""

    target: Target
    rules: CheckpointPolicy = CheckpointPolicy()


class JobsOnNode(ActResult):
    """Result of ``find_jobs``."""

    jobs: tuple[JobOnNode, ...] = ()
    jobs_total: int = 0

    @property
    def gangs(self) -> tuple[JobOnNode, ...]:
        """Jobs that other nodes have a part in, in an order that is the same on each of them."""
        return tuple(sorted((job for job in self.jobs if job.nodes > 1), key=lambda job: job.job))

    @property
    def idle(self) -> bool:
        """Whether there are jobs, and all of them are dead or hang: they wait for nobody's leave."""
        return self.jobs_total == len(self.jobs) > 0 and all(job.idle for job in self.jobs)

    @property
    def declared_alone(self) -> bool:
        """Whether a job that has no part elsewhere declares a checkpoint.

        Gangs are listed first, then what declares one: so what is left out of a long list may declare one only where
        the list ends before those that do not.
        """
        alone = [job for job in self.jobs if job.nodes <= 1]
        unseen = self.jobs_total > len(self.jobs) and (not alone or alone[-1].declared)
        return unseen or any(job.declared for job in alone)


class GangMember(Message):
    """A failing node of a gang, as its incident sends it with the signal ``join_gang``."""

    target: Target
    data: DataTrust = DataTrust.TRUSTED
    device_resource: str | None = None
    evidence_since: datetime | None = None
    ranks_alive: bool = True
    signature: str = ""
    rule: str = ""
    approval: PermitApproval | None = None
    """A human lets the gang pass what guards the fleet's budget."""
    covered: bool = False
    """The node's incident holds leave already, by another gang."""
    extended: timedelta = timedelta(0)
    """How much longer than the policy says a human has the job's answer waited for."""

    @property
    def key(self) -> str:
        """Its incident and run."""
        return f"{self.target.fence.incident_id}/{self.target.fence.run_id}"


class GangRequest(Message):
    """Input of DisruptGang. The members arrive as signals."""

    cluster: str
    job: str
    uid: str = ""
    deadline: timedelta
    """The policy's deadline for checkpoints, of the node that failed first; so are the rules."""
    rules: CheckpointPolicy = CheckpointPolicy()


class GangStage(StrEnum):
    """How far a gang is; each stage is past the ones before it."""

    GATHERING = "gathering"
    QUEUED = "queued"
    """For the fleet's leave to disturb it."""
    ASKING = "asking"
    """It may be disturbed, and is asked for its checkpoint."""
    RELEASED = "released"
    """Its failing nodes may be drained."""


class LeaveGang(Message):
    """Argument of the signal ``leave_gang`` and of the act: a node is done with, or its incident went another way."""

    cluster: str
    job: str
    uid: str = ""
    member: str
    """Key of the member."""
    drained: bool = False
    """Its work is gone, and it keeps the leave until it leaves: what fails later finds the job started anew."""
    tell: bool = False
    """Whether its incident has yet to be told what was done in its name: it leaves before its release."""


class GangLeft(Message):
    """Result of ``leave_gang``."""

    acts: tuple[ActRecord, ...] = ()
    """What was done in the node's name until it left, where that is asked for."""


class GangState(Message):
    """Answer of the query ``gang``, and the result of the workflow."""

    job: str
    stage: GangStage = GangStage.GATHERING
    members: tuple[str, ...] = ()
    """Keys of those that are in it."""
    suspects: tuple[str, ...] = ()
    """Keys of those whose fault may have spoiled what the job computed."""
    approved: tuple[str, ...] = ()
    """Keys of those for which a human has let the gang pass what guards the fleet's budget."""
    joined: int = 0
    """How many nodes have ever joined."""
    windows: int = 0
    """How often the job was disturbed: a node that fails once the others are drained opens another window."""
    requests: int = 0
    """How many checkpoints were asked for: at most one a window."""
    summary: str = ""
    """What it does or waits for, in words."""
    checkpoint: JobCheckpoint | None = None
    first: str = ""
    """Key of the member that follows the job afterwards."""
    extended: timedelta = timedelta(0)
    """How much longer humans have the answer waited for."""
    acts: tuple[ActRecord, ...] = ()
    """What was done in the members' name, with its attempts and what each wrote outside; bounded, from its middle.
    Last of all what runs still, which its error says."""


class JoinGang(Message):
    """Argument of ``join_gang`` and ``await_gang``."""

    request: GangRequest
    member: GangMember
    nudges: int = 0
    """How many signals told the incident to look again: each starts the act anew."""


class TellGang(Message):
    """Argument of ``tell_gang``."""

    members: tuple[GangMember, ...]
    nudge: bool = True
    """Whether to send them the signal that makes them look; else they are only looked for."""


class ToldGang(Message):
    """Result of ``tell_gang``."""

    gone: tuple[str, ...] = ()
    """Keys of members whose incident runs no more."""


class LookAtGang(Message):
    """Argument of ``look_at_gang``."""

    request: GangRequest
    members: tuple[GangMember, ...]


class GangLook(ActResult):
    """Result of ``look_at_gang``."""

    alive: bool
    """Whether it has work that a disruption would disturb."""
    explanation: str
    ranks: int = 0
    """Pods that run."""
    restarted_at: datetime | None = None
    """When it started again; None where that was its first start."""
    hung: bool = False
    """Whether they have taken no step for long: nothing is disturbed, and what there is has yet to be named."""


class RequestGangCheckpoint(Message):
    """Argument of ``request_gang_checkpoint``."""

    request: GangRequest
    members: tuple[GangMember, ...]
    nonce: str
    permit: PermitRequest | None = None
    """What allows it; None where a node of the job has leave of its own."""
    asked_at: datetime | None = None
    """When the job was first asked, whatever was asked anew since: its time is counted from there."""
    extended: timedelta = timedelta(0)
    """What humans added to the deadlines, which is in them: a job's own time-out moves as far."""


class GangCheckpoint(JobCheckpoint, ActResult):
    """Result of ``request_gang_checkpoint``."""


class FollowedJob(Message):
    """A job after its disruption (V13)."""

    job: str
    resumed: bool = False
    """All ranks that it had run again."""
    passed: bool = False
    """It is past the step that it was to resume from."""
    at: int | None = None
    """The last step that it was seen at."""
    explanation: str = ""
    saved_steps: int | None = None
    saved_accelerator_seconds: float | None = None
    lost_steps: int | None = None
    at_end: JobCheckpoint | None = None
    """Of a job that saves when it is ended: what it saved then, verified, or that it saved nothing."""


class FollowJobs(Message):
    """Argument of ``follow_jobs``."""

    target: Target
    checkpoints: tuple[JobCheckpoint, ...]
    ranks: dict[str, int] = Field(default_factory=dict)
    """How many pods of each job ran before."""
    evicted_at: datetime | None = None
    """When their eviction began; None where they were not evicted."""
    deadline: timedelta


class JobsFollowed(ActResult):
    """Result of ``follow_jobs``."""

    jobs: tuple[FollowedJob, ...] = ()


class WriteReceipts(Message):
    """Argument of ``write_receipts``: why each job restarted, for its owner."""

    target: Target
    reason: str
    device: str = ""
    line: str
    """The kernel line."""
    jobs: tuple[JobOnNode, ...]
    checkpoints: tuple[JobCheckpoint, ...] = ()
    followed: tuple[FollowedJob, ...] = ()


class Receipts(ActResult):
    """Result of ``write_receipts``."""

    written: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    """Jobs that have none, and why."""
