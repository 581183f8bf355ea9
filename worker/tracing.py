"""Spans of incidents, sent by OTLP where an endpoint is set and the exporter is installed.

Nothing here may keep a worker from repairing: what cannot be traced is said once, and left.
"""

import importlib
import logging
import os
import threading
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from worker.origin import IncidentTracing

_log = logging.getLogger(__name__)

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_FLUSH_S: Final = 3.0
"""How long a worker that stops waits for a collector: much less than its grace period."""


class Tracing:
    """Where this process sends its spans, if anywhere. The SDK's own ``OTEL_*`` variables say how."""

    def __init__(self) -> None:
        self._processor = _processor()
        self._provider = _provider(self._processor) if self._processor else None

    def interceptor(self) -> IncidentTracing | None:
        """For the worker that runs incidents; None where nobody asked for spans."""
        if self._provider is None or self._processor is None:
            return None
        return IncidentTracing(self._provider.get_tracer("nodemend"), self._processor)

    def close(self) -> None:
        """Send what waits, for a few seconds at most."""
        if self._provider:
            # An exporter tries again for longer than a pod has to stop, so it is not waited for beyond this.
            sending = threading.Thread(target=self._provider.force_flush, name="last-spans", daemon=True)
            sending.start()
            sending.join(_FLUSH_S)


def _processor() -> BatchSpanProcessor | None:
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return None
    try:
        exporter: Any = importlib.import_module(_EXPORTER).OTLPSpanExporter()
    except ImportError:
        _log.warning(
            "%s is set, and no spans are sent: the exporter is not installed. Repairs go on. Install "
            "opentelemetry-exporter-otlp-proto-http beside Nodemend, or unset it.",
            " or ".join(_ENDPOINTS),
        )
        return None
    # A bounded queue, sent from a thread of its own: a collector that is away costs spans and nothing else.
    return BatchSpanProcessor(exporter)


def _provider(processor: BatchSpanProcessor) -> TracerProvider:
    name = os.environ.get("OTEL_SERVICE_NAME", "nodemend-worker")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(processor)
    return provider
