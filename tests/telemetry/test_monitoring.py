"""Dashboards and alerts ask for metrics that there are, by labels that they have, and lead to pages that there are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.monitoring.__main__ import documents
from deploy.monitoring.alerts import ALERTS, RUNBOOKS
from deploy.monitoring.dashboards import PANELS

ROOT = Path(__file__).parents[2]
TEMPORALS_OWN = {"temporal_num_pollers": {"task_queue"}}
"""Of the SDK, and the labels of it that are asked for: ``test_metrics`` sees a worker serve it."""
EXPRESSIONS = [alert.expression for alert in ALERTS] + [panel.expression for panel in PANELS]


def documented() -> dict[str, set[str]]:
    """Metrics of docs/telemetry.md, which tests hold to what is served, with their labels."""
    page = (ROOT / "docs/telemetry.md").read_text()
    found: dict[str, set[str]] = {}
    for name, kind, labels in re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram) \|([^|]*)\|", page, re.M):
        known = set(re.findall(r"`(\w+)`", labels))
        found |= {f"{name}_bucket": known | {"le"}} if kind == "histogram" else {name: known}
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_queries_name_metrics_and_labels_that_are_served(expression: str) -> None:
    known = documented() | TEMPORALS_OWN
    named = set(re.findall(r"\b(?:nodemend|problem|temporal)_\w+", expression))
    assert named <= known.keys()
    asked = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    asked |= set(re.findall(r"[{,](\w+)!?=", expression))
    # ``instance`` is Prometheus's own.
    assert asked - {"instance"} <= set().union(*(known[name] for name in named))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert.name))
def test_each_alert_leads_to_a_heading_that_there_is(alert: object) -> None:
    page, _, anchor = str(getattr(alert, "runbook", "")).partition("#")
    text = (ROOT / RUNBOOKS / page).read_text()
    headings = [
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    ]
    assert not anchor or anchor in headings


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is in Debian's package prometheus")
def test_prometheus_takes_the_rules() -> None:
    kept = ROOT / "deploy/monitoring/alerts.yaml"
    done = subprocess.run(["promtool", "check", "rules", str(kept)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_what_is_kept_is_what_is_written() -> None:
    stale = [path.name for path, text in documents().items() if not path.exists() or path.read_text() != text]
    assert not stale, f"Write them anew: python -m deploy.monitoring ({', '.join(stale)})"
