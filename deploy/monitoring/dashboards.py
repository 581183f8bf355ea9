"""The Grafana dashboard: rows of panels, from a fleet's question to a node's."""

from typing import Any, Final, NamedTuple

from deploy.monitoring.queries import grown, of_the_budget

_WIDTH: Final = 8
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """One question and the query that answers it."""

    title: str
    expression: str
    legend: str
    unit: str = "short"
    kind: str = "timeseries"


_ENDED: Final = grown("nodemend_incidents_closed_total", "1h")
_SPENT: Final = grown("nodemend_interval_seconds_bucket", "6h")
PANELS: Final = (
    Panel("Incidents ended, by outcome", f"sum by (outcome) ({_ENDED})", "{{outcome}}"),
    Panel("Incidents ended, by group", f"sum by (group) ({_ENDED})", "{{group}}"),
    Panel("A human was asked again", "sum(increase(nodemend_escalations_total[1h]))", "asked"),
    Panel(
        "An incident lasts (median)",
        f"histogram_quantile(0.5, sum by (le, outcome) ({grown('nodemend_incident_duration_seconds_bucket', '6h')}))",
        "{{outcome}}",
        "s",
    ),
    Panel(
        "What it is spent on (median)",
        f"histogram_quantile(0.5, sum by (le, interval) ({_SPENT}))",
        "{{interval}}",
        "s",
    ),
    Panel(
        "What it is spent on (worst of twenty)",
        f"histogram_quantile(0.95, sum by (le, interval) ({_SPENT}))",
        "{{interval}}",
        "s",
    ),
    Panel(
        "Permits that are out", f"sum by (kind, group) ({of_the_budget('nodemend_permits_held')})", "{{kind}} {{group}}"
    ),
    Panel(
        "Waiting for a permit, and for what",
        f"sum by (kind, limit) ({of_the_budget('nodemend_permits_queued')})",
        "{{kind}} {{limit}}",
    ),
    Panel(
        "Common causes and pauses",
        f"max({of_the_budget('nodemend_guards_up')}) + max({of_the_budget('nodemend_pauses')})",
        "hold",
        kind="stat",
    ),
    Panel("Faults by type", f"sum by (reason) ({grown('problem_counter', '1h')})", "{{reason}}"),
    Panel("Nodes with most faults", f"topk(10, sum by (instance) ({grown('problem_counter', '24h')}))", "{{instance}}"),
    Panel("Conditions now", "sum by (type, reason) (problem_gauge)", "{{type}} {{reason}}"),
    Panel(
        "Detectors blind or deaf", "sum(nodemend_detector_blind) + sum(nodemend_detector_deaf)", "blind", kind="stat"
    ),
    Panel("Kernel records lost", "sum by (reason) (increase(nodemend_detector_records_lost_total[1h]))", "{{reason}}"),
    Panel("Reports that wait", "sum(nodemend_detector_spool_entries) + sum(nodemend_watch_reports_waiting)", "waiting"),
    Panel("Nodes watched", "max(nodemend_watch_nodes)", "nodes", kind="stat"),
    Panel("Nodes not ready", "max(nodemend_watch_nodes_not_ready)", "not ready"),
    Panel("Detectors that are silent", "max(nodemend_watch_detectors_silent)", "silent"),
)


def dashboard() -> dict[str, Any]:
    """The document that Grafana imports."""
    return {
        "uid": "nodemend",
        "title": "Nodemend",
        "tags": ["nodemend"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, 24 // _WIDTH)
    return {
        "id": number + 1,
        "title": panel.title,
        "type": panel.kind,
        "datasource": _DATASOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": _DATASOURCE, "expr": panel.expression, "legendFormat": panel.legend}],
    }
