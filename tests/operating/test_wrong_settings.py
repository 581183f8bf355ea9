"""A process that is set up by environment variables names each wrong one, with the value as it was written."""

import subprocess

import pytest

from contract.names import ExitCode
from tests.operating.command import NODEMEND, clean_environment


@pytest.mark.parametrize(
    ("process", "variable"),
    [
        ("work", "NODEMEND_LOG_LEVEL"),
        ("page", "NODEMEND_LOG_LEVEL"),
        ("watch-cluster", "NODEMEND_EC2_POLL_S"),
        ("detect", "NODEMEND_DELIVERY"),
    ],
)
def test_each_wrong_variable_is_named_with_its_value_as_it_was_written(process: str, variable: str) -> None:
    environment = clean_environment(NODE_NAME="node-1", **{variable: "Nope"})
    done = subprocess.run([NODEMEND, process], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitCode.CONFIG, done.stderr
    assert "NODEMEND_CLUSTER: must be set" in done.stderr
    assert f"{variable}: " in done.stderr
    assert "(is 'Nope')" in done.stderr
