"""A job that saves when it is ended (``sigterm``): believed only once its manifest from then was seen, whole."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.at_end import saved_at_end, saved_nothing_at_end, saves_at_end
from activities.checkpoint_manifest import Checkpoint, Known, Proof
from activities.saved import worth
from contract.checkpoints import CheckpointStatus, JobCheckpoint

ENDED = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
AGAIN = ENDED + timedelta(minutes=5)
BEFORE = JobCheckpoint(
    job="n/Job/train",
    mode="sigterm",
    status=CheckpointStatus.AT_END,
    step=500,
    saved_at=ENDED - timedelta(minutes=10),
    accelerators=4,
)


def known(*checkpoints: tuple[int, timedelta], problem: str = "") -> Known:
    found = tuple(Checkpoint(step=step, uri=f"c/{step}", time=ENDED + after) for step, after in checkpoints)
    return Known(found, proof=Proof.FILE, problem=problem)


def test_what_it_saved_when_it_was_ended_is_saved_with_its_proof_and_its_worth() -> None:
    found = saved_at_end(BEFORE, known((500, -timedelta(minutes=10)), (730, timedelta(seconds=8))), ENDED, AGAIN)
    assert found is not None
    assert (found.status, found.step, found.proof) == (CheckpointStatus.SAVED, 730, "file")
    assert worth(found).saved_steps == 230


@pytest.mark.parametrize(
    ("step", "after"),
    [(500, timedelta(minutes=-10)), (499, timedelta(seconds=8)), (900, timedelta(minutes=9))],
    ids=["the one from before", "an older step", "saved by the job that runs again"],
)
def test_what_is_not_from_its_end_is_no_proof(step: int, after: timedelta) -> None:
    assert saved_at_end(BEFORE, known((step, after)), ENDED, AGAIN) is None


@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(-1200, 1200)), max_size=6),
    st.none() | st.integers(1, 1200),
    st.booleans(),
)
def test_whatever_manifests_there_are_it_never_goes_back_and_never_takes_the_next_life_s(
    entries: list[tuple[int, int]], resumed: int | None, fresh: bool
) -> None:
    before = BEFORE.model_copy(update={"step": None, "saved_at": None}) if fresh else BEFORE
    resumed_at = None if resumed is None else ENDED + timedelta(seconds=resumed)
    there = known(*((step, timedelta(seconds=after)) for step, after in entries))
    found = saved_at_end(before, there, ENDED, resumed_at)
    if found is not None:
        assert found.step is not None
        assert found.saved_at is not None
        assert found.step >= (before.step or 0)
        assert found.saved_at >= ENDED - timedelta(minutes=1)
        assert resumed_at is None or found.saved_at < resumed_at + timedelta(seconds=1)


def test_half_a_manifest_is_told() -> None:
    found = saved_nothing_at_end(BEFORE, known(problem="its manifest of step 730 promises a.bin with 9 bytes"))
    assert found.status is CheckpointStatus.FAILED
    assert "left no whole manifest; the newest from before is step 500" in found.explanation
    assert "promises a.bin" in found.explanation


def test_grace_period_that_was_too_short_is_told_again_with_what_came_of_it() -> None:
    short = BEFORE.model_copy(
        update={"status": CheckpointStatus.FAILED, "explanation": "raise terminationGracePeriodSeconds"}
    )
    assert saves_at_end(short)
    assert "raise terminationGracePeriodSeconds" in saved_nothing_at_end(short, known()).explanation


@pytest.mark.parametrize(("mode", "status"), [("exec", CheckpointStatus.FAILED), ("sigterm", CheckpointStatus.NAMED)])
def test_others_are_not_looked_at_again(mode: str, status: CheckpointStatus) -> None:
    """Of a job whose data is suspect, what it saves when it is ended is suspect as well."""
    assert not saves_at_end(BEFORE.model_copy(update={"mode": mode, "status": status}))
