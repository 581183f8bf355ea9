"""`nodemend uninstall` with leftovers of each kind, and with Temporal, AWS or the cluster away."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from kubernetes import client

from cli.leftovers import NODE_ANNOTATIONS
from contract.names import (
    FAILED_MACHINES,
    INCIDENT_LABEL,
    QUARANTINE_TAINT,
    STARTUP_TAINT,
    WATCH_CLUSTER,
    ExitCode,
    reaper_id,
)
from deploy.aws import ALARMS
from deploy.local.scene import create_node_group
from deploy.local.stack import CLUSTER, Stack, running_stack
from tests.harness import connect
from tests.operating.command import nodemend
from worker.schedules import keep_reaping

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

NAMESPACE = "default"
NOWHERE = "127.0.0.1:9"
OTHER = f"{CLUSTER}-b"
"""A cluster whose name begins alike."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("friday")) as stack:
        yield stack


def cloudwatch(stack: Stack) -> Any:
    account = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nobody"}
    return boto3.client("cloudwatch", endpoint_url=stack.aws.url, region_name=stack.aws.region, **account)  # type: ignore[call-overload]


def alarms(stack: Stack) -> set[str]:
    return {alarm["AlarmName"] for alarm in cloudwatch(stack).describe_alarms()["MetricAlarms"]}


async def leave_some_of_each_kind(stack: Stack) -> str:
    """Returns the name of the node that is marked."""
    (node,) = create_node_group(stack, "left", 1).nodes
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        taints = [{"key": QUARANTINE_TAINT, "value": "waiting", "effect": "PreferNoSchedule"}]
        taints += [{"key": STARTUP_TAINT, "effect": "NoSchedule"}, {"key": "example.com/mine", "effect": "NoSchedule"}]
        marks = {"annotations": dict.fromkeys(NODE_ANNOTATIONS, "x"), "labels": {INCIDENT_LABEL: "x"}}
        core.patch_node(node, {"metadata": marks, "spec": {"taints": taints}})
        condition = {"type": "KernelLogHealth", "status": "False", "reason": "x", "message": "x"}
        core.patch_node_status(node, {"status": {"conditions": [condition]}})
        for name in (WATCH_CLUSTER, FAILED_MACHINES):
            core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": name}})
        lease = {"metadata": {"name": f"nodemend-detector-{node}"}}
        client.CoordinationV1Api(api).create_namespaced_lease(NAMESPACE, lease)
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "probe", "image": "probe"}]}}
        labels = {"app.kubernetes.io/managed-by": "nodemend"}
        job = {"metadata": {"name": "probe", "labels": labels}, "spec": {"suspend": True, "template": template}}
        client.BatchV1Api(api).create_namespaced_job(NAMESPACE, job)
    await keep_reaping(await connect(stack), CLUSTER, 600.0)
    for name in (CLUSTER, OTHER):
        for alarm in json.loads(ALARMS.read_text().replace("CLUSTER", name)):
            cloudwatch(stack).put_metric_alarm(**alarm)
    return node


async def test_what_is_left_is_listed_cleared_and_then_gone_whatever_is_away(stack: Stack) -> None:
    node = await leave_some_of_each_kind(stack)
    environment = stack.environment()
    assert len(alarms(stack)) == 2 * len(json.loads(ALARMS.read_text()))

    checked = nodemend("uninstall", "--check", **environment)
    assert checked.returncode == ExitCode.FAILED
    kinds = {line.partition(" ")[0] for line in checked.stdout.splitlines()}
    assert kinds == {"Node", "Lease", "ConfigMap", "Job", "Schedule", "Alarm"}, checked.stdout
    (marked,) = [line for line in checked.stdout.splitlines() if line.startswith(f"Node {node}: ")]
    for part in (*NODE_ANNOTATIONS, INCIDENT_LABEL, QUARANTINE_TAINT, STARTUP_TAINT, "condition KernelLogHealth"):
        assert part in marked
    assert "example.com/mine" not in marked
    assert f"nodemend-{OTHER}-" not in checked.stdout

    away = nodemend("uninstall", **{**environment, "TEMPORAL_ADDRESS": NOWHERE})
    assert away.returncode == ExitCode.UNAVAILABLE
    assert f"Temporal at {NOWHERE}" in away.stderr
    assert "`--without temporal` clears the rest" in away.stderr

    without_region = {key: value for key, value in environment.items() if not key.startswith("AWS_")}
    for blind in ({**environment, "AWS_ENDPOINT_URL": f"http://{NOWHERE}"}, without_region):
        unseen = nodemend("uninstall", "--check", **blind)
        assert unseen.returncode == ExitCode.FAILED
        (line,) = [line for line in unseen.stdout.splitlines() if line.startswith("Alarm")]
        assert "Alarms of CloudWatch: were not looked at: " in line
        assert "Set AWS_REGION" in line
        assert "--without aws" in line
    assert nodemend("uninstall", "--check", **environment).stdout == checked.stdout, "nothing was changed so far"

    # The cluster is cleared, whatever is gone for good.
    gone = {**without_region, "TEMPORAL_ADDRESS": NOWHERE}
    cleared = nodemend("uninstall", "--without", "temporal", "--without", "aws", **gone)
    assert cleared.returncode == ExitCode.OK, cleared.stdout + cleared.stderr
    assert f"Node {node} has a claim that cannot be read" in cleared.stderr
    assert "Not looked at, as you said: aws." in cleared.stderr
    assert "Not looked at, as you said: temporal." in cleared.stderr

    rest = nodemend("uninstall", "--check", **environment)
    assert {line.partition(" ")[0] for line in rest.stdout.splitlines()} == {"Schedule", "Alarm"}
    cleared = nodemend("uninstall", **environment)
    assert cleared.returncode == ExitCode.OK, cleared.stdout + cleared.stderr
    assert f"Schedule {reaper_id(CLUSTER)} is removed." in cleared.stderr
    assert "alarms of CloudWatch: deleted" in cleared.stderr
    kept = json.loads(ALARMS.read_text().replace("CLUSTER", OTHER))
    assert alarms(stack) == {alarm["AlarmName"] for alarm in kept}
    checked = nodemend("uninstall", "--check", **environment)
    assert checked.returncode == ExitCode.OK
    assert checked.stdout == "Nothing of Nodemend is left here.\n"


def test_without_a_cluster_there_is_nothing_to_look_at(stack: Stack, tmp_path: Any) -> None:
    kubeconfig = stack.kubernetes.kubeconfig.read_text().replace(stack.kubernetes.url, f"https://{NOWHERE}")
    (tmp_path / "config").write_text(kubeconfig)
    for command in (["uninstall"], ["uninstall", "--check"]):
        away = nodemend(*command, **{**stack.environment(), "KUBECONFIG": str(tmp_path / "config")})
        assert away.returncode == ExitCode.UNAVAILABLE, away.stdout + away.stderr
        assert "Nodes, Leases, ConfigMaps and Jobs are read and cleared." in away.stderr
