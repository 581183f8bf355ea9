"""The policy in a running worker: a good edit is taken, a bad one is refused in words, and the one before holds on."""

import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.errors import CommandError
from cli.policy import app
from contract.policy import Mode, Policy
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from tests.harness import http, running_worker
from worker.errors import StartError
from worker.policy_file import PolicyFile

ACT, SHADOW = "default: {mode: act}\n", "default: {mode: shadow}\n"
BROKEN = {
    "value": b"default: {mode: atc}\n",
    "unknown field": b"defualt: {mode: act}\n",
    "twice": b"default: {mode: observe}\ndefault: {mode: act}\n",
    "cut off": b"default:\n  mode: act\n  gates: [{before",
    "emptied": b"",
    "only comments": b"# default: {mode: act}\n",
    "no UTF-8": b"default: {mode: act} # caf\xe9\n",
    "no text": b"\x00\x01\x02",
    "template": b"{{ .Values.policy }}\n",
    "list": b"- mode: act\n",
    "nothing in a group": b"groups: {trn1: null}\n",
    "two documents": b"default: {mode: act}\n---\ndefault: {mode: observe}\n",
}
broken = pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(ACT)
    return path


def mode(policy: PolicyFile) -> Mode:
    return policy().default.mode


def test_new_policy_holds_as_soon_as_it_is_there(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    policy = PolicyFile(file)
    assert mode(policy) is Mode.ACT
    file.write_text(SHADOW)
    with caplog.at_level("INFO"):
        assert mode(policy) is Mode.SHADOW
        assert mode(policy) is Mode.SHADOW
    assert [record.message for record in caplog.records] == [
        f"The policy was read again: version {policy().version}"
    ], "what did not change is not read again"


@broken
def test_bad_edit_is_refused_once_in_words_and_the_policy_before_it_holds_on(
    file: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    policy = PolicyFile(file)
    file.write_bytes(text)
    assert mode(policy) is mode(policy) is Mode.ACT
    (said,) = caplog.records
    assert f"{file} is not valid: line " in said.message
    assert f"({Policy.model_validate({'default': {'mode': 'act'}}).version}) holds on" in said.message
    assert policy.refused

    file.write_text(SHADOW)
    assert mode(policy) is Mode.SHADOW
    assert not policy.refused


@broken
def test_worker_refuses_at_its_start_what_it_refuses_later_and_what_the_command_refuses(
    file: Path, text: bytes
) -> None:
    file.write_bytes(text)
    with pytest.raises(StartError, match="line "):
        PolicyFile(file)
    with pytest.raises(CommandError):
        CliRunner().invoke(app, ["check", str(file)], catch_exceptions=False, standalone_mode=False)


def test_value_that_is_wrong_is_named_with_its_field_and_line(file: Path) -> None:
    file.write_text("default:\n  mode: act\n  max_concurrent: many\n")
    with pytest.raises(StartError, match=r"line 3: default\.max_concurrent: .*\(is 'many'\)"):
        PolicyFile(file)


def test_configmap_is_swapped_under_it_as_the_kubelet_does(tmp_path: Path) -> None:
    def swap(version: str, text: str) -> None:
        """kubelet's AtomicWriter: a folder per version, one link that is moved onto the new one, a link per key."""
        (tmp_path / version).mkdir()
        (tmp_path / version / "policy.yaml").write_text(text)
        (tmp_path / "..data_tmp").symlink_to(version)
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    swap("..1", ACT)
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    policy = PolicyFile(tmp_path / "policy.yaml")
    assert mode(policy) is Mode.ACT
    swap("..2", SHADOW)
    # As old as the first: it is another file all the same.
    os.utime(
        tmp_path / "..2/policy.yaml", ns=((stat := (tmp_path / "..1/policy.yaml").stat()).st_atime_ns, stat.st_mtime_ns)
    )
    assert mode(policy) is Mode.SHADOW


def test_file_that_is_away_for_a_while_is_said_once_and_read_when_it_is_back(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = PolicyFile(file)
    kept = file.rename(file.with_suffix(".away"))
    assert mode(policy) is mode(policy) is Mode.ACT
    (said,) = caplog.records
    assert "cannot be read: No such file or directory. The policy before it" in said.message
    kept.rename(file)
    assert mode(policy) is Mode.ACT
    assert not policy.refused


@pytest.mark.stack
def test_running_worker_tells_of_an_edit_though_nothing_happens(local_stack: Stack, file: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def refused(value: int) -> bool:
        lines = http(f"http://{address}/metrics")[1].splitlines()
        return any(line.startswith("nodemend_policy_refused{") and line.endswith(f" {value}") for line in lines)

    with running_worker(local_stack, file, tmp_path, NODEMEND_METRICS_ADDRESS=address) as worker:
        wait_for(lambda: "Working on" in worker.text(), "the worker to start")
        wait_for(lambda: refused(0), "a policy that holds")
        file.write_text("default: {mode: atc}\n")
        wait_for(lambda: refused(1), "the refusal in the metrics")
        assert "default.mode" in worker.text()
        file.write_text(SHADOW)
        wait_for(lambda: refused(0), "the policy that was mended")
        assert "The policy was read again" in worker.text()
