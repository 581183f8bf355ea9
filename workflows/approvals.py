"""Approvals of one incident: asked for where the policy has a gate, of one plan, at a price that is shown.

An approval is of the plan that was shown. When findings change the plan, what was approved before is void and is asked
for again, up to the point of no return.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract.gates import Demand, GateRecord, Situation, demanded, plan_digest, worst
    from contract.identity import Target
    from contract.incident import StepStatus
    from contract.names import ActivityName, OverrideName, Step
    from contract.plan import Plan, Rung
    from contract.price import Price, PriceDisruption
    from workflows import sentences
    from workflows.incident_state import Incident
    from workflows.override_table import Stand
    from workflows.overrides import Controls, OpenGate
    from workflows.step_runner import StepRunner
    from workflows.timing import Timing

_PATCH: Final = "approvals-name-the-plan"
_CURRENT: Final = "the-price-is-kept-current"
_STANDS: Final = timedelta(minutes=5)
"""How long a price is left alone at first; then twice that, and so on. Jobs save every few minutes, or should."""
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
        self._keeping: asyncio.Task[None] | None = None

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
        return Situation(
            worst(self._incident.findings), workflow.now(), self.pods(), confidence=self._plan().confidence
        )

    def foretell(self, step: Step, would: str) -> str:
        """What an incident that only decides ``would`` do at this step, and which gate would ask before it.

        Nobody counts the pods of a node that is not touched: what depends on them is said with its condition.
        """
        if step is Step.REPLACE and self._plan().rung is not Rung.REPLACE:
            return would
        gates = self._incident.policy.all_gates
        most = max((gate.pods for gate in gates), default=0)
        demand = demanded(gates, (step,), replace(self._situation, pods=most))
        return f"{would} {demand.why} It would be of plan {self.digest}." if demand else would

    async def _ask(self, at: Step, before: Step, demand: Demand) -> None:
        """Show plan and price at the step ``at``, until enough people have approved that very plan."""
        price = await self._price()
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
        if workflow.patched(_CURRENT):
            self._keeping = asyncio.create_task(self._keep_price(at, gate), name="keep-price")
        try:
            while True:
                await self._runner.obey(at)
                if voided := gate.turn_to(self.digest):
                    self._incident.note(sentences.voided(voided, self._incident.gates[-1].plan, gate.plan))
                self._show(gate)
                if gate.complete:
                    break
                says, seen = self._begin(at), len(gate.approved_by)
                await self._runner.wait_for_human(
                    Stand.AT_GATE, says, partial(self._moved, gate, seen), by_itself=lambda: False
                )
        finally:
            self._controls.gate = None
        self._show(gate, passed_at=workflow.now())

    async def _price(self) -> Price | None:
        return await self._runner.afterwards(
            ActivityName.PRICE_DISRUPTION,
            PriceDisruption(target=self._target()),
            Price,
            "what an approval costs",
            _PRICING,
        )

    async def _keep_price(self, at: Step, gate: OpenGate) -> None:
        """Find the price anew while the gate waits: when somebody looks or the plan changes, else ever more rarely.

        The digest is of the decision and not of its price: an approval of this plan stays one.
        """
        patience = _STANDS
        while self._controls.gate is gate:
            seen = self._looked(gate)
            try:
                await workflow.wait_condition(
                    lambda seen=seen: self._controls.gate is not gate or self._looked(gate) != seen,  # type: ignore[misc]
                    timeout=patience,
                    timeout_summary="find the price anew",
                )
            except TimeoutError:
                # Doubling bounds the history of a gate that nobody looks at for weeks.
                patience *= 2
            if self._controls.gate is not gate:
                return
            price = await self._price()
            if price and self._controls.gate is gate:
                self._incident.gates[-1] = self._incident.gates[-1].model_copy(update={"price": price})
                if self._runner.stand is Stand.AT_GATE:
                    self._begin(at)
                    self._runner.escalate()

    def _looked(self, gate: OpenGate) -> tuple[str, int, int]:
        """What changes when somebody is there who reads the price, or when it is the price of something else."""
        acknowledged = sum(one.name is OverrideName.ACKNOWLEDGE for one in self._incident.overrides)
        return gate.plan, len(gate.approved_by), acknowledged

    def _begin(self, at: Step) -> str:
        says = sentences.gate(self._incident.gates[-1], self._plan(), self._incident.request.node)
        self._runner.begin(at, says, StepStatus.WAITING)
        return says

    def _moved(self, gate: OpenGate, seen: int) -> bool:
        return len(gate.approved_by) != seen or gate.plan != self.digest

    def _show(self, gate: OpenGate, passed_at: datetime | None = None) -> None:
        """Keep in the report how the newest gate stands."""
        self._incident.gates[-1] = self._incident.gates[-1].model_copy(
            update={"plan": gate.plan, "approved_by": tuple(gate.approved_by), "passed_at": passed_at}
        )
        self._incident.plan = self._plan()
