"""What a worker says and does when it cannot start, and when what it needs is away: the real process each time."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from contract.names import ExitCode, Outcome, Phase
from deploy.components import Component
from deploy.local.aws import running_aws
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from deploy.local.temporal import running_temporal
from tests.conftest import MakeNodeGroup
from tests.harness import (
    QUICK_POLICY,
    connect,
    http,
    report_about,
    running_worker,
    send,
    until,
    worker_environment,
    write_policy,
)
from tests.operating.gateway import refusing_gateway
from tests.operating.proxy import Proxy

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


def run_worker(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """A worker that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "worker"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )


@contextmanager
def started(environment: dict[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A worker that is expected to go on."""
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "worker"], env=environment, stderr=output, cwd=ROOT)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(40)


def kubeconfig(folder: Path, server: str) -> str:
    """A kubeconfig that names a server and nothing else."""
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }
        )
    )
    return str(path)


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """An environment in which a worker could start, but for Temporal."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "NODEMEND_CLUSTER": "test",
        "NODEMEND_HEALTH_ADDRESS": "127.0.0.1:0",
        "NODEMEND_METRICS_ADDRESS": "",
        "KUBECONFIG": kubeconfig(tmp_path, "https://127.0.0.1:9"),
        "AWS_REGION": "us-west-2",
        "TEMPORAL_ADDRESS": "127.0.0.1:9",
    }


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"NODEMEND_CLUSTER": None}, ExitCode.CONFIG, "NODEMEND_CLUSTER"),
        ({"NODEMEND_CLUSTER": "a b"}, ExitCode.CONFIG, "NODEMEND_CLUSTER"),
        ({"NODEMEND_HEALTH_ADDRESS": "8080"}, ExitCode.CONFIG, "NODEMEND_HEALTH_ADDRESS"),
        ({"NODEMEND_POLICY_FILE": "/nowhere/policy.yaml"}, ExitCode.NO_INPUT, "/nowhere/policy.yaml"),
        ({"AWS_REGION": None}, ExitCode.CONFIG, "AWS_REGION"),
        ({"KUBECONFIG": "/nowhere/config"}, ExitCode.CONFIG, "KUBECONFIG"),
    ],
)
def test_wrong_setting_is_named_with_the_remedy_and_its_own_exit_code(
    plain: dict[str, str], change: dict[str, str | None], code: int, says: str
) -> None:
    environment = {key: value for key, value in {**plain, **change}.items() if value is not None}
    done = run_worker(environment)
    assert done.returncode == code, done.stderr
    assert says in done.stderr


def test_broken_policy_names_file_field_and_value(plain: dict[str, str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("groups: {trn1: {mode: destroy}}")
    done = run_worker({**plain, "NODEMEND_POLICY_FILE": str(policy)})
    assert done.returncode == ExitCode.DATA
    assert all(word in done.stderr for word in (str(policy), "groups.trn1.mode", "destroy"))


@pytest.mark.temporal
def test_wrong_namespace_ends_with_its_own_code(plain: dict[str, str], tmp_path: Path) -> None:
    with running_temporal(tmp_path) as temporal:
        done = run_worker({**plain, "TEMPORAL_ADDRESS": temporal.address, "TEMPORAL_NAMESPACE": "elsewhere"})
    assert done.returncode == ExitCode.CONFIG
    assert "no namespace 'elsewhere'" in done.stderr
    assert "namespace create" in done.stderr


@pytest.mark.parametrize("status", [7, 16], ids=["permission denied", "unauthenticated"])
def test_wrong_credentials_end_with_their_own_code(plain: dict[str, str], status: int) -> None:
    with refusing_gateway(status, "request unauthorized") as address:
        done = run_worker({**plain, "TEMPORAL_ADDRESS": address})
    assert done.returncode == ExitCode.NO_PERMISSION, done.stderr
    assert address in done.stderr
    assert "TEMPORAL_API_KEY" in done.stderr


@pytest.mark.temporal
def test_worker_waits_for_temporal_says_so_and_its_health_tells_the_truth(
    plain: dict[str, str], tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "log"
    environment = {**plain, "TEMPORAL_ADDRESS": f"127.0.0.1:{port}", "NODEMEND_HEALTH_ADDRESS": "127.0.0.1:0"}
    with started(environment, log) as process:
        wait_for(lambda: "cannot be reached" in log.read_text(), "the worker to say so")
        assert process.poll() is None
        told = json.loads(next(line for line in log.read_text().splitlines() if "cannot be reached" in line))
        assert f"127.0.0.1:{port}" in told["message"]
        assert "spools" in told["message"]
        process.terminate()
        assert process.wait(20) == ExitCode.OK


def test_health_is_503_until_temporal_has_seen_the_worker_poll_and_when_it_is_gone(
    local_stack: Stack, tmp_path: Path
) -> None:
    policy = write_policy(tmp_path / "policy.yaml")
    with (
        Proxy(local_stack.temporal.address) as proxy,
        running_worker(local_stack, policy, tmp_path, TEMPORAL_ADDRESS=proxy.address) as worker,
    ):
        wait_for(lambda: "health on http" in worker.text(), "the worker to start")
        url = next(
            word
            for line in worker.text().splitlines()
            for word in json.loads(line)["message"].split()
            if "healthz" in word
        )
        wait_for(lambda: http(url)[0] == 200, "health")
        proxy.cut()
        wait_for(lambda: http(url)[0] == 503, "the loss to show", 60.0)
        assert "Temporal" in json.loads(http(url)[1])["reason"]
        proxy.mend()
        wait_for(lambda: http(url)[0] == 200, "health again", 60.0)


async def test_api_server_that_is_away_is_waited_for(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(2)
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: QUICK_POLICY})
    with Proxy(local_stack.kubernetes.url.removeprefix("https://")) as proxy:
        text = Path(local_stack.environment_of(Component.WORKER)["KUBECONFIG"]).read_text()
        config = tmp_path / "kubeconfig"
        config.write_text(text.replace(local_stack.kubernetes.url, f"https://{proxy.address}"))
        proxy.cut()
        with running_worker(local_stack, policy, tmp_path, KUBECONFIG=str(config)):
            handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
            message = ""
            deadline = time.monotonic() + 40
            while "cannot be reached" not in message and time.monotonic() < deadline:
                pending = (await handle.describe()).raw_description.pending_activities
                message = pending[0].last_failure.message if pending else ""
            assert proxy.address in message
            proxy.mend()
            assert (await handle.result()).outcome is Outcome.REPLACED


async def test_refusal_of_aws_parks_the_incident_and_names_the_action(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(2)
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: QUICK_POLICY})
    with running_aws(tmp_path) as strict:
        # moto's own switch: from now on it checks credentials, and knows none.
        switch = urllib.request.Request(
            f"{strict.url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}, method="POST"
        )
        urllib.request.urlopen(switch, timeout=5).close()
        with running_worker(local_stack, policy, tmp_path, AWS_ENDPOINT_URL=strict.url):
            handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
            report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
            # Two things are asked of AWS at the same time.
            first, second = "autoscaling:DescribeAutoScalingInstances", "ec2:DescribeInstances"
            assert any(f"AWS refuses `{action}`" in report.summary for action in (first, second))
            assert "Grant it" in report.summary
            await handle.terminate()


def test_metrics_are_prometheus_and_logs_are_json_with_the_incident_and_the_node(
    local_stack: Stack, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    policy = write_policy(tmp_path / "policy.yaml")

    async def play() -> str:
        handle = await send(await connect(local_stack), report_about(local_stack, "nobody-2"))
        assert (await handle.result()).outcome is Outcome.NODE_GONE
        await send(await connect(local_stack), report_about(local_stack, "nobody-3", cluster="elsewhere"))
        return handle.id

    with running_worker(local_stack, policy, tmp_path, NODEMEND_METRICS_ADDRESS=address) as worker:
        incident = asyncio.run(play())
        wait_for(lambda: "elsewhere" in worker.text(), "the refusal in the log")
        metrics = http(f"http://{address}/metrics")[1]
    assert "nodemend_incidents_closed_total{" in metrics
    assert 'outcome="node-gone"' in metrics
    # A page asks for growth, so what it asks about is there from the start.
    assert re.search(r"^nodemend_escalations_total{.*} 0$", metrics, re.M)
    assert re.search(r"^nodemend_guards_raised_total{.*} 0$", metrics, re.M)
    assert "temporal_workflow_completed_total" in metrics
    records = [json.loads(line) for line in worker.text().splitlines()]
    assert all({"time", "level", "logger", "message"} <= record.keys() for record in records)
    (refused,) = [record for record in records if "elsewhere" in record["message"]][:1]
    assert refused["incident"].startswith("remediate-elsewhere-nobody-3")
    assert refused["node"] == "nobody-3"
    assert incident


def test_told_to_stop_it_hands_its_act_over_and_ends_with_0(local_stack: Stack, tmp_path: Path) -> None:
    policy = write_policy(tmp_path / "policy.yaml")
    with started(worker_environment(local_stack, policy, tmp_path), tmp_path / "log") as process:
        wait_for(lambda: "Working on" in (tmp_path / "log").read_text(), "the worker to start")
        process.terminate()
        assert process.wait(40) == 0
