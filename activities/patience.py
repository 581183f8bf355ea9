"""How long a job's answer is waited for: the fault's severity against what waiting can save. Pure."""

from datetime import timedelta

from contract.policy import CheckpointPolicy


def patience(
    usual: timedelta,
    rules: CheckpointPolicy,
    *,
    ranks_alive: bool,
    unsaved: timedelta | None,
    declared: timedelta | None,
    extended: timedelta = timedelta(0),
) -> tuple[timedelta, str]:
    """How long, and why in words.

    Args:
        usual: the policy's deadline for checkpoints.
        rules: the policy's rules about them.
        ranks_alive: whether the fault leaves the ranks on its node alive; a job that has lost one stands still.
        unsaved: how old the job's newest checkpoint is, or the job where it has none; None where nobody knows.
        declared: what the job itself says it needs; it can shorten the wait and not stretch it.
        extended: what a human added to all the others already: the job's own time moves as far.
    """
    if unsaved is not None and unsaved >= rules.overdue_after:
        most, why = max(usual, rules.longest), f"it has saved nothing for {_hours(unsaved)}"
    elif not ranks_alive:
        most, why = min(usual, rules.urgent), "the fault has ended its ranks on the node: only survivors answer"
    else:
        most, why = usual, "the policy's usual deadline"
    if declared is not None and declared + extended < most:
        most, why = declared + extended, "its own declared timeout"
    if extended:
        why += f", with {_minutes(extended)} that a human added"
    return most, why


def _hours(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 3600:.1f} h"


def _minutes(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 60:.0f} min"
