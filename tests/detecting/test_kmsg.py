"""Reading kernel records: rules K1 to K27 of the correctness reference, as far as a reader keeps them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.findings import is_drill
from detector.kmsg import BUFFER, BlindError, Lost, Reader, Record, parse, unescape
from detector.rules import key_values


def records(items: "list[Record | Lost]") -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def test_k9_k10_header_is_read_to_the_first_semicolon_and_unknown_fields_are_left_alone() -> None:
    record = parse(
        b"11,339,5140900,-,caller=T123,more=x;NEURON_HW_ERR=X; and more\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n"
    )
    assert record == Record(
        facility=1,
        level=3,
        seq=339,
        time_us=5140900,
        fragment=False,
        message="NEURON_HW_ERR=X; and more",
        fields={"SUBSYSTEM": "acpi", "DEVICE": "+acpi:PNP0A03:00"},
    )


def test_k13_dictionary_is_no_part_of_the_message() -> None:
    record = parse(b"3,1,2,-;pci error\n DEVICE=+pci:0000:00:1c.0\n")
    assert record
    assert record.message == "pci error"


def test_k16_escapes_are_undone_and_broken_text_is_still_text() -> None:
    assert unescape(r"a\x0ab\xc3\xa9\x5cx41") == "a\nbé\\x41"
    assert unescape(r"\xff") == "\ufffd"
    record = parse(rb"3,1,2,-;one\x0atwo" + b"\n")
    assert record
    assert record.message == "one\ntwo"


@given(st.binary(max_size=300))
def test_k9_nothing_that_is_read_breaks_the_reader(raw: bytes) -> None:
    record = parse(raw)
    assert record is None or isinstance(record, Record)


@given(
    facility=st.integers(0, 200),
    level=st.integers(0, 7),
    seq=st.integers(0, 2**64 - 1),
    text=st.text(st.characters(exclude_characters="\n\\", exclude_categories=("Cs",)), max_size=200),
)
def test_k10_whatever_the_kernel_writes_is_read_back(facility: int, level: int, seq: int, text: str) -> None:
    record = parse(f"{facility << 3 | level},{seq},1,-;{text}\n".encode())
    assert record
    assert (record.facility, record.level, record.seq, record.message) == (facility, level, seq, text)


def test_k17_continuation_is_known_as_a_fragment() -> None:
    record = parse(b"6,1,2,c;half a line\n")
    assert record
    assert record.fragment


def test_k11_user_space_cannot_speak_for_the_kernel() -> None:
    kernel, user = parse(b"3,1,1,-;x\n"), parse(b"11,1,1,-;x\n")
    assert kernel
    assert user
    assert not is_drill(kernel)
    assert is_drill(user)


def test_key_values_are_the_lines_own_and_bounded() -> None:
    line = "NEURON_HW_ERR=X instance-id=i-1 nd-id=3 " + " ".join(f"k{i}=v" for i in range(100))
    found = key_values(line)
    assert found["nd-id"] == "3"
    assert len(found) <= 24


class TestFile:
    """A regular file in the format, as demonstrations use it."""

    def write(self, path: Path, text: str) -> None:
        with path.open("a") as handle:
            handle.write(text)

    def test_it_is_followed_and_a_record_counts_when_it_is_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        path.touch()
        reader = Reader(str(path), None)
        assert list(reader.read()) == []
        self.write(path, "3,1,1,-;one\n3,2,2,-;tw")
        assert [r.message for r in records(list(reader.read()))] == ["one"]
        self.write(path, "o\n DEVICE=x\n")
        (second,) = records(list(reader.read()))
        assert (second.message, second.fields) == ("two", {"DEVICE": "x"})

    def test_k6_what_was_read_before_is_not_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        self.write(path, "3,1,1,-;one\n3,2,2,-;two\n3,3,3,-;three\n")
        assert [r.message for r in records(list(Reader(str(path), 2).read()))] == ["three"]

    def test_k9_record_that_cannot_be_read_is_counted(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        self.write(path, "nonsense\n3,2,2,-;two\n")
        assert next(iter(Reader(str(path), None).read())) == Lost(1, "malformed")

    def test_file_that_is_cut_or_replaced_is_read_from_its_start(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        self.write(path, "3,1,1,-;one\n3,2,2,-;two\n")
        reader = Reader(str(path), None)
        assert len(records(list(reader.read()))) == 2
        path.write_text("3,1,1,-;cut\n")
        assert [r.message for r in records(list(reader.read()))] == ["cut"]
        path.unlink()
        with pytest.raises(BlindError, match="is gone"):
            list(reader.read())
        self.write(path, "3,1,1,-;new\n")
        assert [r.message for r in records(list(reader.read()))] == ["new"]

    def test_k22_flood_is_read_in_rounds(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        self.write(path, "".join(f"6,{seq},1,-;{'x' * 100}\n" for seq in range(30_000)))
        reader = Reader(str(path), None)
        sizes = []
        more = True
        while more:
            batch = reader.batch()
            sizes.append(len(batch.raws))
            more = batch.more
        assert sum(sizes) == 30_000
        assert len(sizes) > 2

    def test_k20_log_that_cannot_be_opened_says_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(BlindError) as raised:
            Reader(str(tmp_path / "none"), None)
        assert "mount" in raised.value.reason


class TestPlayedDevice:
    """What a real device does not do on demand is played by the descriptor: errors and gaps, nothing else."""

    def reader(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *reads: "bytes | OSError") -> Reader:
        path = tmp_path / "kmsg"
        path.touch()
        reader = Reader(str(path), 10)
        reader.is_device = True
        answers = list(reads)

        def read(_descriptor: int, size: int) -> bytes:
            assert size == BUFFER >= 8192
            answer = answers.pop(0) if answers else BlockingIOError()
            if isinstance(answer, OSError):
                raise answer
            return answer

        monkeypatch.setattr(os, "read", read)
        return reader

    def test_k4_k5_overrun_is_counted_by_the_gap_and_reading_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = self.reader(tmp_path, monkeypatch, b"3,11,1,-;a\n", BrokenPipeError(), b"3,50,1,-;b\n")
        items = list(reader.read())
        assert [r.seq for r in records(items)] == [11, 50]
        assert [item for item in items if isinstance(item, Lost)] == [Lost(38, "overrun")]

    def test_k3_record_longer_than_the_buffer_is_one_lost_and_not_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = self.reader(tmp_path, monkeypatch, b"3,11,1,-;a\n", OSError(22, "Invalid"), b"3,13,1,-;b\n")
        items = list(reader.read())
        assert [item for item in items if isinstance(item, Lost)] == [Lost(1, "too_long")]
        assert [r.seq for r in records(items)] == [11, 13]

    def test_k6_records_that_were_overwritten_while_nobody_read_are_counted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = self.reader(tmp_path, monkeypatch, b"3,21,1,-;a\n")
        assert next(iter(reader.read())) == Lost(10, "while_away")

    def test_k5_first_start_counts_what_was_overwritten_before_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = self.reader(tmp_path, monkeypatch, b"3,100,1,-;a\n")
        reader._last = reader._after = None
        assert next(iter(reader.read())) == Lost(100, "before_first")

    def test_k6_impossible_cursor_is_said_and_everything_is_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = self.reader(tmp_path, monkeypatch, b"3,4,1,-;a\n", b"3,5,1,-;b\n", BlockingIOError(), b"3,4,1,-;a\n")
        monkeypatch.setattr(os, "lseek", lambda *_: 0)
        found = records(list(reader.read()))
        assert [record.seq for record in found] == [4]
        assert "cursor 10 is beyond the newest record 5" in reader.started_over

    def test_k19_what_waited_in_the_ring_is_told_from_what_is_written_now(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = self.reader(tmp_path, monkeypatch, b"3,11,1,-;a\n", BlockingIOError(), b"3,12,1,-;b\n")
        assert reader.catching_up
        reader.batch()
        assert not reader.catching_up

    @given(
        plan=st.lists(
            st.one_of(
                st.tuples(st.just("record"), st.integers(1, 5)),
                st.tuples(st.just("overrun"), st.integers(1, 500)),
                st.tuples(st.just("too_long"), st.just(1)),
                st.tuples(st.just("malformed"), st.just(1)),
                st.tuples(st.just("nothing"), st.just(0)),
            ),
            max_size=40,
        )
    )
    def test_k5_every_number_is_read_or_counted_as_lost(
        self, tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[str, int]]
    ) -> None:
        number, answers = 10, []
        for kind, size in plan:
            if kind == "record":
                answers += [f"6,{number + step},1,-;x\n".encode() for step in range(1, size + 1)]
            elif kind == "overrun":
                answers.append(BrokenPipeError())
            elif kind == "too_long":
                answers.append(OSError(22, "Invalid argument"))
            elif kind == "malformed":
                answers.append(b"nonsense")
            else:
                answers.append(BlockingIOError())
            number += size
        answers.append(f"6,{number + 1},1,-;the end\n".encode())
        with pytest.MonkeyPatch.context() as patch:
            reader = self.reader(tmp_path_factory.mktemp("log"), patch, *answers)
            items: list[Record | Lost] = []
            for _ in range(len(answers) + 1):
                items += reader.read()
        lost = sum(item.records for item in items if isinstance(item, Lost))
        assert len(records(items)) + lost == number + 1 - 10
        assert records(items)[-1].message == "the end"

    def test_k21_interrupted_reads_are_repeated(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        reader = self.reader(tmp_path, monkeypatch, InterruptedError(), b"3,11,1,-;a\n")
        assert [r.seq for r in records(list(reader.read()))] == [11]

    def test_k22_other_errors_close_the_log_with_a_reason(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader = self.reader(tmp_path, monkeypatch, OSError(5, "Input/output error"))
        with pytest.raises(BlindError, match="Input/output error"):
            list(reader.read())


@pytest.mark.kmsg
@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK | os.W_OK), reason="needs root and /dev/kmsg")
class TestRealDevice:
    """The machine's own kernel log."""

    def test_k1_k7_every_record_is_read_from_the_oldest_on_and_none_is_missing(self) -> None:
        reader = Reader("/dev/kmsg", None)
        items = list(reader.read())
        reader.close()
        numbers = [record.seq for record in records(items)]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))

    def test_k11_k25_line_written_by_us_comes_back_as_a_drill_after_the_cursor(self) -> None:
        reader = Reader("/dev/kmsg", None)
        newest = records(list(reader.read()))[-1].seq
        reader.close()
        Path("/dev/kmsg").write_text("<3>nodemend test: read me back\n")
        again = Reader("/dev/kmsg", newest)
        found = [r for r in records(list(again.read())) if "read me back" in r.message]
        again.close()
        assert len(found) == 1
        assert found[0].seq > newest
        assert is_drill(found[0])

    def test_k2_record_that_escaping_makes_four_times_as_long_is_read_whole(self) -> None:
        """Older kernels emit up to 8192 bytes (CONSOLE_EXT_LOG_MAX); what cannot be read at once is never read."""
        assert BUFFER >= 8192
        reader = Reader("/dev/kmsg", None)
        list(reader.read())
        Path("/dev/kmsg").write_bytes(b"<6>nodemend test " + b"\xff" * 450 + b"\n")
        raws = [raw for raw in reader.batch().raws if b"test \\xff" in raw]
        reader.close()
        assert [raw.count(b"\\xff") for raw in raws] == [450]
