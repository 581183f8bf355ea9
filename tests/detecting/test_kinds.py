"""The catalogue on kinds of lines beyond the labelled corpus, and its silence on whole ordinary boots.

``kinds.txt`` was written from the vendors' tables and the drivers' format strings, not from what the rules match.
"""

import re
from pathlib import Path

import pytest

from detector.catalogue import catalogue

HERE = Path(__file__).parent
SECTIONS = {
    head.strip(): [
        (verdict, line) for verdict, tab, line in (text.partition("\t") for text in body.splitlines()) if tab
    ]
    for head, _, body in (part.partition("\n") for part in (HERE / "kinds.txt").read_text().split("\n## ")[1:])
}
RULES = catalogue()
WAYS = {
    "bare": "{}",
    "dmesg": "[12345.678901] {}",
    "syslog": "Dec  2 01:02:03 ip-10-0-0-1 kernel: {}",
    "journal": "2026-12-01T12:00:00.123456+00:00 ip-10-0-0-1 kernel: {}",
    "runtime's logger": " 77:78 ERROR TDRV:exec {}",
    "dictionary": "{}\\x0a SUBSYSTEM=pci\\x0a DEVICE=+pci:0000:91:00.0",
    "extra keys, and long": "{} shard=7 extra-key='x y'" + " and so on" * 200,
}


def verdict(text: str) -> str:
    match = RULES.match(text)
    return match.rule.verdict if match else "benign"


def ways_of(line: str) -> dict[str, str]:
    found = {name: verdict(way.replace("{}", line)) for name, way in WAYS.items()}
    return {**found, "doubled blanks": verdict(line.replace(" ", "  "))}


@pytest.mark.parametrize("section", SECTIONS)
def test_line_gets_its_verdict_however_it_comes(section: str) -> None:
    wrong = [
        (line, wanted, name, found)
        for wanted, line in SECTIONS[section]
        for name, found in ways_of(line).items()
        if found != wanted
    ]
    assert wrong == []


@pytest.mark.parametrize("section", SECTIONS)
def test_no_cut_of_a_line_that_destroys_nothing_destroys(section: str) -> None:
    """A record may end anywhere; what could change its meaning is a word, or a number, that ends earlier."""
    lines = [line for wanted, line in SECTIONS[section] if wanted != "hardware"]
    cuts = [line[: found.end()] for line in lines for found in re.finditer(r"\d+?(?=\d)|\w+|\S", line)]
    assert [cut for cut in cuts if verdict(cut) == "hardware"] == []


@pytest.mark.parametrize("log", sorted(HERE.glob("*boot*.log")), ids=lambda path: path.stem)
def test_ordinary_boot_is_silent(log: Path) -> None:
    assert [line for line in log.read_text().splitlines() if verdict(line) != "benign"] == []
