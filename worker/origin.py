"""The detector's own span, told by the worker: nodes need no SDK and no way to a collector.

The detector named trace and span when it delivered (``contract.trace``), and its report says when the fault was first
seen. The worker that takes the incident up sends the span with exactly these ids, so that an act that is tried again
sends the same span and not another.
"""

from datetime import datetime
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, Tracer, get_current_span
from temporalio import activity
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from contract.acts import IdentifyNode
from contract.fault import FaultReport
from contract.names import ClusterSource
from contract.trace import span_id

NAME: Final = "DetectFault"
_DETECTOR: Final = "nodemend-detector"
_WATCHER: Final = "nodemend-watch-cluster"


class IncidentTracing(TracingInterceptor):
    """Spans for an incident's workflow and its acts, below the one of the process that reported it."""

    def __init__(self, tracer: Tracer, processor: SpanProcessor) -> None:
        """``processor``: where the spans of ``tracer`` go."""
        super().__init__(tracer)
        self._processor = processor

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Have each act told, and look at what ``identify_node`` is given."""
        return super().intercept_activity(_Looking(next, self._processor))


class _Looking(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, processor: SpanProcessor) -> None:
        super().__init__(following)
        self._processor = processor

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if input.args and isinstance(input.args[0], IdentifyNode):
            trace = get_current_span().get_span_context().trace_id
            for report in input.args[0].reports:
                if int(report.request_id, 16) == trace:
                    self._processor.on_end(span_of(report, activity.info().scheduled_time))
        return await super().execute_activity(input)


def span_of(report: FaultReport, taken_up: datetime) -> ReadableSpan:
    """From the first sign of the fault, by the node's clock, until its incident is taken up. Pure."""
    began = _nanoseconds(report.first_seen)
    name = _WATCHER if report.source in set(ClusterSource) else _DETECTOR
    return ReadableSpan(
        name=NAME,
        context=SpanContext(
            int(report.request_id, 16), int(span_id(report.request_id), 16), False, TraceFlags(TraceFlags.SAMPLED)
        ),
        kind=SpanKind.PRODUCER,
        resource=Resource.create(
            {"service.name": name, "service.version": report.detector_version, "host.name": report.node}
        ),
        instrumentation_scope=InstrumentationScope("nodemend"),
        attributes={
            "nodemend.cluster": report.cluster,
            "nodemend.node": report.node,
            "nodemend.rule": report.rule,
            "nodemend.reason": report.reason,
            "nodemend.source": report.source,
            "nodemend.drill": report.drill,
        },
        start_time=began,
        # Two clocks: a span that ended before it began is refused by collectors.
        end_time=max(began, _nanoseconds(taken_up)),
    )


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 1e6) * 1000
