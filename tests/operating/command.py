"""The `nodemend` program as operators and scripts run it."""

import os
import subprocess
import sys
from pathlib import Path

NODEMEND = str(Path(sys.executable).with_name("nodemend"))


def clean_environment(**more: str) -> dict[str, str]:
    """Ours without any setting of Temporal's or Nodemend's, and what is given."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TEMPORAL_", "NODEMEND_"))}
    return {**kept, "COLUMNS": "200", **more}


def nodemend(*arguments: str, cwd: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in an environment of its own."""
    return subprocess.run(
        [NODEMEND, *arguments],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=cwd,
    )
