"""The command line answers at once: what is heavy is loaded by the command that needs it."""

import subprocess
import sys

import pytest

from contract.names import ExitCode
from tests.operating.command import NODEMEND, clean_environment, nodemend


def test_help_loads_no_sdk() -> None:
    program = "import sys, cli.main; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "cli" in loaded
    assert not {"temporalio", "kubernetes", "boto3", "deploy", "worker", "detector"} & set(loaded)


def complete(line: str) -> list[str]:
    """What a shell offers behind what is typed so far."""
    words = line.split(" ")
    shell = {"_NODEMEND_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [NODEMEND], env=clean_environment(**shell), capture_output=True, text=True, check=False, timeout=100
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("nodemend ex", ["extend-deadline"]),
        ("nodemend audit v", ["verify"]),
        ("nodemend local ", ["build", "up", "status", "down"]),
        ("nodemend status --out", ["--output"]),
    ],
)
def test_a_shell_completes_commands_and_those_of_groups_that_are_loaded_later(typed: str, offered: list[str]) -> None:
    assert complete(typed) == offered


def test_audit_lists_where_no_command_of_its_is_named() -> None:
    done = nodemend("audit", "--node", "gpu-1", NODEMEND_CLUSTER="c", TEMPORAL_ADDRESS="127.0.0.1:1")
    assert done.returncode == ExitCode.UNAVAILABLE, "it went on to ask Temporal"
    assert "verify" in nodemend("audit", "--help").stdout
    nowhere = nodemend("audit", "/no/such/folder")
    assert (nowhere.returncode, "/no/such/folder" in nowhere.stderr) == (ExitCode.NO_INPUT, True)
