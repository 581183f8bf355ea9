"""Prometheus alert rules: each names what it means and the page that says what to do."""

from typing import Any, Final, NamedTuple

from contract.names import TASK_QUEUE
from deploy.monitoring.queries import grown, of_the_budget

RUNBOOKS: Final = "docs/"
"""Relative to the repository: whoever hosts the pages puts an address before it."""
_HELD_BY_A_LIMIT: Final = of_the_budget('nodemend_permits_queued{limit!="new"}')


class Alert(NamedTuple):
    """One rule."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    means: str
    runbook: str


ALERTS: Final = (
    Alert(
        "NodemendNeedsHuman",
        "increase(nodemend_escalations_total[15m]) > 0",
        "0m",
        "page",
        "An incident waits for a human, and was told again.",
        "Its node stays closed and nothing happens to it. `nodemend status` lists those that wait first.",
        "on-call.md",
    ),
    Alert(
        "NodemendCommonCause",
        "increase(nodemend_guards_raised_total[15m]) > 0",
        "0m",
        "page",
        "Many nodes fail alike: a common cause is suspected.",
        "Permits are held, so that a bad driver or switch does not have the fleet replaced. See `nodemend budget`.",
        "operating.md#the-fleets-budget",
    ),
    Alert(
        "NodemendBudgetHeld",
        f"sum by (kind, limit) ({_HELD_BY_A_LIMIT}) > 0",
        "1h",
        "ticket",
        "Incidents have waited for a permit for an hour, held by {{ $labels.limit }}.",
        "Nodes with faults go on being used, or stay closed. `nodemend budget` says what they wait for.",
        "operating.md#the-fleets-budget",
    ),
    Alert(
        "NodemendStuckIncident",
        # Ends begin the six hours anew; in their first ones none may have been counted ever. By group: a fleet in which
        # incidents end every hour hides the one that does not.
        f"sum by (group) ({of_the_budget('nodemend_permits_held')}) > 0"
        f" unless sum by (group) ({grown('nodemend_incidents_closed_total', '15m')}) > 0",
        "6h",
        "ticket",
        "Permits of group {{ $labels.group }} have been out for hours and no incident of it has ended.",
        "A drain, a replacement or a human is waited for. `nodemend status` says which, of each of its incidents.",
        "operating.md#reading-an-incident",
    ),
    Alert(
        "NodemendDetectorBlind",
        "max by (instance) (nodemend_detector_blind) == 1 or max by (instance) (nodemend_detector_deaf) == 1",
        "5m",
        "page",
        "The detector at {{ $labels.instance }} cannot read its kernel log.",
        "Faults of that node are seen by nobody. Its /healthz says why.",
        "detector.md",
    ),
    Alert(
        "NodemendRecordsLost",
        'increase(nodemend_detector_records_lost_total{reason!="before_first"}[15m]) > 0',
        "0m",
        "ticket",
        "The detector at {{ $labels.instance }} lost kernel records ({{ $labels.reason }}).",
        "A fault may have been among them. A flood of lines, or a detector that was away.",
        "detector.md#what-it-never-loses",
    ),
    Alert(
        "NodemendReportsUndelivered",
        "max by (instance) (nodemend_detector_spool_entries) > 0"
        " or max by (instance) (nodemend_watch_reports_waiting) > 0",
        "10m",
        "page",
        "Reports at {{ $labels.instance }} do not reach Temporal.",
        "Faults are known and nothing is done about them. They wait on the disk, and are sent when Temporal answers.",
        "operating.md#when-something-is-away",
    ),
    Alert(
        "NodemendNobodyWatches",
        "(sum(nodemend_watch_active) or vector(0)) < 1",
        "5m",
        "page",
        "No replica of watch-cluster watches the cluster.",
        "NotReady nodes, EC2 events and silent detectors are seen by nobody.",
        "watch-cluster.md",
    ),
    Alert(
        "NodemendDetectorsSilent",
        "max(nodemend_watch_detectors_silent) > 0",
        "15m",
        "ticket",
        "{{ $value }} detectors do not say that they live.",
        "The Event DetectorSilent is on each Node. Their faults are seen by nobody.",
        "watch-cluster.md#what-to-alert-on",
    ),
    Alert(
        "NodemendOutageSuspected",
        "max(nodemend_watch_outage) == 1 or max(nodemend_watch_silence_held) == 1",
        "5m",
        "page",
        "So many nodes are away that watch-cluster holds its findings back.",
        "More likely the network or the control plane than the machines: nothing is replaced for it.",
        "watch-cluster.md#what-to-alert-on",
    ),
    Alert(
        "NodemendNoPoller",
        # Other applications on Temporal serve a metric of this name too.
        f'absent(temporal_num_pollers{{task_queue="{TASK_QUEUE}"}} > 0)',
        "5m",
        "page",
        "No worker polls Temporal.",
        "Reports are kept and nothing is repaired until one runs. See the workers' /healthz.",
        "operating.md#when-something-is-away",
    ),
    Alert(
        "NodemendPolicyRefused",
        "max by (instance) (nodemend_policy_refused) == 1",
        "5m",
        "ticket",
        "The worker at {{ $labels.instance }} does not take the policy as it is now.",
        "The policy before it holds on; a worker that starts anew does not start. Its log names each wrong line.",
        "policy.md",
    ),
    Alert(
        "NodemendPaused",
        f"max({of_the_budget('nodemend_pauses')}) > 0",
        "24h",
        "ticket",
        "An operator's pause has held repairs for a day.",
        "End it with `nodemend budget resume`, or leave it on purpose.",
        "operating.md#the-fleets-budget",
    ),
)


def rules() -> dict[str, Any]:
    """The rule file."""
    return {
        "groups": [
            {
                "name": "nodemend",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.expression,
                        "for": alert.lasts,
                        "labels": {"severity": alert.severity},
                        "annotations": {
                            "summary": alert.summary,
                            "description": alert.means,
                            "runbook_url": RUNBOOKS + alert.runbook,
                        },
                    }
                    for alert in ALERTS
                ],
            }
        ]
    }
