"""What is remembered of a finding, by which number, and who may tell it: pure decisions."""

import json

from hypothesis import given
from hypothesis import strategies as st

from detector.cluster.election import Seen, may_take
from detector.cluster.ledger import Subject, decoded, encoded
from detector.cluster.tracks import Track, follow, sequence
from tests.watching_cluster.deciding import (
    NOW,
    deadlock,
)


@given(st.floats(min_value=0, max_value=4e9), st.text(max_size=40), st.text(max_size=40))
def test_numbers_grow_with_time_and_every_json_reader_keeps_them(when: float, uid: str, subject: str) -> None:
    number = sequence(uid, subject, when)
    assert 0 <= number < 2**53
    assert sequence(uid, subject, when + 1) > number


def test_two_findings_of_one_second_have_two_numbers() -> None:
    assert sequence("uid", "a", NOW) != sequence("uid", "b", NOW)
    assert sequence("uid", "a", NOW) != sequence("uid-2", "a", NOW)


def test_track_is_counted_up_by_another_transition() -> None:
    _, sighting = deadlock()
    first = follow(None, "uid-1", sighting, NOW)
    second = follow(first, "uid-1", sighting._replace(transition="later", since=NOW + 5), NOW + 5)
    assert (first.times, second.times, second.seq) == (1, 2, first.seq)
    assert second.last_seq > first.last_seq


def test_key_of_the_ledger_is_valid_for_every_node() -> None:
    key = Subject("n" * 253, "uid", "taint/example.com/x=y").key
    assert len(key) <= 253
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_n")


@given(st.text() | st.dictionaries(st.text(), st.integers() | st.text()).map(json.dumps))
def test_ledger_that_cannot_be_read_is_as_if_it_were_not_there(text: str) -> None:
    assert decoded(text) is None


@given(st.integers(0, 2**53), st.integers(1, 10**6), st.none() | st.floats(0, 4e9))
def test_ledger_gives_back_what_it_was_given(seq: int, times: int, ended: float | None) -> None:
    subject = Subject("node-1", "uid-1", "node-condition/X/y")
    track = Track(seq, seq, "1", times, NOW, NOW, times, NOW, ended)
    assert decoded(encoded(subject, track)) == (subject, track)


def test_lease_is_taken_when_free_ours_or_not_renewed_for_its_duration() -> None:
    held = {"holderIdentity": "other", "renewTime": "t1", "leaseDurationSeconds": 15}
    assert may_take({}, None, "me", 0.0)[0]
    assert may_take({**held, "holderIdentity": "me"}, None, "me", 0.0)[0]
    may, first = may_take(held, None, "me", 100.0)
    assert not may
    assert not may_take(held, first, "me", 115.0)[0]
    assert may_take(held, first, "me", 115.1)[0]
    # Renewed: the clock starts anew, and only ours is read.
    may, second = may_take({**held, "renewTime": "t2"}, first, "me", 115.1)
    assert not may
    assert second == Seen("other", "t2", 115.1)
