"""docs/judging.md shows what the commands print: each example is run again here.

``NODEMEND_GOLDEN=write`` writes the examples anew.
"""

import os
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from contract.aftermath import Aftermath, Fate
from contract.plan import Rung
from tests.judging.test_scoring import OPENED, many, written
from tests.operating.command import nodemend
from tests.runbook.world import finding

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "judging.md"
WIDTH = "116"
EXAMPLES = {
    "plan": (
        "plan --node ip-10-0-3-9 --group trn1-training --instance-id i-0592464924bd45322 --policy policy.yaml --line",
        "[Sat Nov 14 10:02:11 2026] NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3 nc-id=1",
    ),
    "replay": ("replay outage.log --group trn1-training --policy policy.yaml", ""),
    "scorecard": ("scorecard records", ""),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the examples read."""
    for name in ("policy.yaml", "outage.log"):
        shutil.copy(HERE / name, tmp_path)
    recovered = Aftermath(
        fate=Fate.RECOVERED, at=OPENED, followed_until=OPENED + timedelta(days=1), explanation="It went on as it was."
    )
    doubtful = (finding(rule="neuron-hardware-error"),)
    reports = [
        *many(12, findings=(finding(rule="neuron-memory-uncorrectable"),)),
        *many(3, start=20, rung=Rung.QUARANTINE, findings=doubtful, aftermath=recovered),
        *many(2, start=30, rung=Rung.QUARANTINE, findings=doubtful),
    ]
    written(tmp_path / "records", reports)
    return tmp_path


def played(name: str, folder: Path) -> str:
    words, line = EXAMPLES[name]
    ran = nodemend(*words.split(), *([line] if line else []), cwd=folder, COLUMNS=WIDTH)
    assert ran.returncode == 0, ran.stderr
    command = f"$ nodemend {words}" + (f" \\\n    '{line}'" if line else "")
    shown = "\n".join(row.rstrip() for row in ran.stdout.rstrip().splitlines())
    # It changes with each field that the policy gains, and says nothing here.
    shown = re.sub(r"version [0-9a-f]{12}", "version 0123456789ab", shown)
    return f"```console\n{command}\n{shown}\n```"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_document_shows_what_the_command_prints(name: str, folder: Path) -> None:
    text, example = DOCUMENT.read_text(encoding="utf-8"), played(name, folder)
    mark = f"<!-- example: {name} -->\n"
    assert mark in text
    before, _, after = text.partition(mark)
    if os.environ.get("NODEMEND_GOLDEN") == "write":
        rest = re.sub(r"\A```console\n.*?\n```\n", "", after, count=1, flags=re.DOTALL)
        DOCUMENT.write_text(f"{before}{mark}{example}\n{rest}", encoding="utf-8")
    else:
        assert after.startswith(example + "\n"), "Run the tests of this file with NODEMEND_GOLDEN=write."


def test_the_document_shows_the_policy_of_its_examples() -> None:
    assert f"```yaml\n{(HERE / 'policy.yaml').read_text()}```" in DOCUMENT.read_text(encoding="utf-8")
