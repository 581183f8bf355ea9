"""`nodemend policy`: each wrong line is named, and what is shown is what a worker would go by."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.errors import CommandError
from cli.policy import app
from contract.names import ExitCode
from contract.policy import Policy

GOOD = """\
default:
  mode: shadow
groups:
  trn1-training:
    mode: act
    approve_before: [replace]
"""


def policy(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return str(file)


def test_valid_policy_is_summed_up(tmp_path: Path) -> None:
    said = policy("check", written(tmp_path, GOOD)).stdout
    assert "acting on trn1-training" in said
    assert Policy.model_validate(yaml.safe_load(GOOD)).version in said


@pytest.mark.parametrize(
    ("text", "line", "names"),
    [
        (GOOD.replace("mode: act", "mode: akt"), 5, "groups.trn1-training.mode"),
        (GOOD.replace("[replace]", "[drain]"), 6, "groups.trn1-training.approve_before"),
        (GOOD + "    deadlines:\n      drain: 0\n", 8, "groups.trn1-training.deadlines.drain"),
        (GOOD + "    colour: red\n", 7, "colour"),
        (GOOD + "    mode: observe\n", 7, "mode: stands here a second time"),
        ("default:\n  mode: [\n", 3, "expected"),
        ("- mode: act\n", 1, "the document"),
        ("default:\n  gates: &gates\n    - *gates\n", 2, "an alias (*) stands within what it names"),
    ],
    ids=["value", "list", "zero-deadline", "unknown", "doubled", "no-yaml", "no-mapping", "endless"],
)
def test_wrong_policy_is_refused_by_line(tmp_path: Path, text: str, line: int, names: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(CommandError) as raised:
        policy("check", file)
    assert str(raised.value).startswith(f"{file}:{line}: ")
    assert names in str(raised.value)
    assert raised.value.code == ExitCode.DATA


def test_every_wrong_line_is_named_in_order(tmp_path: Path) -> None:
    file = written(tmp_path, "default:\n  mode: akt\n  max_concurrent: 0\n")
    with pytest.raises(CommandError) as raised:
        policy("check", file)
    assert [row.split(":")[1] for row in str(raised.value).splitlines()[:2]] == ["2", "3"]


def test_effective_policy_of_a_group_has_its_defaults_and_can_be_read_back(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    shown = json.loads(policy("show", file, "--effective", "--group", "trn1-training", "--json").stdout)["policy"]
    assert (shown["mode"], shown["max_concurrent"]) == ("act", 1)
    whole = yaml.safe_load(policy("show", file, "--effective").stdout)
    assert Policy.model_validate(whole) == Policy.model_validate(yaml.safe_load(GOOD))


def test_without_a_file_nothing_is_touched() -> None:
    assert yaml.safe_load(policy("show", "--effective").stdout)["default"]["mode"] == "shadow"


def test_group_that_has_no_entry_is_not_passed_off_as_one(tmp_path: Path) -> None:
    with pytest.raises(CommandError):
        policy("show", written(tmp_path, GOOD), "--group", "trn2")
    assert "shadow" in policy("show", written(tmp_path, GOOD), "--group", "trn2", "--effective").stdout
