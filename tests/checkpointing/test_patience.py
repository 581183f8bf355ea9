"""How long a job is waited for, what makes an answer count, and what a checkpoint was worth: pure decisions."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.checkpoint_manifest import Checkpoint, FileEntry, incomplete, read_documents, read_lines, refused
from activities.patience import patience
from activities.saved import worth
from contract.acts import CheckpointStatus, JobCheckpoint
from contract.policy import CheckpointPolicy

RULES = CheckpointPolicy()
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
minutes = st.integers(1, 600).map(lambda n: timedelta(minutes=n))


@given(usual=minutes, alive=st.booleans(), unsaved=st.none() | minutes, declared=st.none() | minutes)
def test_wait_is_bounded_and_a_job_can_only_shorten_it(
    usual: timedelta, alive: bool, unsaved: timedelta | None, declared: timedelta | None
) -> None:
    most, why = patience(usual, RULES, ranks_alive=alive, unsaved=unsaved, declared=declared)
    assert timedelta(0) < most <= max(usual, RULES.longest)
    assert declared is None or most <= declared
    assert why


@given(usual=minutes, added=minutes, declared=st.none() | minutes)
def test_what_a_human_adds_is_waited_whatever_the_job_declares(
    usual: timedelta, added: timedelta, declared: timedelta | None
) -> None:
    before, _ = patience(usual, RULES, ranks_alive=True, unsaved=None, declared=declared)
    after, why = patience(usual + added, RULES, ranks_alive=True, unsaved=None, declared=declared, extended=added)
    assert after == before + added
    assert "that a human added" in why


@pytest.mark.parametrize(
    ("alive", "unsaved", "wanted"),
    [
        (True, timedelta(minutes=5), timedelta(minutes=10)),
        (True, None, timedelta(minutes=10)),
        (False, timedelta(minutes=5), RULES.urgent),
        (True, timedelta(hours=5), RULES.longest),
        (False, timedelta(hours=5), RULES.longest),
    ],
    ids=["usual", "unknown", "ranks ended", "much to lose", "ranks ended, and much to lose"],
)
def test_severity_shortens_and_value_stretches(alive: bool, unsaved: timedelta | None, wanted: timedelta) -> None:
    most, _ = patience(timedelta(minutes=10), RULES, ranks_alive=alive, unsaved=unsaved, declared=None)
    assert most == wanted


def answer(**changes: object) -> Checkpoint:
    return Checkpoint.model_validate({"nonce": "n", "step": 10, "uri": "x", "time": NOW, **changes})


def test_answer_counts_only_with_the_nonce_no_older_and_from_after_the_request() -> None:
    assert refused(answer(), "n", 10, NOW) == ""
    assert refused(answer(time=NOW - timedelta(seconds=30)), "n", 10, NOW) == "", "clocks are apart"
    assert "nonce" in refused(answer(nonce="m"), "n", 10, NOW)
    assert "older than step 11" in refused(answer(), "n", 11, NOW)
    assert "before it was asked" in refused(answer(time=NOW - timedelta(minutes=5)), "n", 10, NOW)


@given(sizes=st.lists(st.integers(0, 5), max_size=4), spoil=st.integers(0, 3), there=st.booleans())
def test_manifest_is_whole_only_if_every_file_is(sizes: list[int], spoil: int, there: bool) -> None:
    files = tuple(FileEntry(name=f"f{n}", size=size) for n, size in enumerate(sizes))
    measured: list[int | None] = list(sizes)
    assert incomplete(answer(files=files), measured) == ""
    if spoil < len(sizes):
        measured[spoil] = sizes[spoil] + 1 if there else None
        assert f"f{spoil}" in incomplete(answer(files=files), measured)


@given(text=st.text(st.characters(codec="ascii"), max_size=200))
def test_whatever_a_program_prints_is_read_or_named(text: str) -> None:
    read_lines(text)
    known = read_documents([text])
    assert known.checkpoints or known.standing or known.problem


def test_deeply_nested_document_is_named_and_breaks_nothing() -> None:
    assert "no checkpoint" in read_documents(["[" * 100_000]).problem


def test_file_name_that_leaves_the_folder_by_its_root_is_refused() -> None:
    document = '{"step": 1, "uri": "x", "time": "2026-12-01T12:00:00Z", "files": [{"name": "/etc/passwd", "size": 1}]}'
    assert not read_documents([document]).checkpoints


def checkpoint(status: CheckpointStatus, **changes: object) -> JobCheckpoint:
    return JobCheckpoint.model_validate({"job": "n/Job/x", "status": status, **changes})


def test_worth_of_a_saved_checkpoint_is_what_would_have_been_done_again() -> None:
    found = worth(
        checkpoint(
            CheckpointStatus.SAVED,
            step=1000,
            saved_at=NOW,
            previous_step=400,
            previous_at=NOW - timedelta(seconds=60),
            accelerators=64,
        )
    )
    assert (found.saved_steps, found.saved_accelerator_seconds, found.lost_steps) == (600, 3840.0, 0)
    assert "times 64 accelerators" in found.how


def test_worth_of_a_named_one_is_what_was_lost_since() -> None:
    found = worth(checkpoint(CheckpointStatus.NAMED, step=1000, previous_step=1500, stands_at=1720))
    assert (found.saved_steps, found.lost_steps) == (0, 720)


def test_what_is_not_known_is_not_made_up() -> None:
    found = worth(checkpoint(CheckpointStatus.FAILED))
    assert (found.saved_steps, found.saved_accelerator_seconds, found.lost_steps) == (None, None, None)
