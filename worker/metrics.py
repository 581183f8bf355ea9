"""Where the worker's metrics go: served for Prometheus, or pushed by OTLP where ``OTEL_METRICS_EXPORTER=otlp`` says so.

Temporal's SDK keeps them, and it has one way at a time. Variables are OpenTelemetry's own
(https://opentelemetry.io/docs/specs/otel/protocol/exporter).
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import unquote

from temporalio.common import MetricMeter
from temporalio.runtime import OpenTelemetryConfig, PrometheusConfig

from contract.address import parse_address
from contract.names import (
    BUDGET_TASK_QUEUE,
    DURATION_METRIC,
    ESCALATIONS_METRIC,
    FLEET_BUDGET,
    GUARDS_RAISED_METRIC,
    INTERVAL_METRIC,
    REMEDIATE_NODE,
    TASK_QUEUE,
    ExitCode,
)
from worker.errors import StartError

_BUCKETS: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14400.0, 86400.0)
"""Seconds. The SDK's own buckets end where a drain begins."""
_EXPORTER: Final = "OTEL_METRICS_EXPORTER"
_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_OWN_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_EVERY: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_USUAL_MS: Final = "60000"


def metrics_config(address: str, environment: Mapping[str, str]) -> PrometheusConfig | OpenTelemetryConfig | None:
    """What the SDK is to do with metrics; None where nobody wants them.

    Raises:
        StartError: OTLP is asked for, and what it needs is missing or wrong.
    """
    overrides = dict.fromkeys((DURATION_METRIC, INTERVAL_METRIC), _BUCKETS)
    if environment.get(_EXPORTER) == "otlp":
        return OpenTelemetryConfig(
            url=_url(environment),
            headers=_headers(environment),
            metric_periodicity=_period(environment),
            durations_as_seconds=True,
            http=True,
            histogram_bucket_overrides=overrides,
        )
    if not address:
        return None
    return PrometheusConfig(
        bind_address=str(parse_address(address)),
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
        histogram_bucket_overrides=overrides,
    )


def begin_at_zero(meter: MetricMeter, namespace: str) -> None:
    """Serve the counters that people are paged by before they count: pages ask for growth, and 1 from nothing is none.

    With the attributes that the SDK gives to what workflows count, for others make other series.
    """
    for name, words, queue, workflow in (
        (ESCALATIONS_METRIC, "Waits for a human", TASK_QUEUE, REMEDIATE_NODE),
        (GUARDS_RAISED_METRIC, "Common causes suspected", BUDGET_TASK_QUEUE, FLEET_BUDGET),
    ):
        attributes = {"namespace": namespace, "task_queue": queue, "workflow_type": workflow}
        meter.create_counter(name, words).add(0, attributes)


def _url(environment: Mapping[str, str]) -> str:
    if own := environment.get(_OWN_ENDPOINT):
        return own
    if shared := environment.get(_ENDPOINT):
        return f"{shared.rstrip('/')}/v1/metrics"
    raise StartError(
        f"{_EXPORTER}=otlp is set, and no collector is named.",
        f"Set {_ENDPOINT} to its OTLP/HTTP address, for example http://otel-collector.monitoring:4318.",
        ExitCode.CONFIG,
    )


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    text = environment.get("OTEL_EXPORTER_OTLP_METRICS_HEADERS") or environment.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = [part.partition("=") for part in text.split(",") if "=" in part]
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}


def _period(environment: Mapping[str, str]) -> timedelta:
    text = environment.get(_EVERY) or _USUAL_MS
    if not text.isdigit() or int(text) == 0:
        raise StartError(
            f"{_EVERY} is {text!r}.", "Set it to a whole number of milliseconds, or unset it.", ExitCode.CONFIG
        )
    return timedelta(milliseconds=int(text))
