"""`nodemend rules`, as people and programs use it."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.errors import CommandError
from cli.rules import app
from contract.names import ExitCode

CORPUS = Path(__file__).parents[1] / "detecting" / "kernel-lines.jsonl"
MINE = {
    "id": "my-rule",
    "pattern": "frobnicator [0-9]+ is on fire",
    "component": "frobnicator",
    "verdict": "hardware",
    "condition_type": "FrobnicatorHealth",
    "reason": "FrobnicatorOnFire",
    "provenance": "our own machines",
    "matches": ["frobnicator 3 is on fire"],
}


def rules(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=text, catch_exceptions=False)


def folder_with(tmp_path: Path, **changes: object) -> str:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"rules": [{**MINE, **changes}]}))
    return str(tmp_path)


def refused(*arguments: str) -> tuple[str, int]:
    with pytest.raises(CommandError) as raised:
        rules(*arguments)
    return str(raised.value), raised.value.code


def test_classify_answers_each_line_by_its_id_in_order() -> None:
    answers = [json.loads(line) for line in rules("classify", str(CORPUS), "--output", "json").stdout.splitlines()]
    wanted = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    assert [(answer["id"], answer["verdict"]) for answer in answers] == [(w["id"], w["verdict"]) for w in wanted]
    assert all(set(answer) == {"id", "verdict", "rule", "fields"} for answer in answers)


def test_classify_reads_standard_input_and_texts_with_odd_separators() -> None:
    text = json.dumps({"id": 7, "text": "NEURON_HW_ERR=DMA_ERROR\u2028nd-id=1"}, ensure_ascii=False)
    (answer,) = rules("classify", "-", text=text + "\n").stdout.splitlines()
    assert json.loads(answer)["id"] == 7
    assert json.loads(answer)["verdict"] != "benign"


def test_a_line_is_tested_by_its_words() -> None:
    assert rules("test", "usb 1-1: new device").stdout == "benign: no rule takes it for a fault.\n"
    told = rules("test", "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3").stdout
    assert "hardware" in told
    assert "nd-id = 3" in told
    assert json.loads(rules("test", "--json", "usb 1-1: new device").stdout)["rule"] is None


def test_every_listed_rule_can_be_shown_with_its_source() -> None:
    listed = json.loads(rules("list", "--json").stdout)
    assert len(listed) > 60
    shown = yaml.safe_load(rules("show", listed[0]["id"]).stdout)["rules"][0]
    assert shown["provenance"]
    assert refused("show", "no-such-rule") == (
        "There is no rule 'no-such-rule'.\nSee `nodemend rules list`.",
        ExitCode.NO_INPUT,
    )


def test_rules_of_ones_own_come_first_and_are_checked(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    assert rules("check", folder).stdout.startswith("1 rule of your own can be used")
    assert "my-rule" in rules("test", "--rules", folder, "frobnicator 9 is on fire").stdout


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pattern": "("}, "is no regular expression"),
        ({"verdict": "deadly"}, "rule my-rule, verdict"),
        ({"matches": ["all is well"]}, "must match and does not"),
        ({"ignores": ["frobnicator 3 is on fire"]}, "must not match and does"),
    ],
)
def test_rule_that_cannot_be_used_is_named_with_its_field(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    told, code = refused("check", folder_with(tmp_path, **changes))
    assert says in told
    assert code == ExitCode.DATA


def test_npd_configuration_becomes_rules_that_check_accepts(tmp_path: Path) -> None:
    npd = {"rules": [{"type": "permanent", "condition": "X", "reason": "Fire", "pattern": "frobnicator .* on fire"}]}
    (tmp_path / "npd.json").write_text(json.dumps(npd))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "imported.yaml").write_text(rules("import-npd", str(tmp_path / "npd.json")).stdout)
    assert "1 rule of your own" in rules("check", str(tmp_path / "mine")).stdout
    assert refused("import-npd", str(tmp_path / "none.json"))[1] == ExitCode.NO_INPUT


def test_npd_rules_of_one_reason_become_rules_with_ids_of_their_own(tmp_path: Path) -> None:
    """As in the node problem detector's own kernel-monitor.json: KernelOops stands there twice."""
    oops = {"type": "temporary", "reason": "KernelOops"}
    npd = {"rules": [{**oops, "pattern": "flux overrun .*"}, {**oops, "pattern": "flux error: 0000 \\[#\\d+\\] SMP"}]}
    (tmp_path / "npd.json").write_text(json.dumps(npd))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "imported.yaml").write_text(rules("import-npd", str(tmp_path / "npd.json")).stdout)
    assert "2 rules of your own" in rules("check", str(tmp_path / "mine")).stdout


@pytest.mark.parametrize("content", [b"", b"hello", b"rules: 7", b"rules: [", b"[1]", b"\xff\xfe\x00", b"rules: [5]"])
def test_file_that_is_no_catalogue_is_named_and_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mine.yaml").write_bytes(content)
    told, code = refused("check", str(tmp_path))
    assert str(tmp_path / "mine.yaml") in told
    assert code == ExitCode.DATA


def test_folder_without_rules_is_not_said_to_be_well(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(yaml.safe_dump({"rules": [MINE]}))
    assert refused("check", str(tmp_path)) == (
        f"{tmp_path} holds no *.yaml.\nGive the folder that holds your rules.",
        ExitCode.NO_INPUT,
    )


@pytest.mark.parametrize("content", [b"[]", b'{"rules": [5]}', b"\xff", b'{"rules": [{"reason": "x"}]}'])
def test_npd_configuration_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "npd.json").write_bytes(content)
    told, code = refused("import-npd", str(tmp_path / "npd.json"))
    assert str(tmp_path / "npd.json") in told
    assert code == ExitCode.DATA


def test_classify_says_which_line_has_a_text_that_is_none_and_reads_past_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('\ufeff{"id": 1, "text": "NEURON_HW_ERR=DMA_ERROR"}\n')
    assert json.loads(rules("classify", str(file)).stdout)["verdict"] == "ambiguous"
    file.write_text('{"id": 1, "text": "x"}\n{"id": 2, "text": 5}\n')
    assert "line 2" in refused("classify", str(file))[0]
