"""The embedded stack as a whole: it comes up, others stand beside it, and nothing of it outlives its owner."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from kubernetes import client
from typer.testing import CliRunner

from cli.local import app
from contract.names import ExitCode
from deploy.local.errors import StackError
from deploy.local.process import answers
from deploy.local.scene import DemoScene, create_demo_scene, is_ready, nodes, running_pods, wait_for
from deploy.local.stack import Stack, is_locked, running_stack


def test_its_environment_is_all_that_a_process_needs(local_stack: Stack) -> None:
    program = """
import boto3
from kubernetes import client, config
config.load_kube_config()
assert client.CoreV1Api().list_namespace().items
assert boto3.client("autoscaling").describe_auto_scaling_groups()["ResponseMetadata"]["HTTPStatusCode"] == 200
"""
    environment = {"PATH": os.environ["PATH"], **local_stack.environment()}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=30)
    assert environment["NODEMEND_CLUSTER"] == "local"
    assert answers(local_stack.temporal.ui_url)


def test_a_folder_belongs_to_one_stack(local_stack: Stack) -> None:
    assert is_locked(local_stack.state_dir)
    with pytest.raises(StackError, match=r"runs in .* already"), running_stack(local_stack.state_dir):
        pass
    assert answers(local_stack.temporal.ui_url)


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "stack"
    yield folder
    CliRunner().invoke(app, ["down", "--state-dir", str(folder)])


def nodemend_local(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, [*arguments, "--output", "json"])
    return result.exit_code, json.loads(result.stdout) if result.stdout.strip() else {}


def test_a_daemon_runs_beside_another_stack_and_is_killed_with_all_its_parts(
    local_stack: Stack, state_dir: Path
) -> None:
    here = ("--state-dir", str(state_dir))
    assert nodemend_local("status", *here) == (ExitCode.UNAVAILABLE, {"running": False})
    code, running = nodemend_local("up", *here)
    assert code == ExitCode.OK
    assert running["environment"]["AWS_ENDPOINT_URL"] != local_stack.aws.url
    code, state = nodemend_local("status", *here)
    assert (code, state["parts"]) == (ExitCode.OK, {"temporal": True, "kubernetes": True, "aws": True})
    assert nodemend_local("up", *here)[1]["pid"] == running["pid"]

    family = psutil.Process(running["pid"]).children(recursive=True)
    assert {"etcd", "kube-apiserver", "kube-scheduler", "kwok", "temporal"} <= {process.name() for process in family}
    os.kill(running["pid"], signal.SIGKILL)
    wait_for(lambda: not any(map(runs, family)), "the parts of the killed stack to end", patience_s=10)
    assert nodemend_local("status", *here) == (ExitCode.UNAVAILABLE, {"running": False})
    assert nodemend_local("down", *here) == (ExitCode.OK, {"stopped": False})
    assert is_ready_cluster(local_stack)


def runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def is_ready_cluster(stack: Stack) -> bool:
    with stack.kubernetes.connected() as api:
        return bool(client.CoreV1Api(api).list_namespace().items)


@pytest.fixture
def scene(local_stack: Stack, namespace: str) -> Iterator[DemoScene]:
    group = f"demo-{uuid.uuid4().hex[:8]}"
    yield create_demo_scene(local_stack, group=group, namespace=namespace)
    local_stack.fleet.remove_group(group)


def test_the_demo_scene_has_everything_on_its_target(local_stack: Stack, scene: DemoScene, namespace: str) -> None:
    cluster = nodes(local_stack, scene.group)
    assert len(cluster) == 6
    assert all(map(is_ready, cluster))
    assert not any(node.spec.unschedulable for node in cluster)
    ranks = running_pods(local_stack, scene.training_job, namespace)
    assert len({pod.spec.node_name for pod in ranks}) == len(ranks) == 4
    for work in (scene.training_job, scene.feature_job, scene.web, scene.daemonset):
        assert scene.node in {pod.spec.node_name for pod in running_pods(local_stack, work, namespace)}, work
    assert scene.feature_pods
    assert scene.web_pods
    target = next(node for node in cluster if node.metadata.name == scene.node)
    assert target.spec.provider_id == f"aws:///{scene.zone}/{scene.instance_id}"
    assert local_stack.fleet.error == ""
