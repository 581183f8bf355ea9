"""Approvals of one incident: asked for where the policy has a gate, of one plan, at a price that is shown.

An approval is of the plan that was shown. When findings change the plan, what was approved before is void and is asked
for again, up to the point of no return.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract.gates import Demand, GateRecord, Situation, demanded, plan_digest, worst
    from contract.identity import Target
    from contract.incident import StepStatus
    from contract.names import ActivityName, Step
    from contract.plan import Plan
    from contract.price import Price, PriceDisruption
    from workflows import sentences
    from workflows.incident_state import Incident
    from workflows.override_table import Stand
    from workflows.overrides import Controls, OpenGate
    from workflows.step_runner import StepRunner
    from workflows.timing import Timing

_PATCH: Final = "approvals-name-the-plan"
_PRICING: Final = Timing(start_to_close=timedelta(minutes=1), schedule_to_close=timedelta(minutes=1))
"""The price informs a decision and must not hold it up: what cannot be found out in a minute is left out."""
GATES_MAX: Final = 10
"""Gates kept in the report, the newest."""


class Gatekeeper:
    """The gates of one incident."""

    def __init__(
        self,
        incident: Incident,
        runner: StepRunner,
        controls: Controls,
        plan: Callable[[], Plan],
        target: Callable[[], Target],
    ) -> None:
        self.pods: Callable[[], int] = lambda: 0
        """How many pods work on the node."""
        self._incident = incident
        self._runner = runner
        self._controls = controls
        self._plan = plan
        self._target = target
        self._settled = ""
        """Digest of the plan that was approved, or that needed no approval."""

    @property
    def digest(self) -> str:
        """Of the plan as of now; empty before there is one."""
        return plan_digest(self._plan()) if self._incident.identity and self._incident.findings else ""

    async def before(self, step: Step, why: str = "", adds: str = "") -> None:
        """Wait for what the policy's gates before this step ask for, and for an approval where there is a ``why``.

        Raises:
            IncidentEnded: a human stopped the incident.
        """
        gates = self._incident.policy.all_gates
        demand = demanded(gates, (step,), self._situation)
        if why:
            demand = Demand(demand.approvals if demand else 1, f"{why} {demand.why}" if demand else why)
        if not (demand or gates):
            return
        # Approvals of before 0.3 named no plan, and those histories must replay.
        if workflow.patched(_PATCH):
            if demand:
                await self._ask(step, step, Demand(demand.approvals, f"{demand.why} {adds}".strip()))
            self._settled = self.digest
        elif demand:
            await self._runner.gate(step, f"{demand.why} {adds}".strip())

    async def again(self) -> None:
        """Before an act that disturbs: see that the plan is still the one that was approved, or ask anew."""
        if self._settled in ("", self.digest):
            return
        at = self._runner.step or Step.DISRUPT
        due = (Step.DISRUPT, Step.REPLACE) if at is Step.REPLACE else (Step.DISRUPT,)
        if demand := demanded(self._incident.policy.all_gates, due, self._situation):
            why = f"The plan is not the one that was settled before ({self._settled}). {demand.why}"
            await self._ask(at, due[-1], Demand(demand.approvals, why))
        self._settled = self.digest

    @property
    def _situation(self) -> Situation:
        return Situation(worst(self._incident.findings), workflow.now(), self.pods())

    async def _ask(self, at: Step, before: Step, demand: Demand) -> None:
        """Show plan and price at the step ``at``, until enough people have approved that very plan."""
        price = await self._runner.afterwards(
            ActivityName.PRICE_DISRUPTION,
            PriceDisruption(target=self._target()),
            Price,
            "what an approval costs",
            _PRICING,
        )
        gate = self._controls.gate = OpenGate(demand.approvals, self.digest)
        record = GateRecord(
            before=before,
            plan=gate.plan,
            why=demand.why,
            approvals=demand.approvals,
            asked_at=workflow.now(),
            price=price,
        )
        self._incident.gates = [*self._incident.gates[1 - GATES_MAX :], record]
        try:
            while True:
                await self._runner.obey(at)
                if voided := gate.turn_to(self.digest):
                    self._incident.note(sentences.voided(voided, record.plan, gate.plan))
                if gate.complete:
                    break
                record = self._show(record, gate)
                says, seen = sentences.gate(record, self._plan(), self._incident.request.node), len(gate.approved_by)
                self._runner.begin(at, says, StepStatus.WAITING)
                await self._runner.wait_for_human(
                    Stand.AT_GATE, says, partial(self._moved, gate, seen), by_itself=lambda: False
                )
        finally:
            self._controls.gate = None
        self._show(record.model_copy(update={"passed_at": workflow.now()}), gate)

    def _moved(self, gate: OpenGate, seen: int) -> bool:
        return len(gate.approved_by) != seen or gate.plan != self.digest

    def _show(self, record: GateRecord, gate: OpenGate) -> GateRecord:
        """Keep in the report how the newest gate stands."""
        now = record.model_copy(update={"plan": gate.plan, "approved_by": tuple(gate.approved_by)})
        self._incident.gates[-1] = now
        self._incident.plan = self._plan()
        return now
