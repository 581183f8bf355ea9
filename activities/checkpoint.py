"""Asking the jobs on a node for a checkpoint before their pods are evicted (``docs/checkpointing.md``)."""

import contextvars
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from temporalio import activity

from activities.checkpoint_ask import AskedJob, Asking, Terms
from activities.checkpoint_talk import Talk
from activities.claim import mark_disrupting
from activities.cluster import Cluster, Json
from activities.gangs import gang_of, is_work
from activities.waiting import go_on, report_progress
from contract.acts import LIST_MAX, Checkpoints, CheckpointStatus, JobCheckpoint, RequestCheckpoints
from contract.names import ActivityName
from contract.permit import PermitRequest

_AT_ONCE: Final = 8
"""Jobs that are asked at the same time: one that hangs must not use up the others' time."""


class CheckpointActivity:
    """The act ``request_checkpoints``."""

    def __init__(self, cluster: Cluster, spend: Callable[[PermitRequest], None], talk: Talk | None = None) -> None:
        """``spend`` raises when FleetBudget, as it is now, does not know the permit."""
        self._cluster = cluster
        self._spend = spend
        self._asking = Asking(cluster, talk or Talk(cluster))

    @activity.defn(name=ActivityName.REQUEST_CHECKPOINTS, no_thread_cancel_exception=True)
    def request_checkpoints(self, argument: RequestCheckpoints) -> Checkpoints:
        """Ask each job on the node once, or name its last checkpoint that can be believed.

        A job that gives no valid answer in time is reported as such and does not stop the drain: its hardware fails.

        Raises:
            ApplicationError: what ``claimed_node`` says, or ``PermitQueued``.
        """
        if argument.permit:
            # The first act that disturbs work: since the permit was granted, FleetBudget may have been terminated.
            self._spend(argument.permit)
        mark_disrupting(self._cluster, argument.target)
        node = argument.target.identity.node
        jobs = [job for job in group_by_job(self._cluster.pods_on(node)) if job.name not in argument.leave_out]
        terms = Terms(
            nonce=argument.nonce,
            data=argument.data,
            device_resource=argument.device_resource,
            evidence_since=argument.evidence_since,
            asked_at=activity.info().scheduled_time,
            extended=argument.extended,
            usual=argument.deadline,
            rules=argument.rules,
            failing=frozenset({node}),
            ranks_alive=argument.ranks_alive,
        )
        go_on()
        report_progress({"jobs": [job.name for job in jobs[:LIST_MAX]], "of": len(jobs)})
        results = self._all(jobs, terms)
        order = list(CheckpointStatus)
        results.sort(key=lambda result: order.index(result.status))
        return Checkpoints(jobs=tuple(results[:LIST_MAX]), jobs_total=len(results))

    def _all(self, jobs: list[AskedJob], terms: Terms) -> list[JobCheckpoint]:
        # Each thread takes the act's context along: it is how the act is told that it is no longer wanted.
        with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="ask") as executor:
            asked = [executor.submit(contextvars.copy_context().run, self._asking.see_to, job, terms) for job in jobs]
            return [answer.result() for answer in asked]


def group_by_job(pods: Iterable[Json]) -> list[AskedJob]:
    """The jobs on a node: pods that work, by their job. DaemonSets and finished pods are no jobs."""
    found: dict[str, list[Json]] = {}
    for pod in pods:
        if is_work(pod):
            found.setdefault(gang_of(pod).job, []).append(pod)
    return [AskedJob(name, tuple(members)) for name, members in sorted(found.items())]
