"""After the repair: each job is followed until it runs again and has passed its checkpoint (V13), bounded."""

from datetime import datetime
from typing import Final

from temporalio import activity

from activities.at_end import saved_at_end, saved_nothing_at_end, saves_at_end
from activities.attempts import has_ended
from activities.checkpoint_ask import is_running
from activities.checkpoint_declared import declaration_of, is_declared
from activities.checkpoint_talk import Talk
from activities.cluster import Cluster, Json
from activities.gang_reader import gang_named, job_object, pods_of
from activities.saved import worth
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import JobCheckpoint
from contract.gang import FollowedJob, FollowJobs, JobsFollowed
from contract.names import ActivityName
from contract.words import counted

_LOOK_EVERY_S: Final = 5.0


class FollowActivity:
    """The act ``follow_jobs``."""

    def __init__(self, cluster: Cluster, talk: Talk | None = None) -> None:
        self._cluster = cluster
        self._talk = talk or Talk(cluster)

    @activity.defn(name=ActivityName.FOLLOW_JOBS, no_thread_cancel_exception=True)
    def follow_jobs(self, argument: FollowJobs) -> JobsFollowed:
        """Look until every job is past its checkpoint, has ended, or time is up. It fails for none of them.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``.
        """
        end = deadline(argument.deadline)
        while True:
            go_on()
            seen = [
                self._look(item, argument.ranks.get(item.job, 1), argument.evicted_at) for item in argument.checkpoints
            ]
            report_progress({job.job: job.explanation for job in seen})
            if overdue(end) or all(job.passed for job in seen):
                return JobsFollowed(jobs=tuple(seen))
            pause(_LOOK_EVERY_S)

    def _look(self, checkpoint: JobCheckpoint, ranks: int, evicted_at: datetime | None) -> FollowedJob:
        gang = gang_named(checkpoint.job)
        job = job_object(self._cluster, gang)
        pods = pods_of(self._cluster, gang)
        running = [pod for pod in pods if is_running(pod)]
        at_end = None
        if evicted_at and saves_at_end(checkpoint):
            at_end = self._at_end(checkpoint, pods, evicted_at, resumed=len(running) >= ranks)
            checkpoint = at_end or checkpoint
        value = worth(checkpoint)
        followed = FollowedJob(
            job=checkpoint.job,
            resumed=len(running) >= ranks,
            saved_steps=value.saved_steps,
            saved_accelerator_seconds=value.saved_accelerator_seconds,
            lost_steps=value.lost_steps,
            at_end=at_end,
        )
        if job is not None and (ended := has_ended(job)):
            return followed.model_copy(update={"passed": True, "explanation": f"it has ended: {ended}"})
        if not followed.resumed:
            return followed.model_copy(
                update={"explanation": f"{len(running)} of its {counted(ranks, 'pod runs', 'pods run')} again"}
            )
        goal = checkpoint.step if checkpoint.step is not None else checkpoint.previous_step
        speaker = _speaker(running)
        if speaker is None or goal is None:
            words = f"all {ranks} pods run again; it tells no step"
            return followed.model_copy(update={"passed": True, "explanation": words})
        try:
            known = self._talk.known(speaker, declaration_of(speaker))
        except ValueError as error:
            return followed.model_copy(update={"passed": True, "explanation": str(error)})
        newest = known.newest
        at = known.standing.at if known.standing else newest.step if newest else None
        passed = at is not None and at > goal
        words = f"all {ranks} pods run again; it is at step {at}, and its checkpoint was step {goal}"
        return followed.model_copy(update={"passed": passed, "at": at, "explanation": words})

    def _at_end(
        self, checkpoint: JobCheckpoint, pods: list[Json], evicted_at: datetime, *, resumed: bool
    ) -> JobCheckpoint | None:
        """What a job saved when it was ended: from S3, or from its folder through a pod that lives on or came anew."""
        speaker = _speaker([pod for pod in pods if is_running(pod)]) or _speaker(pods)
        if speaker is None:
            return None
        try:
            declared = declaration_of(speaker)
        except ValueError:
            return None
        if not is_running(speaker) and not declared.manifests.startswith("s3://"):
            return None
        known = self._talk.known(speaker, declared)
        started = (
            datetime.fromisoformat(at) for pod in pods if is_running(pod) and (at := pod["status"].get("startTime"))
        )
        resumed_at = min((moment for moment in started if moment >= evicted_at), default=None)
        found = saved_at_end(checkpoint, known, evicted_at, resumed_at)
        return found or (saved_nothing_at_end(checkpoint, known) if resumed else None)


def _speaker(pods: list[Json]) -> Json | None:
    """The pod whose declaration counts and through which its files are read."""
    return min((pod for pod in pods if is_declared(pod)), key=lambda pod: str(pod["metadata"]["name"]), default=None)
