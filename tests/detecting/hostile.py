"""Hostile records: what a machine that is breaking, or somebody who wants to break the detector, might write."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from detector.catalogue import BUILT_IN, catalogue
from detector.findings import Findings
from detector.lines import Lines
from detector.marker import Marker
from detector.rules import Catalogue

_NOISE: Final = (
    b"\0",
    b"\xff\xfe",
    b"\\x0a",
    b"\\x",
    b";",
    b",",
    b"\n KEY=",
    b"=",
    b"  ",
    b"[",
    b"]",
    b"(",
    b"9" * 400,
)
_HEADERS: Final = (
    b"%d,%d,%d,-;",
    b"%d,%d,%d,c;",
    b"%d,%d,%d,-,caller=T1;",
    b"%d,%d,%d,",
    b"%d,%d;%d",
    b"-%d,%d,%d,-;",
)


class Judge:
    """The detector's path from records to findings, over the whole catalogue."""

    def __init__(self, rules: Catalogue | None = None) -> None:
        self._lines = Lines(rules or catalogue([BUILT_IN]))
        self._marker = Marker("/dev/null", 0.0)
        self._findings = Findings()
        self._now = 0.0

    def judge(self, raws: list[bytes]) -> int:
        """How many findings some records are."""
        found = 0
        for record, match in self._lines.sift(raws, self._marker, self._findings.remember):
            self._now += 1.0
            found += self._findings.take(record, match, self._now) is not None
        return found


def known_lines() -> list[bytes]:
    """Lines that the rules know: the best place to put noise into."""
    text = Path(__file__).with_name("kernel-lines.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["text"].encode() for line in text.splitlines()]


def hostile_texts(seed: int, number: int) -> Iterator[bytes]:
    """Known lines cut, doubled, spliced and sprinkled with noise. No newline within: that would be two records."""
    chance = random.Random(seed)
    lines = known_lines()
    for _ in range(number):
        text = bytearray(chance.choice(lines))
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(text) + 1)
            kind = chance.randrange(5)
            if kind == 0:
                text[at:at] = chance.choice(_NOISE)
            elif kind == 1:
                del text[at:]
            elif kind == 2:
                text[at:at] = chance.choice(lines)
            elif kind == 3:
                text[at:at] = chance.randbytes(chance.randrange(16))
            else:
                text *= chance.randrange(1, 4)
        yield bytes(text[:4096])


def hostile_records(seed: int, number: int) -> Iterator[bytes]:
    """Whole records, most with a sound header, some with none; a newline in the text begins a dictionary line."""
    chance = random.Random(seed)
    for seq, text in enumerate(hostile_texts(seed, number)):
        header = chance.choice(_HEADERS) if chance.random() < 0.1 else _HEADERS[0]
        body = text.replace(b"\n", b"\n ")
        yield header % (chance.randrange(200), seq, seq) + body + b"\n"
