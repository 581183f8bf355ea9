"""How long each part of an incident took, read from its report: no clock is looked at."""

from datetime import timedelta
from typing import Final

from contract.incident import IncidentReport, StepStatus
from contract.names import Interval, Step

_SPANS: Final = {
    Interval.QUARANTINE: (Step.QUARANTINE, Step.QUARANTINE),
    Interval.CHECKPOINT: (Step.CHECKPOINT, Step.CHECKPOINT),
    Interval.DRAIN: (Step.DRAIN, Step.DRAIN),
    Interval.REPLACE: (Step.REPLACE, Step.AWAIT_REPLACEMENT),
    Interval.VERIFY: (Step.VERIFY, Step.VERIFY),
}
"""First and last step of each. A wait for a human inside a step is part of it: it is time that the node is away."""


def intervals(report: IncidentReport) -> dict[Interval, timedelta]:
    """The parts that this incident went through; one whose last step was not done is left out, never guessed.

    ``detect`` goes from the first sign of the fault to the incident's start. It compares the node's clock with
    Temporal's, so a clock that is ahead counts as no time at all.
    """
    found: dict[Interval, timedelta] = {}
    if report.findings:
        first = min(finding.first_seen for finding in report.findings)
        found[Interval.DETECT] = max(report.opened_at - first, timedelta(0))
    done = {record.step: record for record in report.steps if record.status is StepStatus.DONE}
    for interval, (first_step, last_step) in _SPANS.items():
        start, end = done.get(first_step), done.get(last_step)
        if start and end and end.ended_at:
            found[interval] = end.ended_at - start.started_at
    return found
