"""Metrics of FleetBudget, served with the worker's: what is out, who waits for what, what is held."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from temporalio import workflow

from contract.names import GUARDS_RAISED_METRIC
from contract.permit import BudgetState, PermitRequest

_HELD: Final = "nodemend_permits_held"
_QUEUED: Final = "nodemend_permits_queued"


class Meters:
    """Gauges that go back to zero when nothing is left of what they showed."""

    def __init__(self) -> None:
        self._shown: dict[str, set[tuple[str, str]]] = {_HELD: set(), _QUEUED: set()}

    def show(self, state: BudgetState) -> None:
        """Set the gauges to what is."""
        held = Counter((str(item.request.kind), item.request.group or "none") for item in state.held)
        queued = Counter((str(item.request.kind), str(item.limit or "new")) for item in state.queue)
        self._set(_HELD, "Permits that are out", "group", held)
        self._set(_QUEUED, "Requests that wait, by the limit that holds them", "limit", queued)
        meter = workflow.metric_meter()
        up = sum(guard.cleared_at is None for guard in state.guards)
        meter.create_gauge("nodemend_guards_up", "Common causes that hold permits").set(up)
        meter.create_gauge("nodemend_pauses", "Pauses by operators").set(len(state.pauses))
        # Another process may have run it before, and goes on serving what it set last.
        told = meter.create_gauge_float("nodemend_budget_timestamp_seconds", "When these gauges were set")
        told.set(workflow.now().timestamp())

    def granted(self, request: PermitRequest) -> None:
        """Count a grant."""
        attributes = {"kind": str(request.kind), "group": request.group or "none"}
        meter = workflow.metric_meter().with_additional_attributes(attributes)
        meter.create_counter("nodemend_permits_granted", "Permits granted").add(1)

    def raised(self) -> None:
        """Count a common cause: what a pager listens to."""
        workflow.metric_meter().create_counter(GUARDS_RAISED_METRIC, "Common causes suspected").add(1)

    def _set(self, name: str, words: str, label: str, values: Mapping[tuple[str, str], int]) -> None:
        for kind, value in sorted(self._shown[name] | set(values)):
            meter = workflow.metric_meter().with_additional_attributes({"kind": kind, label: value})
            meter.create_gauge(name, words).set(values.get((kind, value), 0))
        self._shown[name] = set(values)
