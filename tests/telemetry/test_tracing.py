"""One trace per incident: from the detector's delivery through the workflow to every act, and named in the report."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from contract.incident import IncidentReport
from contract.names import Outcome, incident_id
from contract.trace import carrier, trace_id
from detector.temporal_side import TemporalSide
from tests.runbook.conftest import temporal
from tests.runbook.world import WORLDS, World, finding, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker
from worker.origin import IncidentTracing
from worker.tracing import Tracing

__all__ = ["temporal"]


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_detector_workflow_and_acts_are_one_trace_that_the_report_names(
    temporal: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", temporal.namespace)
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    processor = SimpleSpanProcessor(spans)
    provider.add_span_processor(processor)
    world, fault = World(), finding(node="traced")
    workflow_id = incident_id(fault.cluster, fault.node, fault.instance_id)
    WORLDS[workflow_id] = world
    tracing = IncidentTracing(provider.get_tracer("test"), processor)
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(temporal, scripted_acts(), executor, tracing=tracing):
            await TemporalSide().deliver(fault)
            report = await temporal.get_workflow_handle(workflow_id, result_type=IncidentReport).result()

    assert report.outcome is Outcome.REPLACED
    assert report.trace_id == fault.request_id
    finished = spans.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in finished} == {report.trace_id}
    acts = {span.name.removeprefix("RunActivity:") for span in finished if span.name.startswith("RunActivity:")}
    assert acts == set(world.names())
    assert "RunWorkflow:RemediateNode" in {span.name for span in finished}
    ids = {span.context.span_id for span in finished}
    (first,) = [span for span in finished if span.parent is None]
    assert first.name == "DetectFault"
    assert first.resource.attributes["service.name"] == "nodemend-detector"
    assert first.start_time == round(fault.first_seen.timestamp() * 1e9)
    assert {span.parent.span_id for span in finished if span.parent} <= ids, "a span hangs below none that was sent"


def test_a_trace_is_named_by_the_request_id_of_the_delivery() -> None:
    assert trace_id(carrier(finding().request_id).encode()) == finding().request_id


@pytest.mark.parametrize(
    "document", [b"", b"\xff", b"[]", b"{}", b'{"traceparent": 7}', b'{"traceparent": "00-xyz-1-01"}']
)
def test_a_header_that_names_no_trace_stops_no_repair(document: bytes) -> None:
    assert trace_id(document) == ""


def test_without_an_endpoint_there_are_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    assert Tracing().interceptor() is None


def test_an_endpoint_without_the_exporter_is_said_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("worker.tracing._EXPORTER", "no_such_exporter")
    tracing = Tracing()
    assert tracing.interceptor() is None
    tracing.close()
    assert "opentelemetry-exporter-otlp-proto-http" in caplog.text
