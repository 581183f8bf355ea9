"""Shows an incident to people: current details always, search attributes and memo when the phase changes.

Current details cost no history but need a worker to be read; the memo and the search attributes cost an event and a
visibility write each, and are readable without one.
"""

from typing import Final

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

with workflow.unsafe.imports_passed_through():
    from contract.incident import IncidentReport
    from contract.names import DURATION_METRIC, INCIDENT_MEMO, INTERVAL_METRIC, Phase, SearchAttribute
    from workflows.incident_state import Incident
    from workflows.intervals import intervals
    from workflows.narrator import narrate
    from workflows.step_runner import StepRunner

_FINDINGS_IN_MEMO: Final = 3


class Showcase:
    """What people see of one incident while it runs."""

    def __init__(self, incident: Incident, runner: StepRunner) -> None:
        self._incident = incident
        self._runner = runner
        self._shown: dict[SearchAttribute, str | bool] = {}

    def publish(self, phase: Phase | None) -> None:
        """Rewrite the current details; announce the phase where it is a new one."""
        if phase and phase is not self._incident.phase:
            self.announce(phase)
        else:
            workflow.set_current_details(narrate(self._incident.report(), self._runner.stand, self._runner.open_step))

    def announce(self, phase: Phase) -> None:
        """Enter a phase: search attributes that changed, the memo, the details."""
        self._incident.phase = phase
        if updates := self._updates():
            workflow.upsert_search_attributes(updates)
            workflow.upsert_memo({INCIDENT_MEMO: brief(self._incident.report())})
        self.publish(None)

    def escalate(self) -> None:
        """Tell once more that a human is waited for: the memo is what pagers and tables read without a worker."""
        workflow.upsert_memo({INCIDENT_MEMO: brief(self._incident.report())})
        self.publish(None)

    def close(self) -> None:
        """The last word, and the counters that alarms read."""
        report = self._incident.report()
        self.announce(Phase.CLOSED)
        group = report.identity.group if report.identity else None
        meter = workflow.metric_meter().with_additional_attributes(
            {"outcome": str(report.outcome), "group": group or "none"}
        )
        meter.create_counter("nodemend_incidents_closed", "Incidents by outcome").add(1)
        if report.closed_at:
            duration = report.closed_at - report.opened_at
            meter.create_histogram_timedelta(DURATION_METRIC, "First report to end", "duration").record(duration)
        histogram = meter.create_histogram_timedelta(INTERVAL_METRIC, "What incidents spend time on", "duration")
        for interval, spent in intervals(report).items():
            histogram.record(spent, {"interval": str(interval)})

    def _updates(self) -> list[SearchAttributeUpdate]:  # type: ignore[type-arg]
        updates: list[SearchAttributeUpdate] = []  # type: ignore[type-arg]
        for key, value in self._attributes().items():
            if self._shown.get(key) == value:
                continue
            self._shown[key] = value
            if isinstance(value, bool):
                updates.append(SearchAttributeKey.for_bool(key).value_set(value))
            else:
                updates.append(SearchAttributeKey.for_keyword(key).value_set(value))
        return updates

    def _attributes(self) -> dict[SearchAttribute, str | bool]:
        incident, identity = self._incident, self._incident.identity
        attributes: dict[SearchAttribute, str | bool] = {
            SearchAttribute.NODE_NAME: incident.request.node,
            SearchAttribute.NODE_PHASE: incident.phase,
            SearchAttribute.NEEDS_HUMAN: incident.phase is Phase.NEEDS_HUMAN,
        }
        if identity:
            attributes[SearchAttribute.NODE_GROUP] = identity.group or "none"
            attributes[SearchAttribute.NODE_ZONE] = identity.zone or "unknown"
        if incident.findings:
            attributes[SearchAttribute.FAULT_SIGNATURE] = incident.findings[0].signature
        return attributes


def brief(report: IncidentReport) -> IncidentReport:
    """The report small enough for the memo: few findings without the lines around them, and no list of writes."""
    findings = tuple(
        finding.model_copy(update={"context": (), "context_after": ()})
        for finding in report.findings[:_FINDINGS_IN_MEMO]
    )
    return report.model_copy(update={"findings": findings, "acts": ()})
