"""Each alert rings when it has to, and only then: Prometheus itself evaluates the rules over what processes serve.

Values are promtool's (``1x5``: six times 1; ``_``: no sample), one a minute.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from deploy.monitoring.alerts import ALERTS, rules
from deploy.monitoring.dashboards import PANELS
from deploy.monitoring.queries import grown

pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is in Debian's package prometheus")

Series = dict[str, str]

WATCHED: Series = {'nodemend_watch_active{instance="c1"}': "1x3000", 'nodemend_watch_active{instance="c2"}': "0x3000"}
POLLED: Series = {'temporal_num_pollers{instance="w1", task_queue="nodemend"}': "5x3000"}
WELL: Series = {**WATCHED, **POLLED}
"""What is served while nothing is wrong."""
CLOSED = 'nodemend_incidents_closed_total{instance="w1", outcome="replaced", group="g"}'


def budget(gauge: str, value: int, labels: str = "") -> Series:
    """FleetBudget in the second of two workers; the first had it before, and still shows 7 of the same."""
    return {
        'nodemend_budget_timestamp_seconds{instance="w1"}': "60x3000",
        'nodemend_budget_timestamp_seconds{instance="w2"}': "0+60x3000",
        f'{gauge}{{instance="w1"{labels}}}': "7x3000",
        f'{gauge}{{instance="w2"{labels}}}': f"{value}x3000",
    }


class Scene(NamedTuple):
    """What is served, and after how many minutes it is asked who rings."""

    rings: Series
    quiet: Series
    minutes: int = 30


DETECTOR = '{instance="n1"}'
SCENES = {
    # The first escalation of a worker's life.
    "NodemendNeedsHuman": Scene(
        {'nodemend_escalations_total{instance="w1"}': "0x20 1x20"},
        {'nodemend_escalations_total{instance="w1"}': "0x5 1x40"},
    ),
    "NodemendCommonCause": Scene(
        {'nodemend_guards_raised_total{instance="w1"}': "0x20 1x20"},
        {'nodemend_guards_raised_total{instance="w1"}': "0x5 1x40"},
    ),
    "NodemendBudgetHeld": Scene(
        budget("nodemend_permits_queued", 2, ', kind="disruption", limit="cluster"'),
        budget("nodemend_permits_queued", 0, ', kind="disruption", limit="cluster"'),
        90,
    ),
    # No incident has ever ended here; and there the first one ended two hours ago.
    "NodemendStuckIncident": Scene(
        budget("nodemend_permits_held", 1, ', kind="disruption", group="g"'),
        {**budget("nodemend_permits_held", 1, ', kind="disruption", group="g"'), CLOSED: "_x480 1x200"},
        600,
    ),
    "NodemendDetectorBlind": Scene(
        {f"nodemend_detector_blind{DETECTOR}": "1x40", f"nodemend_detector_deaf{DETECTOR}": "0x40"},
        {f"nodemend_detector_blind{DETECTOR}": "0x40", f"nodemend_detector_deaf{DETECTOR}": "0x40"},
    ),
    "NodemendRecordsLost": Scene(
        {'nodemend_detector_records_lost_total{instance="n1", reason="overwritten"}': "0x20 9x20"},
        {'nodemend_detector_records_lost_total{instance="n1", reason="before_first"}': "0x20 9x20"},
    ),
    "NodemendReportsUndelivered": Scene(
        {f"nodemend_detector_spool_entries{DETECTOR}": "1x40", 'nodemend_watch_reports_waiting{instance="c1"}': "0x40"},
        {
            f"nodemend_detector_spool_entries{DETECTOR}": "0x25 1x9",
            'nodemend_watch_reports_waiting{instance="c1"}': "0x40",
        },
    ),
    "NodemendNobodyWatches": Scene(dict.fromkeys(WATCHED, "_"), {}),
    "NodemendDetectorsSilent": Scene(
        {
            'nodemend_watch_detectors_silent{instance="c1"}': "2x40",
            'nodemend_watch_detectors_silent{instance="c2"}': "0x40",
        },
        {
            'nodemend_watch_detectors_silent{instance="c1"}': "0x40",
            'nodemend_watch_detectors_silent{instance="c2"}': "0x40",
        },
    ),
    "NodemendOutageSuspected": Scene(
        {'nodemend_watch_outage{instance="c1"}': "1x40", 'nodemend_watch_silence_held{instance="c1"}': "0x40"},
        {'nodemend_watch_outage{instance="c1"}': "0x40", 'nodemend_watch_silence_held{instance="c1"}': "0x40"},
    ),
    # Another application's workers poll all the same.
    "NodemendNoPoller": Scene(
        {
            'temporal_num_pollers{instance="w1", task_queue="nodemend"}': "0x40",
            'temporal_num_pollers{instance="x", task_queue="orders"}': "5x40",
        },
        {},
    ),
    "NodemendPolicyRefused": Scene(
        {'nodemend_policy_refused{instance="w1"}': "0x10 1x30", 'nodemend_policy_refused{instance="w2"}': "0x40"},
        {'nodemend_policy_refused{instance="w1"}': "0x10 1x2 0x30", 'nodemend_policy_refused{instance="w2"}': "0x40"},
    ),
    "NodemendPaused": Scene(budget("nodemend_pauses", 1), budget("nodemend_pauses", 0), 1500),
}


def evaluated(folder: Path, series: Series, minutes: int, expression: str, expected: Series) -> str:
    """What promtool has against the expectation: nothing, where it holds."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules()))
    test: dict[str, Any] = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": expression,
                        "eval_time": f"{minutes}m",
                        "exp_samples": [
                            {"labels": labels, "value": float(value)} for labels, value in expected.items()
                        ],
                    }
                ],
            }
        ],
    }
    (folder / "test.yaml").write_text(json.dumps(test))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


RINGING = 'count by (alertname) (ALERTS{alertstate="firing"})'


def test_every_alert_has_its_scene() -> None:
    assert set(SCENES) == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("name", SCENES)
def test_it_rings_and_no_other_does(name: str, tmp_path: Path) -> None:
    scene = SCENES[name]
    expected = {f'{{alertname="{name}"}}': "1"}
    assert evaluated(tmp_path, WELL | scene.rings, scene.minutes, RINGING, expected) == ""


@pytest.mark.parametrize("name", SCENES)
def test_it_is_quiet_where_it_only_looks_like_it(name: str, tmp_path: Path) -> None:
    scene = SCENES[name]
    assert evaluated(tmp_path, WELL | scene.quiet, scene.minutes, RINGING, {}) == ""


def test_stuck_incident_is_told_by_group_though_those_of_another_end(tmp_path: Path) -> None:
    held, ended = "nodemend_permits_held", "nodemend_incidents_closed_total"
    stuck, busy = (budget(held, 1, f', kind="disruption", group="{group}"') for group in ("stuck", "busy"))
    ends = {f'{ended}{{instance="w1", outcome="replaced", group="busy"}}': "0+1x3000"}
    who = 'count by (group) (ALERTS{alertname="NodemendStuckIncident", alertstate="firing"})'
    assert evaluated(tmp_path, WELL | stuck | busy | ends, 600, who, {'{group="stuck"}': "1"}) == ""


@pytest.mark.parametrize(
    ("values", "growth"),
    [("_x30 1x60", 1), ("_x30 2x10 3x60", 3), ("4x200", 0), ("4x80 _x3 1x60", 1)],
    ids=["first one", "from the beginning", "nothing new", "another process"],
)
def test_first_of_its_kind_counts_as_the_others_do(values: str, growth: int, tmp_path: Path) -> None:
    asked = f"round(sum({grown('problem_counter', '1h')}))"
    assert evaluated(tmp_path, {'problem_counter{reason="R"}': values}, 85, asked, {"{}": str(growth)}) == ""


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_panels_ask_what_prometheus_understands(panel: Any, tmp_path: Path) -> None:
    assert evaluated(tmp_path, {}, 1, f"count({panel.expression})", {}) == ""
