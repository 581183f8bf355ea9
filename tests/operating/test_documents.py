"""What the documents say agrees with the contract: who adds a field, an outcome or an override adds its line."""

import re
from pathlib import Path

import pytest

from cli.errors import INTERRUPTED
from contract.names import ExitCode, Outcome, OverrideName
from contract.policy import CheckpointPolicy, Deadlines, GroupPolicy
from contract.replacement import Answer, GroupFinding, ReplacementPolicy, StartupTaint

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "field",
    [
        *(f for f in GroupPolicy.model_fields if f not in ("deadlines", "checkpoints")),
        *(f"deadlines.{f}" for f in Deadlines.model_fields),
        *(f"checkpoints.{f}" for f in CheckpointPolicy.model_fields),
    ],
)
def test_policy_reference_has_every_field(field: str) -> None:
    assert f"| `{field}` |" in text("docs/policy.md")


@pytest.mark.parametrize("name", [*ReplacementPolicy.model_fields, *GroupFinding, *Answer, *StartupTaint])
def test_policy_reference_has_everything_about_replacement(name: str) -> None:
    assert f"`{name}`" in text("docs/policy.md")


@pytest.mark.parametrize("outcome", Outcome)
def test_operators_guide_has_every_outcome(outcome: Outcome) -> None:
    assert re.search(rf"^\| .*`{outcome}`", text("docs/operating.md"), re.MULTILINE)


@pytest.mark.parametrize("override", OverrideName)
def test_operators_guide_has_every_override(override: OverrideName) -> None:
    assert f"| `{override}` |" in text("docs/operating.md")


def test_operators_guide_has_every_exit_code() -> None:
    codes = {value for name, value in vars(ExitCode).items() if name.isupper()} | {INTERRUPTED}
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", text("docs/operating.md"), re.MULTILINE)}
    assert told == codes


def test_every_decision_is_in_the_list() -> None:
    records = {path.name for path in (ROOT / "docs/decisions").glob("0*.md")}
    assert records == set(re.findall(r"\((0[\w-]+\.md)\)", text("docs/decisions/README.md")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (document.parent / link).exists(), link


def test_pre_commit_needs_no_network() -> None:
    configuration = text(".pre-commit-config.yaml")
    assert "://" not in configuration
    assert set(re.findall(r"repo: (\S+)", configuration)) == {"local"}
