"""The receipt: an Event and an annotation on the job itself, for its owner's question "why did I restart?"."""

import json
from datetime import UTC, datetime
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.cluster import Cluster, Json
from activities.gang_reader import gang_named, job_object
from activities.saved import worth
from contract.acts import LIST_MAX, CheckpointStatus, JobCheckpoint
from contract.gang import FollowedJob, JobOnNode, Receipts, WriteReceipts
from contract.names import RECEIPT_ANNOTATION, ActivityName, ErrorType

_LINE_MAX: Final = 300


class ReceiptActivity:
    """The act ``write_receipts``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @activity.defn(name=ActivityName.WRITE_RECEIPTS, no_thread_cancel_exception=True)
    def write_receipts(self, argument: WriteReceipts) -> Receipts:
        """Write each job's receipt, once before and once after it was followed. Writing it again changes nothing.

        Raises:
            ApplicationError: ``Unreachable``. A missing right is no error: the answer says what is missing.
        """
        checkpoints = {item.job: item for item in argument.checkpoints}
        followed = {item.job: item for item in argument.followed}
        written, missed = [], []
        for job in argument.jobs:
            gang = gang_named(job.job)
            thing = job_object(self._cluster, gang)
            if gang.kind is None or thing is None or thing["metadata"]["uid"] != job.uid:
                continue
            try:
                self._write(argument, thing, job, checkpoints.get(job.job), followed.get(job.job))
            except ApplicationError as error:
                if error.type != ErrorType.ACCESS_DENIED:
                    raise
                missed.append(f"{job.job}: {error.message}"[:_LINE_MAX])
            else:
                written.append(job.job)
        return Receipts(written=tuple(written[:LIST_MAX]), missed=tuple(missed[:LIST_MAX]))

    def _write(
        self,
        argument: WriteReceipts,
        thing: Json,
        job: JobOnNode,
        checkpoint: JobCheckpoint | None,
        followed: FollowedJob | None,
    ) -> None:
        gang, fence = gang_named(job.job), argument.target.fence
        assert gang.kind is not None
        receipt = _receipt(argument, job, checkpoint, followed)
        metadata = thing["metadata"]
        self._cluster.patch(
            gang.kind.path(metadata["namespace"], metadata["name"]),
            {"metadata": {"annotations": {RECEIPT_ANNOTATION: json.dumps(receipt, ensure_ascii=False)}}},
            f"patch {gang.kind.resource}",
        )
        self._cluster.record_event(
            {"apiVersion": gang.kind.api, "kind": thing.get("kind", gang.kind.kind), **thing},
            "NodeRepaired" if followed else "NodeFailed",
            sentence(argument, job, checkpoint, followed),
            key=f"{fence.run_id[:13]}-{'after' if followed else 'before'}",
            warning=not followed,
        )


def sentence(
    argument: WriteReceipts, job: JobOnNode, checkpoint: JobCheckpoint | None, followed: FollowedJob | None
) -> str:
    """The receipt in words."""
    identity = argument.target.identity
    device = f" ({argument.device})" if argument.device else ""
    parts = [
        f"{job.pods} of its pods are moved off Node {identity.node}{device}, which failed: {argument.reason}.",
        f"Kernel: {argument.line[:_LINE_MAX]}",
    ]
    if checkpoint and checkpoint.step is not None:
        parts.append(f"It resumes from step {checkpoint.step} ({checkpoint.uri}, {checkpoint.status}).")
        if checkpoint.suspect:
            parts.append(f"{checkpoint.suspect} later ones are suspect: do not resume from them.")
        if checkpoint.kept:
            parts.append(f"It is {checkpoint.kept}.")
    elif checkpoint:
        parts.append(f"Checkpoint: {checkpoint.status}. {checkpoint.explanation}")
    if checkpoint and (value := worth(checkpoint)).saved_steps is not None:
        seconds = value.saved_accelerator_seconds
        kept = f", {seconds:.0f} accelerator-seconds" if seconds else ""
        parts.append(f"Saved {value.saved_steps} steps{kept}; lost {value.lost_steps} ({value.how}).")
    if followed:
        parts.append(f"Now: {followed.explanation}.")
    left = "not bounded or not known" if job.attempts_left is None else str(job.attempts_left)
    parts.append(f"Attempts left before this: {left} ({job.why}). Incident {argument.target.fence.incident_id}.")
    return " ".join(parts)


def _receipt(
    argument: WriteReceipts, job: JobOnNode, checkpoint: JobCheckpoint | None, followed: FollowedJob | None
) -> Json:
    value = worth(checkpoint) if checkpoint else None
    return {
        "incident": argument.target.fence.incident_id,
        "node": argument.target.identity.node,
        "instance": argument.target.identity.instance_id,
        "reason": argument.reason,
        "device": argument.device,
        "line": argument.line[:_LINE_MAX],
        "checkpoint": checkpoint.status if checkpoint else CheckpointStatus.UNDECLARED,
        "step": checkpoint.step if checkpoint else None,
        "uri": checkpoint.uri if checkpoint else "",
        "suspect": checkpoint.suspect if checkpoint else 0,
        "kept": checkpoint.kept if checkpoint else "",
        "saved_steps": value.saved_steps if value else None,
        "saved_accelerator_seconds": value.saved_accelerator_seconds if value else None,
        "lost_steps": value.lost_steps if value else None,
        "attempts_left": job.attempts_left,
        "resumed": followed.resumed if followed else None,
        "passed_checkpoint": followed.passed if followed else None,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
