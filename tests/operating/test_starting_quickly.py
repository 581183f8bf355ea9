"""The command line answers at once: what is heavy is loaded by the command that needs it."""

import subprocess
import sys


def test_help_loads_no_sdk() -> None:
    program = "import sys, cli.main; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "cli" in loaded
    assert not {"temporalio", "kubernetes", "boto3", "deploy", "worker", "detector"} & set(loaded)
