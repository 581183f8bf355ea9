"""What a gang's workflow knows: its failing nodes, how far it is, and the answer to who asks. Plain and pure."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from contract.acts import CheckpointStatus, JobCheckpoint
from contract.fault import DataTrust
from contract.gang import GangMember, GangRequest, GangStage, GangState
from contract.names import ActivityName, Step, gang_id
from contract.permit import GangNode, PermitApproval, PermitKind, PermitRequest
from contract.trail import ActRecord

MEMBERS_SHOWN: Final = 30
ACTS_MAX: Final = 12
"""Acts that its nodes' reports are told of."""


@dataclass
class Gang:
    """One job that loses nodes, as one patient."""

    request: GangRequest
    run_id: str
    stage: GangStage = GangStage.GATHERING
    members: dict[str, GangMember] = field(default_factory=dict)
    drained: set[str] = field(default_factory=set)
    """Members whose work is gone. When all are, the window is over: the job may run again, and would lose what it
    does from then on to a node that were released without asking."""
    windows: int = 0
    changes: int = 0
    """How often nodes have joined and left."""
    joined: set[str] = field(default_factory=set)
    requests: int = 0
    summary: str = "its failing nodes are gathered."
    checkpoint: JobCheckpoint | None = None
    closing: bool = False
    """Nobody joins any more: whoever comes now starts the next run."""
    acts: list[ActRecord] = field(default_factory=list)
    asking: ActRecord | None = None
    """The asking that runs, for whoever leaves before its end."""
    _first: str = ""

    def keep_act(self, record: ActRecord) -> None:
        """Keep what an act wrote and how it failed: the incidents of its nodes report it as theirs."""
        self.acts.append(record)
        if len(self.acts) > ACTS_MAX:
            del self.acts[ACTS_MAX // 2]

    def begin_asking(self, at: datetime) -> None:
        """The job is asked from now on."""
        says = "The job had not answered when this node left its gang."
        self.asking = ActRecord(act=ActivityName.REQUEST_GANG_CHECKPOINT, step=Step.CHECKPOINT, at=at, error=says)

    def end_asking(self, *, stopped: bool) -> None:
        """It answered, or failed, which is kept as any act; or nobody wanted the answer any more."""
        if stopped and self.asking:
            self.keep_act(self.asking.model_copy(update={"error": "It was stopped before the job had answered."}))
        self.asking = None

    def join(self, member: GangMember) -> None:
        """A node fails. Joining twice is joining once; what it says anew counts."""
        if not self.closing:
            self.changes += member.key not in self.members
            self.members[member.key] = member
            self.drained.discard(member.key)
            self.joined.add(member.key)
            self._first = self._first or member.key

    def leave(self, key: str, *, drained: bool = False) -> None:
        """A node is done with, or drained and not yet done with."""
        if not drained:
            self.changes += self.members.pop(key, None) is not None
            self.drained.discard(key)
        elif key in self.members:
            self.drained.add(key)
        if self.stage is GangStage.RELEASED and not self.undrained:
            self.stage, self._first = GangStage.GATHERING, ""
            self.summary = "its failing nodes are drained."

    def open_window(self) -> None:
        """Nodes fail: the job is going to be disturbed once for all of them."""
        self.windows += 1
        self.stage, self.checkpoint = GangStage.GATHERING, None
        self.summary = "its failing nodes are gathered."

    @property
    def undrained(self) -> tuple[GangMember, ...]:
        """Members whose work is still there."""
        return tuple(member for key, member in self.members.items() if key not in self.drained)

    def drop(self, keys: tuple[str, ...]) -> None:
        """Incidents that run no more were terminated: they will not say so."""
        for key in keys:
            self.leave(key)

    @property
    def suspects(self) -> frozenset[str]:
        """Members whose fault may have spoiled what the job computed."""
        return frozenset(key for key, member in self.members.items() if member.data is DataTrust.SUSPECT)

    @property
    def suspects_at_work(self) -> frozenset[str]:
        """Those of them whose work is still there."""
        return self.suspects - self.drained

    @property
    def ranks_alive(self) -> bool:
        """Whether the faults leave the job alive: where they kill its ranks it cannot stay up, and peace is no help."""
        return all(member.ranks_alive for member in self.undrained)

    @property
    def extended(self) -> timedelta:
        """How much longer than the policy says humans have the answer waited for."""
        return max((member.extended for member in self.members.values()), default=timedelta(0))

    @property
    def asks(self) -> GangRequest:
        """The request with what humans added to its deadlines: whichever counts, more was given to all of them."""
        request, more = self.request, self.extended
        rules = request.rules.model_copy(
            update={"urgent": request.rules.urgent + more, "longest": request.rules.longest + more}
        )
        return request.model_copy(update={"deadline": request.deadline + more, "rules": rules})

    @property
    def covered(self) -> bool:
        """Whether a member's incident holds leave already, by another job on its node."""
        return any(member.covered for member in self.members.values())

    @property
    def approval(self) -> PermitApproval | None:
        """A human's word on the permit that is waited for, given to the incident of any node that it is asked for."""
        return next((member.approval for member in self.undrained if member.approval), None)

    def permit(self, restarted_at: datetime | None) -> PermitRequest:
        """The one permit for all members, in the name of the first that it asks for.

        Those that are drained are out still, and those that join while the job is disturbed anyway go along: they
        count until they leave. When the job started again is as of the window's first ask: one that cannot stay up on
        a failing node must not put its repair off for ever.
        """
        first, *others = sorted(map(self._place, self.members.values()), key=lambda place: place.out)
        return PermitRequest(
            kind=PermitKind.DISRUPTION,
            incident_id=gang_id(self.request.cluster, self.request.job, self.request.uid),
            run_id=self.run_id,
            cluster=self.request.cluster,
            **first.model_dump(),
            job=self.request.job,
            members=tuple(other.node for other in others),
            others=tuple(others),
            revision=self.changes,
            approval=self.approval,
            restarted_at=restarted_at,
        )

    def _place(self, member: GangMember) -> GangNode:
        identity = member.target.identity
        return GangNode(
            node=identity.node,
            group=identity.group or "",
            zone=identity.zone,
            signature=member.signature,
            rule=member.rule,
            out=member.key in self.drained or self.stage in (GangStage.ASKING, GangStage.RELEASED),
        )

    @property
    def nodes(self) -> frozenset[str]:
        """All its members' nodes."""
        return frozenset(member.target.identity.node for member in self.members.values())

    def state(self) -> GangState:
        """The answer to who asks."""
        return GangState(
            job=self.request.job,
            stage=GangStage.GATHERING if self.closing else self.stage,
            members=() if self.closing else tuple(self.members),
            suspects=tuple(sorted(self.suspects)),
            approved=tuple(sorted(key for key, member in self.members.items() if member.approval)),
            joined=len(self.joined),
            windows=self.windows,
            requests=self.requests,
            summary=self.summary,
            checkpoint=self.checkpoint,
            first=self._first,
            extended=self.extended,
            acts=(*self.acts, self.asking) if self.asking else tuple(self.acts),
        )

    def details(self) -> str:
        """For the Temporal UI."""
        nodes = [member.target.identity.node for member in self.members.values()]
        more = f" and {len(nodes) - MEMBERS_SHOWN} more" if len(nodes) > MEMBERS_SHOWN else ""
        listed = ", ".join(f"`{node}`" for node in nodes[:MEMBERS_SHOWN]) or "none"
        return (
            f"**{self.request.job}** · {self.stage}\n\n{self.summary}\n\n"
            f"Failing nodes in it now: {listed}{more}. Joined in all: {len(self.joined)}. "
            f"Checkpoints asked for: {self.requests}.\n\nEach node has an incident of its own; press there."
        )


def as_seen_by(checkpoint: JobCheckpoint, member: GangMember) -> JobCheckpoint:
    """The gang's checkpoint for one of its nodes: what was saved after a suspect fault's first sign is suspect."""
    spoiled = (
        checkpoint.status is CheckpointStatus.SAVED
        and member.data is DataTrust.SUSPECT
        and member.evidence_since is not None
        and checkpoint.saved_at is not None
        and checkpoint.saved_at >= member.evidence_since
    )
    if not spoiled:
        return checkpoint
    why = f"step {checkpoint.step} was saved after the first sign of a fault that spoils data: it is not to be used"
    return checkpoint.model_copy(
        update={
            "status": CheckpointStatus.FAILED,
            "step": checkpoint.previous_step,
            "saved_at": checkpoint.previous_at,
            "suspect": 1,
            "explanation": why,
        }
    )
