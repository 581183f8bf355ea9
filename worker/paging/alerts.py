"""What needs a human, as alerts, and what is still to be told of them. Pure."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from pydantic import Field

from contract.incident import IncidentReport
from contract.model import Message
from contract.names import KERNEL_LOG_HEALTH, OverrideName, Phase, budget_id
from contract.permit import BudgetState

KEY_MAX: Final = 255
"""Of PagerDuty's ``dedup_key``; a longer key is cut to its end, the machine."""
_BLIND: Final = frozenset({"KernelLogUnreadable", "KernelLogSilent"})
"""Reasons of the detector's condition ``KernelLogHealth`` while it sees nothing (docs/detector.md)."""


class Severity(StrEnum):
    """As PagerDuty has them."""

    CRITICAL = "critical"
    """Nothing goes on before a human is there."""
    WARNING = "warning"


class Event(StrEnum):
    """What becomes of an alert; PagerDuty's event actions."""

    TRIGGER = "trigger"
    ACKNOWLEDGE = "acknowledge"
    RESOLVE = "resolve"


class Alert(Message):
    """One thing that needs a human."""

    key: str
    """The same for as long as it is the same thing; of an incident, its id."""
    title: str
    text: str
    """What happened and what can be done."""
    cluster: str
    node: str = ""
    since: datetime
    severity: Severity = Severity.CRITICAL
    url: str = ""
    command: str = ""
    acknowledged_by: str = ""
    told_again: int = 0
    """How often the incident itself has asked again since."""


class Told(Message):
    """What one place knows, by alert; kept over restarts."""

    events: dict[str, Event] = Field(default_factory=dict)
    alerts: dict[str, Alert] = Field(default_factory=dict)

    def due(self, current: Iterable[Alert]) -> Iterator[tuple[Event, Alert]]:
        """What is to be told there now: each change once, in the order of the alerts' age."""
        there = {alert.key: alert for alert in sorted(current, key=lambda alert: alert.since)}
        for key, alert in there.items():
            known = self.events.get(key)
            if known is None or (known is Event.ACKNOWLEDGE and not alert.acknowledged_by):
                yield Event.TRIGGER, alert
            elif known is Event.TRIGGER and alert.acknowledged_by:
                yield Event.ACKNOWLEDGE, alert
            elif known is Event.TRIGGER and alert.told_again > self.alerts[key].told_again:
                yield Event.TRIGGER, alert
        for key, alert in self.alerts.items():
            if key not in there:
                yield Event.RESOLVE, alert

    def after(self, event: Event, alert: Alert) -> "Told":
        """Once that was told."""
        events, alerts = dict(self.events), dict(self.alerts)
        if event is Event.RESOLVE:
            events.pop(alert.key, None)
            alerts.pop(alert.key, None)
        else:
            events[alert.key], alerts[alert.key] = event, alert
        return Told(events=events, alerts=alerts)


def of_incident(report: IncidentReport, url: str = "") -> Alert | None:
    """An incident that waits for a human; None while it does not."""
    if report.phase is not Phase.NEEDS_HUMAN or report.outcome:
        return None
    waiting = [step for step in report.steps if step.ended_at is None]
    since = waiting[-1].started_at if waiting else report.opened_at
    pressed = [one for one in report.overrides if one.accepted and one.at >= since]
    # Whoever pressed something after it has to look again at what came of that.
    seen = bool(pressed) and pressed[-1].name is OverrideName.ACKNOWLEDGE
    return Alert(
        key=report.incident_id,
        title=f"{report.node} {'still needs' if report.asked_again else 'needs'} a human"
        f"{f' at {waiting[-1].step}' if waiting else ''}",
        text=report.summary,
        cluster=report.cluster,
        node=report.node,
        since=since,
        url=url,
        command=f'nodemend acknowledge {report.node} --reason "I look at it"; nodemend watch {report.node}',
        acknowledged_by=pressed[-1].by if seen else "",
        told_again=report.asked_again,
    )


def of_budget(state: BudgetState, url: str = "") -> list[Alert]:
    """Common causes that hold the fleet."""
    return [
        Alert(
            key=f"{budget_id(state.cluster)}/{guard.key}",
            title=f"The repairs of {state.cluster} are held: {guard.key}",
            text=guard.words,
            cluster=state.cluster,
            since=guard.since,
            url=url,
            command="nodemend budget",
        )
        for guard in state.guards
        if guard.cleared_at is None
    ]


def of_nodes(cluster: str, nodes: Iterable[dict[str, Any]]) -> list[Alert]:
    """Nodes whose detector sees nothing: a fault there would be nobody's."""
    return [
        Alert(
            key=f"blind-{cluster}-{node['metadata']['name']}",
            title=f"The detector of {node['metadata']['name']} is blind",
            text=f"{condition.get('reason', '')}: {condition.get('message', '')}",
            cluster=cluster,
            node=node["metadata"]["name"],
            since=datetime.fromisoformat(condition["lastTransitionTime"]),
            severity=Severity.WARNING,
            command=f"kubectl describe node {node['metadata']['name']}",
        )
        for node in nodes
        for condition in node.get("status", {}).get("conditions", [])
        if _is_blind(condition)
    ]


def _is_blind(condition: dict[str, Any]) -> bool:
    if condition.get("status") != "True":
        return False
    kind = str(condition.get("type", ""))
    return kind.endswith("Blind") or (kind == KERNEL_LOG_HEALTH and condition.get("reason") in _BLIND)
