"""Descriptions of conditions that people write."""

from pathlib import Path

import pytest

from contract.fault import Verdict
from detector.catalogue import CatalogueError
from detector.cluster.documents import load_rules
from tests.watching_cluster.deciding import RULES


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("conditions: [{type: Ready, bad_status: 'False', component: x, provenance: y}]", "belongs to the kubelet"),
        ("conditions: [{type: X, bad_status: Maybe, component: x, provenance: y}]", "bad_status"),
        (
            "conditions: [{type: X, bad_status: 'True', component: x, provenance: y, rules: [{id: abc, reason: '('}]}]",
            "no regular expression",
        ),
        ("conditions: [{type: X, bad_status: 'True', component: x, provenance: y, hold: 3}]", "hold"),
        ("conditions: {", "cannot be read as YAML"),
    ],
)
def test_rule_that_cannot_be_used_is_named_with_file_and_field(tmp_path: Path, text: str, words_of_it: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(CatalogueError, match=words_of_it) as raised:
        load_rules(tmp_path)
    assert "mine.yaml" in str(raised.value)


def test_users_description_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "conditions: [{type: NeuronHealth, bad_status: 'True', component: neuron, provenance: ours, "
        "rules: [{id: mine, reason: '.*', verdict: hardware}]}]"
    )
    rules = load_rules(tmp_path)
    (entry,) = [entry for entry in rules.conditions if entry.type == "NeuronHealth"]
    assert entry.rule_for("NeuronHasError_X")[0].verdict is Verdict.HARDWARE
    assert len(rules.conditions) == len(RULES.conditions)
