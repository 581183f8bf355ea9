"""What commands say when Temporal is away, refuses, or is another one than was meant."""

import signal
import subprocess
from pathlib import Path

import pytest

from cli.errors import INTERRUPTED
from contract.names import ExitCode
from deploy.local.temporal import running_temporal
from tests.operating.command import NODEMEND, clean_environment, nodemend
from tests.operating.gateway import refusing_gateway

pytestmark = pytest.mark.thorough

_UNAUTHENTICATED, _PERMISSION_DENIED = 16, 7


@pytest.mark.parametrize("command", [["status"], ["watch", "n"], ["report", "n"], ["abort", "n", "--reason", "r"]])
def test_unreachable_temporal_is_69_and_names_the_address(command: list[str]) -> None:
    done = nodemend(*command, TEMPORAL_ADDRESS="127.0.0.1:9", NODEMEND_CLUSTER="c")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "127.0.0.1:9" in done.stderr
    assert "nothing listens there" in done.stderr
    assert "TEMPORAL_ADDRESS" in done.stderr


@pytest.mark.parametrize("status", [_UNAUTHENTICATED, _PERMISSION_DENIED])
def test_refused_credentials_are_77_and_name_the_settings(status: int) -> None:
    with refusing_gateway(status, "the key has expired") as address:
        done = nodemend("status", TEMPORAL_ADDRESS=address, NODEMEND_CLUSTER="c")
    assert done.returncode == ExitCode.NO_PERMISSION, done.stderr
    assert address in done.stderr
    assert "TEMPORAL_API_KEY" in done.stderr


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("TEMPORAL_ADDRESS", "http://temporal.example", "host and port alone"),
        ("TEMPORAL_TLS_CLIENT_CERT_PATH", "/nowhere/cert.pem", "/nowhere/cert.pem"),
    ],
)
def test_setting_that_cannot_be_used_is_78_and_named(setting: str, value: str, says: str) -> None:
    done = nodemend("status", NODEMEND_CLUSTER="c", **{"TEMPORAL_ADDRESS": "127.0.0.1:9", setting: value})
    assert done.returncode == ExitCode.CONFIG, done.stderr
    assert says in done.stderr


@pytest.mark.temporal
def test_missing_namespace_and_missing_cluster_are_78(tmp_path: Path) -> None:
    with running_temporal(tmp_path) as temporal:
        missing = nodemend("status", TEMPORAL_ADDRESS=temporal.address, TEMPORAL_NAMESPACE="x", NODEMEND_CLUSTER="c")
        no_cluster = nodemend("status", TEMPORAL_ADDRESS=temporal.address, TEMPORAL_NAMESPACE=temporal.namespace)
    assert (missing.returncode, no_cluster.returncode) == (ExitCode.CONFIG, ExitCode.CONFIG)
    assert "no namespace 'x'" in missing.stderr
    assert "NODEMEND_CLUSTER" in no_cluster.stderr


@pytest.mark.parametrize("command", ["demo", "work", "status", "watch", "report", "approve", "release"])
def test_help_of_each_command_says_what_exit_codes_mean(command: str) -> None:
    done = nodemend(command, "--help")
    assert done.returncode == 0
    for code in (ExitCode.UNAVAILABLE, ExitCode.NO_PERMISSION, ExitCode.CONFIG, INTERRUPTED):
        assert str(code) in done.stdout


@pytest.mark.parametrize("command", ["detect", "watch-cluster"])
def test_help_of_what_never_gives_up_says_how_it_does_end(command: str) -> None:
    done = nodemend(command, "--help")
    assert done.returncode == 0
    for code in (ExitCode.OK, ExitCode.USAGE, ExitCode.DATA, ExitCode.CONFIG):
        assert f"{code} " in done.stdout.partition("Exit codes: ")[2]


@pytest.mark.temporal
def test_reader_of_a_pipe_that_leaves_is_no_crash(tmp_path: Path) -> None:
    with running_temporal(tmp_path) as temporal:
        process = subprocess.Popen(
            [NODEMEND, "status", "--output", "json"],
            env=clean_environment(
                TEMPORAL_ADDRESS=temporal.address, TEMPORAL_NAMESPACE=temporal.namespace, NODEMEND_CLUSTER="c"
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout
        process.stdout.close()
        assert process.stderr
        said = process.stderr.read().decode()
        process.stderr.close()
        assert process.wait(30) != -signal.SIGABRT
    assert "Traceback" not in said
