"""What a checkpoint was worth: steps and accelerator-seconds kept and lost, and how that is computed. Pure."""

from dataclasses import dataclass

from contract.acts import CheckpointStatus, JobCheckpoint
from contract.incident import SavedWork


@dataclass(frozen=True)
class Worth:
    """Of one job's checkpoint. None where nobody knows."""

    saved_steps: int | None = None
    saved_accelerator_seconds: float | None = None
    lost_steps: int | None = None
    how: str = ""


def worth(checkpoint: JobCheckpoint) -> Worth:
    """Steps between the checkpoint that was asked for and the one before, which would have been done again."""
    match checkpoint.status:
        case CheckpointStatus.SAVED if checkpoint.step is not None and checkpoint.previous_step is not None:
            steps = checkpoint.step - checkpoint.previous_step
            seconds = None
            how = f"step {checkpoint.step} less step {checkpoint.previous_step}, which it had before"
            if checkpoint.saved_at and checkpoint.previous_at and checkpoint.accelerators:
                apart = (checkpoint.saved_at - checkpoint.previous_at).total_seconds()
                seconds = max(0.0, apart) * checkpoint.accelerators
                how += f"; {apart:.0f} s between the two, times {checkpoint.accelerators} accelerators"
            return Worth(steps, seconds, 0, how)
        case CheckpointStatus.NAMED if checkpoint.step is not None and checkpoint.previous_step is not None:
            newest = max(checkpoint.previous_step, checkpoint.stands_at or 0)
            return Worth(0, 0.0, newest - checkpoint.step, f"step {newest}, where it was, less step {checkpoint.step}")
        case _ if checkpoint.stands_at is not None and checkpoint.previous_step is not None:
            lost = max(0, checkpoint.stands_at - checkpoint.previous_step)
            how = f"step {checkpoint.stands_at}, where it was, less step {checkpoint.previous_step}, its newest saved"
            return Worth(0, 0.0, lost, how)
        case _:
            return Worth(how="it told too little to compute what was saved")


def saved_work(checkpoint: JobCheckpoint) -> SavedWork:
    """The same, for the report."""
    value = worth(checkpoint)
    return SavedWork(
        job=checkpoint.job,
        status=checkpoint.status,
        saved_steps=value.saved_steps,
        saved_accelerator_seconds=value.saved_accelerator_seconds,
        lost_steps=value.lost_steps,
        how=value.how,
    )
