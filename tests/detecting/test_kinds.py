"""The catalogue on kinds of lines beyond the labelled corpus, and its silence on whole ordinary boots.

``kinds.txt`` was written from the vendors' tables and the drivers' format strings, not from what the rules match.
"""

from pathlib import Path

import pytest

from detector.catalogue import catalogue

HERE = Path(__file__).parent
KINDS = [
    (verdict, line)
    for verdict, tab, line in (text.partition("\t") for text in (HERE / "kinds.txt").read_text().splitlines())
    if tab
]
RULES = catalogue()
WAYS = {
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


@pytest.mark.parametrize(("wanted", "line"), KINDS)
def test_line_gets_its_verdict_however_it_comes(wanted: str, line: str) -> None:
    found = {name: verdict(way.replace("{}", line)) for name, way in WAYS.items()}
    found |= {"bare": verdict(line), "doubled blanks": verdict(line.replace(" ", "  "))}
    assert found == dict.fromkeys(found, wanted)


@pytest.mark.parametrize("line", [line for wanted, line in KINDS if wanted != "hardware"])
def test_no_cut_of_a_line_that_destroys_nothing_destroys(line: str) -> None:
    assert [line[:length] for length in range(len(line)) if verdict(line[:length]) == "hardware"] == []


@pytest.mark.parametrize("log", sorted(HERE.glob("*boot*.log")), ids=lambda path: path.stem)
def test_ordinary_boot_is_silent(log: Path) -> None:
    assert [line for line in log.read_text().splitlines() if verdict(line) != "benign"] == []
