"""`nodemend doctor` where nothing can be reached: each is a finding, and none a fault of the command's own."""

import json
from pathlib import Path

import pytest

from contract.names import ExitCode
from tests.operating.command import nodemend


@pytest.mark.parametrize("kubeconfig", [b"{{{", b"[1, 2]", b"\xff\xfe", b"kind: Config", b"clusters: 3"])
def test_kubeconfig_that_is_none_is_a_finding_like_temporal_that_is_away(kubeconfig: bytes, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_bytes(kubeconfig)
    (tmp_path / "policy.yaml").write_text("groups: [trn1]")
    environment = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "TEMPORAL_ADDRESS": "127.0.0.1:9"}
    done = nodemend("doctor", "--policy", str(tmp_path / "policy.yaml"), "--output", "json", **environment)
    assert done.returncode == ExitCode.FAILED, done.stderr
    found = json.loads(done.stdout)
    assert [one["about"] for one in found] == ["Temporal", "cluster", "policy"]
    assert all(one["level"] == "wrong" and one["says"] and one["means"] and one["mend"] for one in found)


def test_policy_file_that_is_not_there_is_a_mistake_in_the_command() -> None:
    done = nodemend("doctor", "--policy", "/no/such/policy.yaml")
    assert done.returncode == ExitCode.NO_INPUT
    assert "cannot be read" in done.stderr
