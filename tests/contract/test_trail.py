"""An act's trail is bounded whatever the act does, and never says less than that something was left out."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from contract.trail import FAILED_MAX, WRITES_MAX, ExternalWrite, FailedAttempt, System, Trail

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def write(thing: str, status: int = 200, request_id: str = "") -> ExternalWrite:
    return ExternalWrite(
        at=NOW, system=System.AWS, verb="ec2:RebootInstances", object=thing, status=status, request_id=request_id
    )


def test_the_same_call_with_the_same_answer_is_one_line_with_a_count() -> None:
    trail = Trail().wrote(write("i-1", 429, "a")).wrote(write("i-1", 429, "b")).wrote(write("i-1", 200, "c"))
    assert [(one.status, one.times, one.request_id) for one in trail.writes] == [(429, 2, "b"), (200, 1, "c")]


def test_a_failure_repeated_is_one_line_with_a_count() -> None:
    trail = Trail()
    for number in (1, 2, 3):
        trail = trail.failing(FailedAttempt(number=number, at=NOW, error="throttled"))
    assert [(one.number, one.times) for one in trail.failed] == [(3, 3)]
    assert trail.failed_total == 3


@given(things=st.lists(st.text(max_size=5), max_size=120), errors=st.lists(st.text(max_size=5), max_size=40))
def test_what_does_not_fit_is_counted(things: list[str], errors: list[str]) -> None:
    trail = Trail()
    for thing in things:
        trail = trail.wrote(write(thing))
    for number, error in enumerate(errors, start=1):
        trail = trail.failing(FailedAttempt(number=number, at=NOW, error=error))
    assert len(trail.writes) <= WRITES_MAX
    assert trail.writes_total == len(things)
    assert len(trail.failed) <= FAILED_MAX
    assert trail.failed_total == len(errors)


@given(things=st.lists(st.text(max_size=200), max_size=60), size=st.integers(min_value=200, max_value=4000))
def test_it_fits_into_a_failure(things: list[str], size: int) -> None:
    trail = Trail()
    for thing in things:
        trail = trail.wrote(write(thing))
    assert len(trail.within(size).model_dump_json().encode()) <= size
    assert trail.within(size).writes_total == len(things)
