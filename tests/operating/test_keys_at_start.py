"""A process whose keys cannot be used says so at its start, and ends: it sends nothing that others could read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contract.names import ExitCode
from contract.payload_keys import FOLDER_SETTING


@pytest.mark.parametrize(
    "command", [["-m", "detector"], ["-m", "detector.cluster"], ["-c", "from cli.main import main; main()", "status"]]
)
def test_keys_that_cannot_be_used_end_it_with_what_to_do(command: list[str], tmp_path: Path) -> None:
    environment = {
        **os.environ,
        FOLDER_SETTING: str(tmp_path / "nowhere"),
        "NODEMEND_CLUSTER": "test",
        "NODEMEND_SPOOL_DIR": str(tmp_path),
    }
    ended = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == ExitCode.CONFIG
    assert f"{FOLDER_SETTING} cannot be read" in ended.stderr
    assert "Mount the Secret" in ended.stderr
