"""After the repair: each job is followed until it runs again and has passed its checkpoint (V13), bounded."""

from typing import Final

from temporalio import activity

from activities.attempts import has_ended
from activities.checkpoint_ask import is_running
from activities.checkpoint_declared import declaration_of, is_declared
from activities.checkpoint_talk import Talk
from activities.cluster import Cluster
from activities.gang_reader import gang_named, job_object, pods_of
from activities.saved import worth
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import JobCheckpoint
from contract.gang import FollowedJob, FollowJobs, JobsFollowed
from contract.names import ActivityName

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
            seen = [self._look(item, argument.ranks.get(item.job, 1)) for item in argument.checkpoints]
            report_progress({job.job: job.explanation for job in seen})
            if overdue(end) or all(job.passed for job in seen):
                return JobsFollowed(jobs=tuple(seen))
            pause(_LOOK_EVERY_S)

    def _look(self, checkpoint: JobCheckpoint, ranks: int) -> FollowedJob:
        gang = gang_named(checkpoint.job)
        job = job_object(self._cluster, gang)
        running = [pod for pod in pods_of(self._cluster, gang) if is_running(pod)]
        value = worth(checkpoint)
        followed = FollowedJob(
            job=checkpoint.job,
            resumed=len(running) >= ranks,
            saved_steps=value.saved_steps,
            saved_accelerator_seconds=value.saved_accelerator_seconds,
            lost_steps=value.lost_steps,
        )
        if job is not None and (ended := has_ended(job)):
            return followed.model_copy(update={"passed": True, "explanation": f"it has ended: {ended}"})
        if not followed.resumed:
            return followed.model_copy(update={"explanation": f"{len(running)} of its {ranks} pods run again"})
        goal = checkpoint.step if checkpoint.step is not None else checkpoint.previous_step
        speaker = min((pod for pod in running if is_declared(pod)), key=lambda p: p["metadata"]["name"], default=None)
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
