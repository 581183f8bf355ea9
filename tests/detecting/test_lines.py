"""From raw records to known lines: what is cut is put together, and looking quickly finds what looking slowly finds."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detector.catalogue import BUILT_IN, catalogue, load_rules
from detector.findings import Findings
from detector.kmsg import parse
from detector.lines import Lines
from detector.literals import required_literals, why_unsafe
from detector.marker import Marker
from detector.rules import Catalogue

RULES = catalogue()
EVERYTHING_ALWAYS = Catalogue([rule._replace(needs=()) for rule in RULES.rules])
DOCUMENTS = load_rules([BUILT_IN])
GOLDEN = [line for document in DOCUMENTS for line in (*document.matches, *document.ignores)]
ORDINARY = (Path(__file__).parent / "ordinary-boot.log").read_text().splitlines()


def raw(seq: int, message: str, flag: str = "-", level: int = 3) -> bytes:
    escaped = "".join(
        letter if 32 <= ord(letter) < 127 and letter != "\\" else "".join(f"\\x{byte:02x}" for byte in letter.encode())
        for letter in message
    )
    return f"{level},{seq},{seq * 10},{flag};{escaped}\n".encode()


def sift(*raws: bytes, lines: "Lines | None" = None) -> "list[tuple[int, str]]":
    lines = lines or Lines(RULES)
    found = list(lines.sift(list(raws), Marker("", 0), lambda _: None))
    found += [line] if (line := lines.release()) else []
    return [(record.seq, match.rule.id) for record, match in found]


class TestCutLines:
    """K17: a continuation is a fragment, and what the kernel cut is one line."""

    def test_k17_text_across_a_cut_is_found_and_is_the_first_fragments(self) -> None:
        cut = (raw(7, "NEURON_HW_", "c"), raw(8, "ERR=HBM_UNCORRECTABLE_ERROR nd-id=1"))
        assert sift(*cut) == [(7, "neuron-memory-uncorrectable")]

    def test_k17_cut_across_two_rounds_of_reading(self) -> None:
        lines = Lines(RULES)
        assert list(lines.sift([raw(7, "NEURON_HW_", "c")], Marker("", 0), lambda _: None)) == []
        assert lines.holding
        assert lines.before_held == 6
        assert sift(raw(8, "ERR=DMA_ERROR"), lines=lines) == [(7, "neuron-hardware-error")]
        assert not lines.holding

    def test_k17_fragment_that_nobody_ends_is_judged_alone(self) -> None:
        assert sift(raw(7, "NEURON_HW_ERR=DMA_ERROR nd-id=1", "c")) == [(7, "neuron-hardware-error")]

    def test_k17_line_of_another_cpu_between_fragments_is_still_found(self) -> None:
        assert sift(raw(7, "usb 1-1: ", "c"), raw(8, "NEURON_HW_ERR=DMA_ERROR"))[0][1] == "neuron-hardware-error"

    def test_k17_fragments_without_end_are_bounded(self) -> None:
        lines = Lines(RULES)
        endless = [raw(seq, "x", "c") for seq in range(1000)]
        assert list(lines.sift(endless, Marker("", 0), lambda _: None)) == []
        assert lines.before_held >= 900

    def test_k18_lines_of_one_oops_are_one_fault(self) -> None:
        oops = [
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "#PF: supervisor read access in kernel mode",
            "Oops: 0000 [#1] PREEMPT SMP NOPTI",
            "CPU: 3 PID: 1 Comm: python3 Not tainted 6.1.128 #1",
            "RIP: 0010:neuron_ioctl+0x1/0x10 [neuron]",
            "Call Trace:",
            "---[ end trace 0000000000000000 ]---",
        ]
        found = sift(*(raw(seq, line) for seq, line in enumerate(oops)))
        assert {rule for _, rule in found} == {"kernel-oops"}


@pytest.mark.parametrize("before", ["", "[   12.345678] ", "kernel: ", "neuron:ncdev_printk: ", "<3>"])
def test_k14_no_prefix_is_needed_and_none_hinders(before: str) -> None:
    assert sift(raw(7, f"{before}NEURON_HW_ERR=DMA_ERROR nd-id=1")) == [(7, "neuron-hardware-error")]


def test_k16_text_that_the_kernel_escaped_is_found() -> None:
    assert sift(raw(1, "pid:1\n\tNEURON_HW_ERR=DMA_ERROR nd-id=2")) == [(1, "neuron-hardware-error")]


@given(
    lines=st.lists(st.sampled_from([*GOLDEN, *ORDINARY]), min_size=1, max_size=30),
    seed=st.integers(0, 10_000),
)
def test_looking_at_a_round_at_once_finds_what_looking_at_each_record_with_each_rule_finds(
    lines: list[str], seed: int
) -> None:
    chance = random.Random(seed)
    mangled = [line if chance.random() < 0.7 else line[: chance.randrange(len(line) + 1)] for line in lines]
    raws = [raw(seq, line) for seq, line in enumerate(mangled)]
    slowly = [
        (seq, match.rule.id)
        for seq, one in enumerate(raws)
        if (record := parse(one)) and (match := EVERYTHING_ALWAYS.match(record.message))
    ]
    assert sift(*raws) == slowly


@given(text=st.text(st.characters(max_codepoint=0x2FF), max_size=200), at=st.integers(0, 200))
def test_any_text_around_a_known_line_is_judged_alike_by_both(text: str, at: int) -> None:
    for line in GOLDEN[:10]:
        message = text[:at] + line + text[at:]
        quick, slow = RULES.match(message), EVERYTHING_ALWAYS.match(message)
        assert (quick and quick.rule.id) == (slow and slow.rule.id)


@given(st.lists(st.binary(max_size=120).map(lambda tail: b"3,1,1,-;" + tail) | st.binary(max_size=60), max_size=20))
def test_hostile_records_break_nothing(raws: list[bytes]) -> None:
    findings = Findings()
    for record, match in Lines(RULES).sift(raws, Marker("", 0), findings.remember):
        report = findings.take(record, match, 1.0)
        json.dumps(report)


@given(
    line=st.sampled_from(GOLDEN),
    noise=st.binary(max_size=40),
    at=st.integers(0, 300),
)
def test_hostile_bytes_within_known_lines_break_nothing(line: str, noise: bytes, at: int) -> None:
    raws = [b"3,1,1,-;" + line.encode()[:at] + noise + line.encode()[at:]]
    findings = Findings()
    for record, match in Lines(RULES).sift(raws, Marker("", 0), findings.remember):
        report = findings.take(record, match, 1.0)
        assert report is None or len(json.dumps(report)) < 32_000


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.id)
def test_every_rule_says_what_its_lines_must_hold(document: "object") -> None:
    needs = required_literals(document.pattern)  # type: ignore[attr-defined]
    assert needs
    assert all(any(text in line for text in needs) for line in document.matches)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        ("abc", ("abc",)),
        ("abc|defg", ("abc", "defg")),
        ("(?i)abc", ()),
        ("a(?i:bcd)e", ()),
        (r"\d+ab", ()),
        ("(?:abc)?xyzw", ("xyzw",)),
        ("(?:abcd)+xyz", ("abcd",)),
        ("a(?P<x>bcd)e", ("abcde",)),
        ("(?:abc|.)x", ()),
        ("[ab]cde", ("cde",)),
        (r"a\\bcd", ("bcd",)),
    ],
)
def test_needs_of_patterns(pattern: str, needs: tuple[str, ...]) -> None:
    assert required_literals(pattern) == needs


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(?:a*b*)*c", r"(?:(?:x|\s+)y?)*z", r"(a)\1"])
def test_pattern_that_could_run_for_ever_is_refused(pattern: str) -> None:
    assert why_unsafe(pattern)


@pytest.mark.parametrize("pattern", [r"a+b", r"(?:ab){1,3}c.*d", r"(?:a{1,5}){1,5}b", r"x(?=y+)z"])
def test_pattern_that_ends_is_not_refused(pattern: str) -> None:
    assert not why_unsafe(pattern)
