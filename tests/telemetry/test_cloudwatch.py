"""CloudWatch: today's namespace and names go on, nothing is counted twice, and nobody waits for it."""

import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from temporalio.client import Client

from contract.incident import IncidentReport
from contract.names import CLOUDWATCH_NAMESPACE, NEURON_CLOUDWATCH_NAMESPACE, CloudWatchMetric, Outcome, incident_id
from deploy.local.aws import running_aws
from detector.temporal_side import TemporalSide
from tests.runbook.conftest import temporal
from tests.runbook.world import WORLDS, World, finding, identity, scripted_acts
from worker.cloudwatch import CloudWatch, MetricsInterceptor
from worker.main import ACTS_AT_ONCE, make_worker

__all__ = ["temporal"]

QUERIES = Path(__file__).parents[2] / "deploy/aws/queries.json"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Boto3's CloudWatch, on moto's server."""
    with running_aws(tmp_path_factory.mktemp("aws")) as aws, mock.patch.dict(os.environ, aws.environment()):
        yield boto3.client("cloudwatch")  # type: ignore[call-overload]


def told(client: Any, namespace: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
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
    }
    queried(told(client, CLOUDWATCH_NAMESPACE) | told(client, NEURON_CLOUDWATCH_NAMESPACE))


def queried(there: set[tuple[str, tuple[tuple[str, str], ...]]]) -> None:
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
