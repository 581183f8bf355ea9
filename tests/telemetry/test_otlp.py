"""Spans and metrics by OTLP/HTTP: what a collector receives from a worker, and what it costs when there is none."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from temporalio.client import Client
from temporalio.runtime import OpenTelemetryConfig, PrometheusConfig

from contract.incident import IncidentReport
from contract.names import ClusterSource, Outcome, incident_id
from detector.temporal_side import TemporalSide
from tests.runbook.conftest import temporal
from tests.runbook.world import WORLDS, World, finding, scripted_acts
from worker.errors import StartError
from worker.main import ACTS_AT_ONCE, make_worker
from worker.metrics import metrics_config
from worker.origin import span_of
from worker.temporal import connect, make_runtime
from worker.tracing import Tracing

__all__ = ["temporal"]


class Collector:
    """A receiver of OTLP/HTTP on loopback, as a collector is one."""

    def __init__(self) -> None:
        self.spans: dict[str, set[str]] = {}
        """Names by service."""
        self.traces: set[str] = set()
        self.metrics: set[str] = set()
        self.changed = threading.Condition()
        self.address = ""

    def receive(self, path: str, body: bytes) -> None:
        with self.changed:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    (service,) = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
                    for span in (span for scope in resource.scope_spans for span in scope.spans):
                        self.spans.setdefault(service, set()).add(span.name)
                        self.traces.add(span.trace_id.hex())
            elif path == "/v1/metrics":
                for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self.metrics |= {metric.name for scope in measured.scope_metrics for metric in scope.metrics}
            self.changed.notify_all()

    def await_metric(self, name: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: name in self.metrics, 60), self.metrics


@pytest.fixture(scope="session")
def collector() -> Collector:
    """It is there to the end: the SDK's runtime goes on sending until the process ends."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.receive(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return collector


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_collector_gets_one_trace_of_detector_workflow_and_acts_and_the_metrics(
    temporal: Client, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = temporal.service_client.config.target_host
    monkeypatch.setenv("TEMPORAL_ADDRESS", target)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", temporal.namespace)
    fault = finding(node="collected")
    workflow_id = incident_id(fault.cluster, fault.node, fault.instance_id)
    WORLDS[workflow_id] = World()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
    tracing = Tracing()
    config = {"target_host": target, "namespace": temporal.namespace}
    client = await connect(config, make_runtime(""), "otlp")  # type: ignore[arg-type]
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(client, scripted_acts(), executor, tracing=tracing.interceptor()):
            await TemporalSide().deliver(fault)
            handle = client.get_workflow_handle(workflow_id, result_type=IncidentReport)
            report = await handle.result()
            collector.await_metric("nodemend_incidents_closed")
            collector.await_metric("nodemend_interval")
    tracing.close()
    assert report.outcome is Outcome.REPLACED
    assert collector.traces == {report.trace_id}
    assert collector.spans["nodemend-detector"] == {"DetectFault"}
    assert {"RunWorkflow:RemediateNode", "RunActivity:identify_node"} <= collector.spans["nodemend-worker"]


def test_what_watch_cluster_reported_is_told_as_its_own() -> None:
    seen = datetime(2026, 12, 2, tzinfo=UTC)
    report = finding().model_copy(update={"source": ClusterSource.EC2, "first_seen": seen})
    span = span_of(report, seen + timedelta(seconds=2))
    assert span.resource.attributes["service.name"] == "nodemend-watch-cluster"
    assert span.start_time is not None
    assert span.end_time == span.start_time + 2 * 10**9


def test_a_node_whose_clock_is_ahead_has_no_span_that_ends_before_it_begins() -> None:
    report = finding()
    span = span_of(report, report.first_seen - timedelta(minutes=5))
    assert span.end_time == span.start_time


def test_metrics_are_served_unless_otlp_is_asked_for() -> None:
    assert isinstance(metrics_config("127.0.0.1:0", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}), PrometheusConfig)
    assert metrics_config("", {}) is None


def test_otlp_takes_the_variables_of_opentelemetry() -> None:
    environment = {
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/",
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b,other=c",
        "OTEL_METRIC_EXPORT_INTERVAL": "5000",
    }
    config = metrics_config("127.0.0.1:9464", environment)
    assert isinstance(config, OpenTelemetryConfig)
    assert (config.url, config.headers, config.metric_periodicity) == (
        "http://collector:4318/v1/metrics",
        {"api-key": "a b", "other": "c"},
        timedelta(seconds=5),
    )
    own = metrics_config("", {**environment, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://other/in"})
    assert isinstance(own, OpenTelemetryConfig)
    assert own.url == "http://other/in"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "no collector is named"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRIC_EXPORT_INTERVAL": "5s"}, "5s"),
    ],
)
def test_wrong_setting_of_otlp_is_named(environment: dict[str, str], says: str) -> None:
    with pytest.raises(StartError, match=says):
        metrics_config("", {"OTEL_METRICS_EXPORTER": "otlp", **environment})
