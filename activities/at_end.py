"""Whether a job that saves when it is ended (mode ``sigterm``) has done so: looked at once it was ended. Pure."""

from datetime import datetime, timedelta
from typing import Final

from activities.checkpoint_declared import CheckpointMode
from activities.checkpoint_manifest import Known
from contract.checkpoints import CheckpointStatus, JobCheckpoint

_SKEW: Final = timedelta(minutes=1)
"""How far the clocks of a job and of a worker may be apart."""
_START_TO_SECOND: Final = timedelta(seconds=1)
"""Kubernetes cuts the time at which a pod started to the second."""


def saves_at_end(checkpoint: JobCheckpoint) -> bool:
    """Whether its owner has it save when it is ended: as long as it is, or for too short a time."""
    by_itself = checkpoint.status in (CheckpointStatus.AT_END, CheckpointStatus.FAILED)
    return checkpoint.mode == CheckpointMode.SIGTERM and by_itself


def saved_at_end(
    checkpoint: JobCheckpoint, known: Known, evicted_at: datetime, resumed_at: datetime | None
) -> JobCheckpoint | None:
    """The checkpoint as its manifest has it; None where there is none from when it was ended.

    Args:
        checkpoint: what was known before.
        known: its manifests as they are now, whole ones alone.
        evicted_at: when the eviction of its pods began.
        resumed_at: when the first pod since then has started: from then on it saves as a job that works.
    """
    end = None if resumed_at is None else resumed_at + _START_TO_SECOND
    from_then = [
        item
        for item in known.checkpoints
        if item.time >= evicted_at - _SKEW
        and (end is None or item.time < end)
        and (checkpoint.saved_at is None or item.time > checkpoint.saved_at)
        and item.step >= (checkpoint.step or 0)
    ]
    last = max(from_then, key=lambda item: (item.time, item.step), default=None)
    if last is None:
        return None
    return checkpoint.model_copy(
        update={
            "status": CheckpointStatus.SAVED,
            "step": last.step,
            "uri": last.uri,
            "saved_at": last.time,
            "proof": known.proof.value,
            "previous_step": checkpoint.step,
            "previous_at": checkpoint.saved_at,
            "explanation": "saved when it was ended",
        }
    )


def saved_nothing_at_end(checkpoint: JobCheckpoint, known: Known) -> JobCheckpoint:
    """The same where it runs again and no manifest is from when it was ended."""
    before = f"; the newest from before is step {checkpoint.step}" if checkpoint.step is not None else ""
    why = f"it was to save when it was ended, and left no whole manifest{before}"
    if known.problem:
        why += f" ({known.problem})"
    if checkpoint.status is CheckpointStatus.FAILED:
        why += f"; {checkpoint.explanation}"
    return checkpoint.model_copy(update={"status": CheckpointStatus.FAILED, "explanation": why[:500]})
