"""Classifying lines, and importing the rules of the node problem detector."""

import json
from pathlib import Path

import pytest
import yaml

from detector.catalogue import BUILT_IN, catalogue
from detector.classify import LineError, classify
from detector.npd import NpdError, convert

CORPUS = Path(__file__).parent / "kernel-lines.jsonl"
NEURON_NPD = {
    "plugin": "kmsg",
    "logPath": "/dev/kmsg",
    "rules": [
        {
            "type": "permanent",
            "condition": "NeuronHealth",
            "reason": "NeuronHasError_DMA_ERROR",
            "pattern": ".* NEURON_HW_ERR=DMA_ERROR .*",
        },
        {
            "type": "temporary",
            "reason": "TaskHung",
            "pattern": "task [\\S ]+:\\w+ blocked for more than \\w+ seconds\\.",
        },
        {"type": "temporary", "reason": "OOMKilling", "pattern": "Killed process \\d+ (.+) total-vm:\\d+kB.*\\z"},
    ],
}


def test_every_labelled_line_is_classified_by_id() -> None:
    lines = CORPUS.read_text().splitlines()
    found = {entry["id"]: entry for entry in classify(lines, catalogue())}
    for line in map(json.loads, lines):
        assert found[line["id"]]["verdict"] == line["verdict"]
        assert (found[line["id"]]["rule"] is None) == (line["verdict"] == "benign")
    assert found["N01"]["fields"]["nd-id"] == "0"


def test_wrong_line_is_named_by_its_number() -> None:
    with pytest.raises(LineError, match="line 2"):
        list(classify(['{"id": 1, "text": "x"}', '{"id": 2}'], catalogue()))


def test_imported_rules_work_and_k15_demand_no_blank(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"rules": convert(NEURON_NPD, "kernel-monitor.json")}))
    rules = catalogue([BUILT_IN, tmp_path])
    match = rules.match("NEURON_HW_ERR=DMA_ERROR")
    assert match
    assert (match.rule.id, match.rule.verdict) == ("npd-neuronhaserror-dma-error", "ambiguous")
    hung = rules.match("INFO: task jbd2/sda1-8:123 blocked for more than 120 seconds.")
    assert hung
    assert (hung.rule.id, hung.rule.verdict) == ("npd-taskhung", "notice")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "no list `rules`"),
        ({"rules": [{"reason": "X"}]}, "rule 1 has no 'pattern'"),
        ({"rules": [{"type": "temporary", "reason": "X", "pattern": "(a+)+b"}]}, "Write it by hand"),
        ({"rules": [{"type": "temporary", "reason": "X", "pattern": "("}]}, "Write it by hand"),
    ],
)
def test_what_cannot_be_imported_is_said(document: dict[str, object], says: str) -> None:
    with pytest.raises(NpdError, match=says):
        convert(document, "x")
