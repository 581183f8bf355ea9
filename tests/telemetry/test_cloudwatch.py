"""CloudWatch: today's namespace and names go on, nothing is counted twice, and nobody waits for it."""

import asyncio
import json
import os
import re
import subprocess
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from temporalio.client import Client

from contract.incident import IncidentReport
from contract.names import (
    CLOUDWATCH_NAMESPACE,
    NEURON_CLOUDWATCH_NAMESPACE,
    ActivityName,
    CloudWatchMetric,
    ErrorType,
    ExitCode,
    Outcome,
    OverrideName,
    Phase,
    incident_id,
)
from deploy.components import Component
from deploy.local.aws import running_aws
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from detector.temporal_side import TemporalSide
from tests.harness import connect
from tests.operating.command import NODEMEND, clean_environment
from tests.runbook.conftest import play, task_queue, temporal, world
from tests.runbook.world import WORLDS, Play, World, fails, finding, identity, scripted_acts
from worker.cloudwatch import CloudWatch, MetricsInterceptor
from worker.main import ACTS_AT_ONCE, make_worker
from worker.paging import standing
from worker.paging.sources import INCIDENTS, NODES, Sources
from worker.paging.standing import Standing
from worker.temporal import register_search_attributes

__all__ = ["play", "task_queue", "temporal", "world"]

AWS = Path(__file__).parents[2] / "deploy/aws"
QUERIES, ALARMS = AWS / "queries.json", AWS / "alarms.json"
STANDING = ("NeedsHuman", "StuckIncidents", "BudgetHeld", "DetectorsBlind", "Pollers")
Told = set[tuple[str, tuple[tuple[str, str], ...]]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Boto3's CloudWatch, on moto's server."""
    with running_aws(tmp_path_factory.mktemp("aws")) as aws, mock.patch.dict(os.environ, aws.environment()):
        yield boto3.client("cloudwatch")  # type: ignore[call-overload]


def told(client: Any, namespace: str) -> Told:
    found = client.list_metrics(Namespace=namespace)["Metrics"]
    return {(one["MetricName"], tuple(sorted((d["Name"], d["Value"]) for d in one["Dimensions"]))) for one in found}


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_incident_is_told_in_todays_names_and_in_ours(
    temporal: Client, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", temporal.namespace)
    fault = finding(node="watched", reason="NeuronHasError_DMA_ERROR")
    workflow_id = incident_id(fault.cluster, fault.node, fault.instance_id)
    WORLDS[workflow_id] = World()
    metrics = CloudWatch(client, gather_s=0.0)
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(temporal, scripted_acts(), executor, metrics=MetricsInterceptor(metrics)):
            await TemporalSide().deliver(fault)
            report = await temporal.get_workflow_handle(workflow_id, result_type=IncidentReport).result()
        await Standing(temporal, "test", metrics).tell({INCIDENTS: 0, NODES: 0})
    metrics.close()

    assert report.outcome is Outcome.REPLACED
    assert report.identity
    machine = (("ClusterName", "test"), ("InstanceId", report.identity.instance_id))
    assert told(client, NEURON_CLOUDWATCH_NAMESPACE) == {("NeuronHasError_DMA_ERROR", machine)}
    assert told(client, CLOUDWATCH_NAMESPACE) == {
        (CloudWatchMetric.FAULTS, (("ClusterName", "test"), ("Reason", "NeuronHasError_DMA_ERROR"))),
        (CloudWatchMetric.FAULTS, (("ClusterName", "test"), ("NodeGroup", report.identity.group))),
        (CloudWatchMetric.FAULTS, (("ClusterName", "test"), ("NodeName", report.identity.node))),
        (CloudWatchMetric.INCIDENTS_CLOSED, (("ClusterName", "test"), ("Outcome", Outcome.REPLACED))),
        *((name, (("ClusterName", "test"),)) for name in STANDING),
    }
    queried(told(client, CLOUDWATCH_NAMESPACE) | told(client, NEURON_CLOUDWATCH_NAMESPACE))
    watched(told(client, CLOUDWATCH_NAMESPACE))


def queried(there: Told) -> None:
    """Each query of deploy/aws asks for a metric that is there, with exactly the dimensions that it has."""
    asked = {name: frozenset(key for key, _ in dimensions) for name, dimensions in there}
    schemas = {(name, frozenset(key for key, _ in dimensions)) for name, dimensions in there}
    for title, query in json.loads(QUERIES.read_text()).items():
        found = re.fullmatch(
            r"SELECT (?:SUM|AVG)\((?P<name>\w+)\) FROM (?:SCHEMA\(\w+, (?P<schema>[\w, ]+)\)|\w+) "
            r"WHERE ClusterName = 'CLUSTER'(?: GROUP BY (?P<group>\w+))?(?: ORDER BY SUM\(\) DESC LIMIT \d+)?",
            query,
        )
        assert found, title
        dimensions = frozenset((found["schema"] or "ClusterName, InstanceId").split(", "))
        assert found["name"] in asked, title
        assert (found["name"], dimensions) in schemas, title
        assert found["group"] is None or found["group"] in dimensions, title


def watched(there: Told) -> None:
    """Each alarm is on a metric that is there, with exactly the dimensions that it has: else it would never ring."""
    schemas = {(name, frozenset(key for key, _ in dimensions)) for name, dimensions in there}
    for alarm in json.loads(ALARMS.read_text()):
        if "MetricName" in alarm:
            assert alarm["Namespace"] == CLOUDWATCH_NAMESPACE
            asked = (alarm["MetricName"], frozenset(one["Name"] for one in alarm["Dimensions"]))
        else:
            ((_, name, dimensions),) = re.findall(
                r"SELECT (SUM)\((\w+)\) FROM SCHEMA\(Nodemend, ([\w, ]+)\)", alarm["Metrics"][0]["Expression"]
            )
            asked = (name, frozenset(dimensions.split(", ")))
        assert asked in schemas, alarm["AlarmName"]


class Values:
    """A CloudWatch that keeps the values."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {}

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:  # noqa: N803 - boto3's
        assert Namespace == CLOUDWATCH_NAMESPACE
        self.told |= {datum["MetricName"]: datum["Value"] for datum in MetricData}


async def standing_of(temporal: Client, cluster: str, alerts: dict[str, int]) -> dict[str, float]:
    kept = Values()
    metrics = CloudWatch(kept, gather_s=0.0)
    await Standing(temporal, cluster, metrics).tell(alerts)
    metrics.close()
    return kept.told


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_what_waits_for_a_human_and_what_is_stuck_are_numbers_and_what_is_not_known_is_none(
    temporal: Client, play: Play, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_drain = asyncio.Event()

    async def draining(argument: Any) -> Any:
        await may_drain.wait()
        return world.answer(ActivityName.DRAIN_NODE, argument)

    world.on(ActivityName.DRAIN_NODE, draining)
    stuck = await play.start()
    await stuck.until(lambda report: report.phase is Phase.ADMITTED)
    assert (await standing_of(temporal, "test", {}))[CloudWatchMetric.STUCK_INCIDENTS] == 0, "it is no six hours old"
    monkeypatch.setattr(standing, "STUCK_AFTER", timedelta(hours=-1))
    # Temporal lists a workflow a moment after it changed.
    while not (told := await standing_of(temporal, "test", {}))[CloudWatchMetric.STUCK_INCIDENTS]:
        pass
    # Who reads no alerts does not know how many wait; nobody has asked this cluster's budget for anything.
    assert told.keys() == {CloudWatchMetric.STUCK_INCIDENTS, CloudWatchMetric.BUDGET_HELD, CloudWatchMetric.POLLERS}
    assert told[CloudWatchMetric.BUDGET_HELD] == 0
    assert (await standing_of(temporal, "tes", {}))[CloudWatchMetric.STUCK_INCIDENTS] == 0, "another cluster"

    waits = World()
    waits.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED, "A budget allows no eviction."))
    parked = await Play(temporal, play.task_queue, waits).start()
    await parked.until_phase(Phase.NEEDS_HUMAN)
    sources = Sources(temporal, lambda: [blind("node-1"), blind("node-2")], "test")
    while parked.handle.id not in {alert.key for alert in await sources.read()}:
        pass
    told = await standing_of(temporal, "test", sources.seen)
    assert told[CloudWatchMetric.NEEDS_HUMAN] == sources.seen[INCIDENTS] >= 1
    assert told[CloudWatchMetric.DETECTORS_BLIND] == 2

    may_drain.set()
    await stuck.result()
    await parked.press(OverrideName.RESUME)
    await parked.result()


def blind(node: str) -> dict[str, Any]:
    condition = {"type": "KernelLogHealth", "status": "True", "reason": "KernelLogUnreadable", "message": "gone"}
    conditions = [{**condition, "lastTransitionTime": "2026-12-01T12:00:00Z"}]
    return {"metadata": {"name": node}, "status": {"conditions": conditions}}


@pytest.mark.stack
async def test_pager_tells_cloudwatch_though_it_pages_nobody_and_needs_no_more_rights_than_the_worker(
    local_stack: Stack, tmp_path: Path
) -> None:
    cluster = f"cluster-{uuid.uuid4().hex[:8]}"
    # As a worker does first of all.
    await register_search_attributes(await connect(local_stack))
    environment = {
        **local_stack.environment_of(Component.WORKER),
        # The FleetBudget of other tests has no worker now, and what cannot be read is not told.
        "NODEMEND_CLUSTER": cluster,
        "NODEMEND_CLOUDWATCH": "true",
        "NODEMEND_RECORD_DIR": str(tmp_path),
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([NODEMEND, "page"], env=clean_environment(**environment), stderr=log)
        try:
            region = {"endpoint_url": local_stack.aws.url, "region_name": local_stack.aws.region}
            client: Any = boto3.client(  # type: ignore[call-overload]
                "cloudwatch", aws_access_key_id="nobody", aws_secret_access_key="nobody", **region
            )
            wanted = {(name, (("ClusterName", cluster),)) for name in STANDING}
            everything = partial(wait_for, lambda: wanted <= told(client, CLOUDWATCH_NAMESPACE), "everything is told")
            await asyncio.to_thread(everything, patience_s=90)
        finally:
            process.terminate()
            assert process.wait(40) == ExitCode.OK


class Away:
    """A CloudWatch that answers only once it is let."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.calls: list[tuple[str, int]] = []

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:  # noqa: N803 - boto3's
        self.let_go.wait(30)
        self.calls.append((Namespace, len(MetricData)))
        raise EndpointConnectionError(endpoint_url="https://monitoring")


def test_nobody_waits_for_a_cloudwatch_that_hangs_and_what_it_refuses_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = Away()
    metrics = CloudWatch(away, gather_s=0.0)
    for seq in range(20_000):
        metrics.faults(identity(), [finding(seq=seq, reason="KernelPanic")])
    away.let_go.set()
    metrics.close()
    assert away.calls
    assert "Repairs go on" in caplog.text


def test_fault_that_an_act_reports_again_is_counted_once_and_many_travel_together() -> None:
    away = Away()
    metrics = CloudWatch(away, gather_s=0.0)
    # The thread hangs with the first; what comes meanwhile waits.
    metrics.faults(identity(), [finding(seq=1, reason="KernelPanic")])
    for _ in range(3):
        metrics.faults(identity(), [finding(seq=seq, reason="KernelPanic") for seq in range(1, 11)])
    metrics.closed("test", "run", "replaced")
    metrics.closed("test", "run", "replaced")
    away.let_go.set()
    metrics.close()
    assert sum(number for _, number in away.calls) == 31, "each of ten by reason, group and node, and the incident"
    assert {namespace for namespace, _ in away.calls} == {CLOUDWATCH_NAMESPACE}
