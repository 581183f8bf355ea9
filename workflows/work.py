"""The work on a failing node: leave to disturb it, its checkpoints, and what became of it afterwards.

A job that spans nodes is its ``DisruptGang``'s patient: the gang holds the leave for all its failing nodes and asks
once. A node without such a job asks for a permit of its own, and its jobs by itself.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.saved import saved_work
    from contract import acts, gang
    from contract.fault import DataTrust
    from contract.identity import Target
    from contract.names import ActivityName, Step
    from contract.permit import PermitKind
    from contract.plan import Plan
    from contract.policy import Otherwise
    from contract.trail import ActRecord
    from contract.words import counted
    from workflows import sentences
    from workflows.gang_state import as_seen_by
    from workflows.incident_state import Incident
    from workflows.override_table import Stand
    from workflows.permits import Permits
    from workflows.step_orders import Deadline, StepSkipped
    from workflows.step_runner import StepRunner
    from workflows.timing import PERMIT

_LEFT: Final[Any] = gang.GangLeft | None
"""Older workers answer nothing to who leaves."""
_FRESH: Final = timedelta(minutes=2)
"""How long what was found on a node is believed: whoever waited longer for leave looks again."""


class Work:
    """The work on one incident's node."""

    def __init__(
        self,
        incident: Incident,
        runner: StepRunner,
        permits: Permits,
        target: Callable[[], Target],
        plan: Callable[[], Plan],
    ) -> None:
        self.in_gangs = False
        """Whether this incident knows of gangs at all: those from before do not."""
        self.checkpoints: tuple[acts.JobCheckpoint, ...] = ()
        self._incident = incident
        self._runner = runner
        self._permits = permits
        self._target = target
        self._plan = plan
        self._jobs = gang.JobsOnNode()
        self._found_at: datetime | None = None
        self._held = False
        self._waits_no_more = False
        """A human said not to wait for the gangs' checkpoints."""
        self._joined: dict[str, gang.JobOnNode] = {}
        self._states: dict[str, gang.GangState] = {}
        self._first: dict[str, str] = {}
        self._waits: dict[str, Deadline] = {}
        """For each gang's checkpoint: what humans added to it."""

    # --- leave --------------------------------------------------------------------------------------------------------

    async def find(self) -> None:
        """See which jobs work on the node."""
        self._jobs = await self._runner.act(
            Step.DISRUPT,
            ActivityName.FIND_JOBS,
            lambda: gang.FindJobs(target=self._target(), rules=self._incident.policy.checkpoints),
            gang.JobsOnNode,
            says="Finding the jobs on the node.",
        )
        self._found_at = workflow.now()

    def last_attempts(self) -> str:
        """Jobs that this would end for good, where the policy wants a human to decide that; empty where none."""
        if self._incident.policy.checkpoints.last_attempt is not Otherwise.ASK:
            return ""
        return "; ".join(f"{job.job} would end for good ({job.why})" for job in self._jobs.jobs if job.ends)

    def pods(self) -> int:
        """How many pods work on the node."""
        return sum(job.pods for job in self._jobs.jobs)

    def attempts(self) -> str:
        """What each job has left, for whoever approves."""
        bounded = [job for job in self._jobs.jobs if job.attempts_left is not None]
        words = "; ".join(
            f"{job.job}: {counted(job.attempts_left or 0, 'attempt')} left ({job.why})" for job in bounded
        )
        return f"{words}." if words else ""

    async def hold(self) -> str:
        """Have leave to disturb the work, waiting for it as long as it takes. Returns what was got, in words."""
        if not self.in_gangs:
            await self._permits.hold(PermitKind.DISRUPTION, Step.DISRUPT)
        while self.in_gangs and not self._held:
            if not self._fresh:
                await self.find()
            known, idle = self._jobs.gangs, self._jobs.idle
            for number, job in enumerate(known):
                await self._join(job, covered=number > 0)
            if not known and not idle:
                await self._permits.hold(PermitKind.DISRUPTION, Step.DISRUPT)
            if not self._fresh:
                await self.find()
            self._held = _leave_for(known, idle=idle) == _leave_for(self._jobs.gangs, idle=self._jobs.idle)
            if not self._held:
                await self.give_back()
        return sentences.leave(self._jobs)

    @property
    def _fresh(self) -> bool:
        return self._found_at is not None and workflow.now() - self._found_at < _FRESH

    async def give_back(self) -> None:
        """Give the leave back: whatever waits for it may go on."""
        await self._permits.give_back(PermitKind.DISRUPTION)
        self._held = False
        joined, self._joined = self._joined, {}
        for job in joined.values():
            await self._leave(job, drained=False)
        self._states = {}

    async def _join(self, job: gang.JobOnNode, *, covered: bool) -> None:
        self._joined[job.job] = job
        await self._runner.act(
            Step.DISRUPT,
            ActivityName.JOIN_GANG,
            lambda: self._asking(job, covered=covered),
            gang.GangState,
            says=f"Asking for leave to disturb {job.job}, which runs on {job.nodes} nodes.",
            timing=PERMIT,
            restart_on_change=True,
            stand=Stand.QUEUED,
        )
        self._permits.spend_approval()

    async def _leave(self, job: gang.JobOnNode, *, drained: bool) -> None:
        request, member = self._request(job), self._member(covered=False)
        argument = gang.LeaveGang(
            cluster=request.cluster,
            job=request.job,
            uid=request.uid,
            member=member.key,
            drained=drained,
            tell=job.job not in self._states,
        )
        if left := await self._runner.afterwards(ActivityName.LEAVE_GANG, argument, _LEFT, job.job):
            self._keep(left.acts)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    async def released(self) -> None:
        """Wait until the gangs have seen to their checkpoints.

        Raises:
            StepSkipped: a human will not have them waited for; they are not waited for again.
        """
        for job in self._joined.values():
            if job.job in self._states or self._waits_no_more:
                continue
            try:
                await self._await(job)
            except StepSkipped:
                self._waits_no_more = True
                raise

    async def _await(self, job: gang.JobOnNode) -> None:
        state = await self._runner.act(
            Step.CHECKPOINT,
            ActivityName.AWAIT_GANG,
            lambda: self._asking(job, covered=False),
            gang.GangState,
            says=f"Waiting until {job.job} has saved a checkpoint.",
            timing=PERMIT,
            deadline=self._waits.setdefault(job.job, Deadline(self._incident.policy.deadlines.checkpoint)),
            restart_on_change=True,
            stand=Stand.WITH_GANG,
        )
        self._keep(state.acts)
        self._states[job.job] = state
        self._first[job.job] = state.first
        if state.checkpoint:
            seen = as_seen_by(state.checkpoint, self._member(covered=False))
            self.checkpoints = (*(item for item in self.checkpoints if item.job != job.job), seen)

    def _keep(self, done: tuple[ActRecord, ...]) -> None:
        """What the gang did in this node's name is in the node's report, once."""
        known = {(record.act, record.at) for record in self._incident.acts}
        for record in done:
            if (record.act, record.at) not in known:
                self._incident.keep_act(record)

    async def save_the_others(self, nonce: str) -> None:
        """Ask the jobs that have no part elsewhere. Nothing is done where none of them declares a checkpoint."""
        rules, deadline = self._incident.policy.checkpoints, Deadline(self._incident.policy.deadlines.checkpoint)
        gangs = {job.job for job in self._jobs.gangs}
        if self.in_gangs and not self._jobs.declared_alone:
            self.checkpoints += tuple(
                acts.JobCheckpoint(job=job.job, status=acts.CheckpointStatus.UNDECLARED)
                for job in self._jobs.jobs
                if job.job not in gangs
            )
            return

        # A gang's leave is its own: the gang's act spends it.
        permit = self._permits.request(PermitKind.DISRUPTION) if self._permits.held(PermitKind.DISRUPTION) else None

        def request() -> acts.RequestCheckpoints:
            plan = self._plan()
            return acts.RequestCheckpoints(
                target=self._target(),
                nonce=nonce,
                data=plan.data,
                device_resource=plan.device_resource,
                evidence_since=plan.evidence_since if plan.data is DataTrust.SUSPECT else None,
                deadline=deadline.now,
                ranks_alive=self._ranks_alive,
                # Whichever of its times a job is waited for, more was given to all of them.
                rules=rules.model_copy(
                    update={"urgent": deadline.of(rules.urgent), "longest": deadline.of(rules.longest)}
                ),
                leave_out=tuple(sorted(gangs)),
                permit=permit,
                extended=deadline.added,
            )

        answer = await self._runner.act(
            Step.CHECKPOINT,
            ActivityName.REQUEST_CHECKPOINTS,
            request,
            acts.Checkpoints,
            says="Asking the jobs on the node for a checkpoint.",
            deadline=deadline,
            restart_on_change=True,
        )
        self.checkpoints += answer.jobs

    def unsaved(self) -> str:
        """Jobs that saved nothing and whose owner, or the policy, wants a human to decide; empty where none."""
        return "; ".join(
            f"{item.job} saved nothing ({item.explanation})"
            for item in self.checkpoints
            if item.status is acts.CheckpointStatus.FAILED and item.otherwise is Otherwise.ASK
        )

    # --- afterwards ---------------------------------------------------------------------------------------------------

    async def announce(self) -> None:
        """Tell the jobs' owners what is about to happen: a job that starts again may read where to resume."""
        if self.in_gangs:
            await self._receipts(())
            for job in self._jobs.jobs:
                if job.unread:
                    self._incident.note(
                        f"{job.job} has no receipt: its object could not be read. See that it is there, and that the "
                        "worker may get and patch its kind."
                    )

    async def drained(self) -> None:
        """The work is gone from the node, or goes with it: tell the gangs."""
        if not self.in_gangs:
            return
        for job in self._joined.values():
            await self._leave(job, drained=True)

    async def follow(self) -> str:
        """Follow the jobs until they have passed their checkpoints. Returns what was seen; empty where nothing was."""
        mine = [item for item in self.checkpoints if self._is_mine(item)]
        if not mine:
            return ""
        await self.give_back()
        deadline = Deadline(self._incident.policy.checkpoints.resume)
        answer = await self._runner.watch(
            Step.CLOSE,
            ActivityName.FOLLOW_JOBS,
            lambda: gang.FollowJobs(
                target=self._target(),
                checkpoints=tuple(mine),
                ranks={job.job: job.ranks for job in self._jobs.jobs},
                deadline=deadline.now,
                evicted_at=drained.started_at if (drained := self._incident.steps.get(Step.DRAIN)) else None,
            ),
            gang.JobsFollowed,
            says="until the jobs have passed their checkpoints",
            deadline=deadline,
        )
        if answer is None or not answer.jobs:
            return ""
        for job in answer.jobs:
            if job.at_end:
                self._found_at_end(job.at_end)
        await self._receipts(answer.jobs)
        for job in answer.jobs:
            self._incident.facts[f"resumed {job.job}"] = sentences.followed(job)
        passed = sum(job.passed for job in answer.jobs)
        return f"{passed} of {counted(len(answer.jobs), 'job')} running again, past the checkpoint"

    def _found_at_end(self, found: acts.JobCheckpoint) -> None:
        """What a job saved when it was ended is known only now."""
        self.checkpoints = tuple(found if item.job == found.job else item for item in self.checkpoints)
        self._incident.facts[f"checkpoint {found.job}"] = sentences.checkpoint(found)
        self._incident.saved = tuple(map(saved_work, self.checkpoints))

    def _is_mine(self, checkpoint: acts.JobCheckpoint) -> bool:
        """Of a gang, the incident that joined first follows the job for all."""
        if checkpoint.status is acts.CheckpointStatus.UNDECLARED:
            return False
        first = self._first.get(checkpoint.job)
        return first is None or first == self._member(covered=False).key

    async def _receipts(self, followed: tuple[gang.FollowedJob, ...]) -> None:
        known = {job.job for job in followed}
        jobs = tuple(job for job in self._jobs.jobs if job.uid and (not followed or job.job in known))
        if not jobs:
            return
        finding = self._incident.findings[0]
        receipts = await self._runner.afterwards(
            ActivityName.WRITE_RECEIPTS,
            gang.WriteReceipts(
                target=self._target(),
                reason=finding.reason,
                device=finding.fields.get("device", ""),
                line=finding.message,
                jobs=jobs,
                checkpoints=self.checkpoints,
                followed=followed,
            ),
            gang.Receipts,
            "receipts on the jobs",
        )
        for missed in receipts.missed if receipts else ():
            self._incident.note(f"A job has no receipt: {missed}")

    # --- what they stand on -------------------------------------------------------------------------------------------

    def _asking(self, job: gang.JobOnNode, *, covered: bool) -> gang.JoinGang:
        extended = self._waits[job.job].added if job.job in self._waits else timedelta(0)
        member = self._member(covered=covered).model_copy(update={"extended": extended})
        return gang.JoinGang(request=self._request(job), member=member, nudges=self._permits.nudges)

    def _request(self, job: gang.JobOnNode) -> gang.GangRequest:
        policy = self._incident.policy
        return gang.GangRequest(
            cluster=self._incident.request.cluster,
            job=job.job,
            uid=job.uid,
            deadline=policy.deadlines.checkpoint,
            rules=policy.checkpoints,
        )

    def _member(self, *, covered: bool) -> gang.GangMember:
        plan = self._plan()
        return gang.GangMember(
            target=self._target(),
            data=plan.data,
            device_resource=plan.device_resource,
            evidence_since=plan.evidence_since if plan.data is DataTrust.SUSPECT else None,
            ranks_alive=self._ranks_alive,
            signature=self._incident.findings[0].signature,
            rule=self._incident.findings[0].rule,
            approval=self._permits.approval,
            covered=covered,
        )

    @property
    def _ranks_alive(self) -> bool:
        return all(finding.workload_alive for finding in self._incident.findings)


def _leave_for(gangs: tuple[gang.JobOnNode, ...], *, idle: bool) -> tuple[list[tuple[str, str]], bool]:
    """What leave is needed for. Where that changed while it was waited for, it is asked for anew."""
    return [(job.job, job.uid) for job in gangs], idle
