"""The jobs that a failing node disturbs: which they are, whether they live, and one checkpoint for a whole gang."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.checkpoint_ask import AskedJob, Asking, Terms, is_running
from activities.checkpoint_declared import is_declared
from activities.checkpoint_talk import Talk
from activities.claim import claimed_node, mark_disrupting
from activities.cluster import Cluster, Json
from activities.gang_reader import gang_named, job_object, pods_of, read_attempts, restarted_at, why_dead
from activities.gangs import LABELLED, Gang, gang_of, is_work
from activities.waiting import go_on, report_progress
from contract.acts import LIST_MAX, CheckpointStatus
from contract.fault import DataTrust
from contract.gang import (
    FindJobs,
    GangCheckpoint,
    GangLook,
    GangMember,
    JobOnNode,
    JobsOnNode,
    LookAtGang,
    RequestGangCheckpoint,
)
from contract.names import ActivityName, ErrorType
from contract.permit import PermitRequest

_ASKING_AT_MOST_S: Final = 20.0
"""For all jobs of a node together: who cannot say in time that it hangs counts as alive."""
_NOT_OURS: Final = frozenset(
    {ErrorType.NODE_GONE, ErrorType.HUMAN_VETO, ErrorType.OWNED_BY_ANOTHER, ErrorType.FENCED_OUT}
)


class JobActivities:
    """The acts ``find_jobs``, ``look_at_gang`` and ``request_gang_checkpoint``."""

    def __init__(self, cluster: Cluster, spend: Callable[[PermitRequest], None], talk: Talk | None = None) -> None:
        """``spend`` raises when FleetBudget, as it is now, does not know the permit."""
        self._cluster = cluster
        self._spend = spend
        self._asking = Asking(cluster, talk or Talk(cluster))

    @activity.defn(name=ActivityName.FIND_JOBS, no_thread_cancel_exception=True)
    def find_jobs(self, argument: FindJobs) -> JobsOnNode:
        """Which jobs work on the node. One list, and two reads more for each job of a kind that has attempts.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``.
        """
        found: dict[Gang, list[Json]] = {}
        for pod in self._cluster.pods_on(argument.target.identity.node):
            if is_work(pod):
                found.setdefault(gang_of(pod), []).append(pod)
        jobs = [self._job(gang, pods) for gang, pods in sorted(found.items(), key=lambda item: item[0].job)]
        jobs = self._told_what_hangs(
            jobs, {gang.job: AskedJob(gang.job, tuple(found[gang])) for gang in found}, argument
        )
        jobs.sort(key=lambda job: (job.nodes <= 1, not job.declared))
        return JobsOnNode(jobs=tuple(jobs[:LIST_MAX]), jobs_total=len(jobs))

    def _job(self, gang: Gang, here: Sequence[Json]) -> JobOnNode:
        declared = any(is_declared(pod) for pod in here)
        if gang.kind is None:
            return JobOnNode(job=gang.job, declared=declared, pods=len(here), ranks=len(here))
        job = job_object(self._cluster, gang)
        left = read_attempts(self._cluster, gang, job, here)
        members = [pod for pod in pods_of(self._cluster, gang) if is_work(pod)] if gang.gang else list(here)
        nodes = len({pod["spec"].get("nodeName") for pod in members} - {None})
        return JobOnNode(
            job=gang.job,
            uid=job["metadata"]["uid"] if job else "",
            declared=declared,
            pods=len(here),
            nodes=max(1, nodes),
            ranks=sum(is_running(pod) for pod in members),
            attempts_left=left.left,
            ends=left.ends,
            why=left.why,
            idle=why_dead(job, here) if nodes <= 1 else "",
            unread=job is None and gang.kind is not LABELLED,
        )

    def _told_what_hangs(
        self, jobs: list[JobOnNode], asked: dict[str, AskedJob], argument: FindJobs
    ) -> list[JobOnNode]:
        """With those that take no step named, where nothing else works on the node: else nobody needs to know."""
        working = [job for job in jobs if not job.idle]
        if any(job.nodes > 1 or not job.declared for job in working):
            return jobs
        known = Terms(
            nonce="",
            data=DataTrust.TRUSTED,
            device_resource=None,
            evidence_since=None,
            asked_at=activity.info().scheduled_time,
            usual=timedelta(0),
            rules=argument.rules,
            failing=frozenset({argument.target.identity.node}),
        )
        hung: dict[str, str] = {}
        until = time.monotonic() + _ASKING_AT_MOST_S
        for job in working:
            if time.monotonic() > until or not (why := self._asking.why_hung(asked[job.job], known)):
                break
            hung[job.job] = why
        return [job.model_copy(update={"idle": job.idle or hung.get(job.job, "")}) for job in jobs]

    @activity.defn(name=ActivityName.LOOK_AT_GANG, no_thread_cancel_exception=True)
    def look_at_gang(self, argument: LookAtGang) -> GangLook:
        """Whether the job has work to disturb. One that is dead needs no permission to be so.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``.
        """
        gang = gang_named(argument.request.job)
        pods = pods_of(self._cluster, gang)
        ranks = sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)
        job = job_object(self._cluster, gang)
        if dead := why_dead(job, pods):
            return GangLook(alive=False, explanation=dead, ranks=ranks)
        working = tuple(pod for pod in pods if is_work(pod))
        if hung := self._asking.why_hung(AskedJob(argument.request.job, working), terms(argument, argument.members)):
            return GangLook(alive=True, explanation=hung, ranks=ranks, hung=True)
        says = f"{ranks} of its pods run"
        return GangLook(alive=True, explanation=says, ranks=ranks, restarted_at=restarted_at(job, pods))

    @activity.defn(name=ActivityName.REQUEST_GANG_CHECKPOINT, no_thread_cancel_exception=True)
    def request_gang_checkpoint(self, argument: RequestGangCheckpoint) -> GangCheckpoint:
        """Ask the job for one checkpoint, in the name of all its failing nodes that are still ours.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``, or ``PermitQueued``.
        """
        request = argument.request
        if argument.permit:
            # The first act that disturbs the job: since the permit was granted, FleetBudget may have been terminated.
            self._spend(argument.permit)
        members = [member for member in argument.members if self._is_ours(member)]
        if not members:
            return GangCheckpoint(
                job=request.job,
                status=CheckpointStatus.DEAD,
                explanation="no failing node of it is claimed by an incident any more",
            )
        gang = gang_named(request.job)
        pods = tuple(pod for pod in pods_of(self._cluster, gang) if is_work(pod))
        if dead := why_dead(job_object(self._cluster, gang), pods):
            return GangCheckpoint(job=request.job, status=CheckpointStatus.DEAD, explanation=dead)
        for member in members:
            mark_disrupting(self._cluster, member.target)
        go_on()
        report_progress({"job": request.job, "ranks": len(pods), "failing": len(members)})
        found = self._asking.see_to(AskedJob(request.job, pods), terms(argument, members))
        return GangCheckpoint.model_validate(found.model_dump())

    def _is_ours(self, member: GangMember) -> bool:
        try:
            claimed_node(self._cluster, member.target)
        except ApplicationError as error:
            if error.type in _NOT_OURS:
                return False
            raise
        return True


def terms(argument: RequestGangCheckpoint | LookAtGang, members: Sequence[GangMember]) -> Terms:
    """The worst of what the members' faults say: one suspect device spoils the job, one dead rank stops it."""
    suspect = [member for member in members if member.data is DataTrust.SUSPECT]
    resources = {member.device_resource for member in suspect}
    asking = argument if isinstance(argument, RequestGangCheckpoint) else None
    return Terms(
        nonce=asking.nonce if asking else "",
        data=DataTrust.SUSPECT if suspect else DataTrust.TRUSTED,
        device_resource=resources.pop() if len(resources) == 1 else None,
        evidence_since=min((m.evidence_since for m in suspect if m.evidence_since), default=None),
        asked_at=(asking and asking.asked_at) or activity.info().scheduled_time,
        extended=asking.extended if asking else timedelta(0),
        usual=argument.request.deadline,
        rules=argument.request.rules,
        failing=frozenset(member.target.identity.node for member in (suspect or members)),
        ranks_alive=all(member.ranks_alive for member in members),
    )
