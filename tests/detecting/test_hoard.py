"""A flood is read before it is judged: what waits is exactly what was read, and it is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from detector.hoard import Hoard, Round

TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x17F), max_size=60)
DICTIONARY = st.lists(st.tuples(st.sampled_from(["SUBSYSTEM", "DEVICE", "NM_X"]), TEXT), max_size=3)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """As a device gives them: what would end the line inside is escaped by the kernel (K16)."""
    priority, seq, time_us = draw(st.tuples(st.integers(0, 191), st.integers(0, 2**63), st.integers(0, 2**50)))
    fields = "".join(f" {key}={value}\n" for key, value in draw(DICTIONARY))
    return f"{priority},{seq},{time_us},-;{draw(TEXT)}\n{fields}".encode()


ROUNDS = st.lists(
    st.builds(Round, st.lists(records(), min_size=1, max_size=8), st.integers(0, 2**63), st.booleans()), max_size=6
)


@given(ROUNDS)
def test_k5_what_is_taken_is_what_was_put_in_its_order(rounds: list[Round]) -> None:
    hoard = Hoard()
    for read in rounds:
        hoard.put(read)
    assert [hoard.take() for _ in rounds] == rounds
    assert not hoard


def test_k22_it_is_full_at_four_mebibytes_and_has_room_again_once_something_was_taken() -> None:
    hoard = Hoard()
    read = Round([b"6,1,1,-;" + b"x" * 1015 + b"\n"] * 512, 1, live=True)
    puts = 0
    while not hoard.full:
        hoard.put(read)
        puts += 1
    assert puts == 8
    hoard.take()
    assert not hoard.full
