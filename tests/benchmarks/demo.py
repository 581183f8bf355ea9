"""How long a warm demo takes, from the command to its last line."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figures import ROOT, Figure, at_most


def measure(_stack: object, _folder: Path) -> Iterator[Figure]:
    """Run it as a newcomer would; it starts a stack of its own."""
    command = [str(Path(sys.executable).with_name("nodemend")), "demo", "--output", "json"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    took = time.monotonic() - started
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["proven"]
    yield at_most("warm_demo_s", took, "s", 90.0, "all claims proven")
