"""`nodemend demo` as a newcomer runs it."""

import json
from pathlib import Path

import pytest

from contract.names import ExitCode
from tests.operating.command import nodemend

pytestmark = [pytest.mark.thorough]


def test_unknown_fault_is_a_usage_error_that_lists_those_there_are() -> None:
    done = nodemend("demo", "--fault", "nonsense")
    assert done.returncode == ExitCode.USAGE
    assert "neuron-memory-uncorrectable" in done.stdout + done.stderr


@pytest.mark.stack
@pytest.mark.timeout(240)
def test_demo_proves_every_claim(tmp_path: Path) -> None:
    done = nodemend("demo", "--output", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert document["proven"] is True
    assert len(document["claims"]) >= 12
    assert Path(document["report_path"]).exists()
