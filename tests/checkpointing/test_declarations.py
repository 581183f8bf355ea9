"""What a pod may declare: every mode, every mistake named with its remedy, and nothing that crashes the reader."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.checkpoint_declared import CheckpointMode, declaration_of
from activities.cluster import Json
from contract.policy import Otherwise

PREFIX = "nodemend.io/checkpoint"
FIELDS = ("", "-command", "-container", "-port", "-path", "-manifests", "-timeout", "-fallback")


def pod(**declared: str) -> Json:
    """A pod that declares this; ``mode`` is the annotation without a suffix."""
    named = {PREFIX if key == "mode" else f"{PREFIX}-{key}": value for key, value in declared.items()}
    return {
        "metadata": {"namespace": "n", "name": "p", "annotations": named},
        "spec": {"containers": [{"name": "main"}, {"name": "trainer"}], "terminationGracePeriodSeconds": 90},
    }


def test_each_mode_with_what_it_needs() -> None:
    assert declaration_of(pod(mode="exec", command='["save.sh"]', container="trainer")).command == ("save.sh",)
    assert declaration_of(pod(mode="http", port="8700")).path == "/checkpoint"
    assert declaration_of(pod(mode="sigterm", manifests="/ckpt/")).manifests == "/ckpt"
    observed = declaration_of(pod(mode="observe", manifests="s3://bucket/run-7", timeout="10m", fallback="ask"))
    assert (observed.timeout, observed.fallback, observed.grace_s) == (timedelta(minutes=10), Otherwise.ASK, 90)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"mode": "magic"}, "one of exec, http, sigterm, observe"),
        ({"mode": "exec"}, "JSON array"),
        ({"mode": "exec", "command": "python x.py"}, "JSON array"),
        ({"mode": "exec", "command": "[]"}, "JSON array"),
        ({"mode": "exec", "command": '{"a": 1}'}, "JSON array"),
        ({"mode": "exec", "command": "[1]"}, "JSON array"),
        ({"mode": "http"}, "number of the port"),
        ({"mode": "http", "port": "0"}, "number of the port"),
        ({"mode": "http", "port": "70000"}, "number of the port"),
        ({"mode": "http", "port": "8700", "path": "checkpoint"}, "path from the root"),
        ({"mode": "http", "port": "8700", "path": "/../../nodes"}, "path from the root"),
        ({"mode": "sigterm"}, "folder in the pod"),
        ({"mode": "observe", "manifests": "checkpoints"}, "folder in the pod"),
        ({"mode": "observe", "manifests": "s3://B"}, "folder in the pod"),
        ({"mode": "exec", "command": '["x"]', "timeout": "0s"}, "duration"),
        ({"mode": "exec", "command": '["x"]', "timeout": "25h"}, "duration"),
        ({"mode": "exec", "command": '["x"]', "timeout": "ten"}, "duration"),
        ({"mode": "exec", "command": '["x"]', "fallback": "pray"}, "evict, ask"),
        ({"mode": "exec", "command": '["x"]', "container": "sidecar"}, "main, trainer"),
    ],
)
def test_malformed_declaration_names_pod_annotation_value_and_remedy(declared: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match="n/p") as raised:
        declaration_of(pod(**declared))
    assert says in str(raised.value)
    assert "nodemend.io/checkpoint" in str(raised.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ValueError, match=r"checkpoint-port=.*checkpoint-timeout="):
        declaration_of(pod(mode="http", port="x", timeout="y"))


@given(
    declared=st.dictionaries(
        st.sampled_from([PREFIX + suffix for suffix in FIELDS]),
        st.one_of(
            st.text(st.characters(codec="ascii"), max_size=40),
            st.sampled_from(["exec", "http", "sigterm", "observe", "8700", "5m", "/ckpt", "s3://bucket/x", '["x"]']),
            st.lists(st.sampled_from(["", "x", "é", "--"]), max_size=3).map(json.dumps),
        ),
    )
)
def test_whatever_is_declared_it_is_understood_or_refused_and_what_is_understood_can_be_asked(
    declared: dict[str, str],
) -> None:
    made = pod()
    made["metadata"]["annotations"] = declared
    try:
        found = declaration_of(made)
    except ValueError:
        return
    match found.mode:
        case CheckpointMode.EXEC:
            assert found.command
        case CheckpointMode.HTTP:
            assert 1 <= found.port <= 65535
            assert ".." not in found.path
        case _:
            assert found.manifests
    assert found.timeout is None or timedelta(0) < found.timeout <= timedelta(hours=24)
