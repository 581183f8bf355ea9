"""The first step: who is meant. It ends the incident where that is nobody, and may be taken again later."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract import acts
    from contract.fault import CLOSING, FaultReport
    from contract.identity import Fence
    from contract.names import ActivityName, Outcome, Phase, Step
    from contract.permit import PermitKind
    from contract.plan import Plan, Rung
    from contract.policy import Mode
    from workflows import sentences
    from workflows.culprit import ask_about_culprit
    from workflows.failures import IncidentEnded
    from workflows.incident_state import Incident
    from workflows.permits import Permits
    from workflows.proving import prove_what_joins
    from workflows.showcase import Showcase
    from workflows.step_runner import StepRunner

_FIRST_REPORT: Final = timedelta(minutes=10)


class Identifying:
    """The part of one incident that finds out which machine it is about."""

    def __init__(
        self,
        incident: Incident,
        fence: Fence,
        runner: StepRunner,
        permits: Permits,
        showcase: Showcase,
        plan: Callable[[], Plan],
        reassess: Callable[[], Plan],
    ) -> None:
        """``plan`` decides by what is known now; ``reassess`` makes that the incident's plan."""
        self._incident = incident
        self._fence = fence
        self._runner = runner
        self._permits = permits
        self._showcase = showcase
        self._plan = plan
        self._reassess = reassess
        self.closed: acts.Quarantined | None = None
        """The node was closed in the same act."""
        self._may_have_closed = False
        self._proving: asyncio.Task[None] | None = None

    async def identify(self) -> None:
        """Freeze who is meant, and end here where that is nobody."""
        says = "Waiting for the finding that this incident is about."
        if not await self._runner.wait(Step.IDENTIFY, lambda: bool(self._incident.findings), _FIRST_REPORT, says):
            raise IncidentEnded(Outcome.STALE, "Started without a finding, and none came: there is nothing to repair.")
        self._may_have_closed = True
        facts = await self._runner.act(
            Step.IDENTIFY,
            ActivityName.IDENTIFY_NODE,
            lambda: self._question(self._incident.findings, closes=Step.QUARANTINE not in self._incident.steps),
            acts.NodeFacts,
            says=f"Finding out what machine {self._incident.request.node} is.",
            # Whoever reported first may be nobody: a finding that joins meanwhile is looked at now, not later.
            restart_on_change=workflow.patched("identify-looks-at-what-joins"),
        )
        self._take(facts)
        self._runner.end(Step.IDENTIFY, facts.explanation)
        if facts.identified is acts.Identified.NODE_ABSENT:
            raise IncidentEnded(Outcome.NODE_GONE, facts.explanation)
        if facts.identified in (acts.Identified.STALE, acts.Identified.HANDED_OVER):
            raise IncidentEnded(Outcome.STALE, facts.explanation)
        if facts.identified is acts.Identified.UNPROVEN:
            raise IncidentEnded(Outcome.REFUSED, facts.explanation)
        plan = self._reassess()
        if plan.rung is Rung.OBSERVE or self._incident.mode is Mode.OBSERVE:
            if await ask_about_culprit(self._incident, self._runner, lambda: self._plan().rung is not Rung.OBSERVE):
                await self.identify()
                return
            raise IncidentEnded(Outcome.OBSERVED, sentences.observed(plan, self._incident.mode))
        self._showcase.announce(Phase.ADMITTED if self._permits.held(PermitKind.QUARANTINE) else Phase.QUEUED)

    async def find_what_was_closed(self) -> None:
        """Know the machine that an interrupted act may have closed, so that it can be given back."""
        if self._incident.identity or not self._may_have_closed:
            return
        if not workflow.patched("release-finds-what-was-closed"):
            return
        asked = self._question((), closes=False)
        facts = await self._runner.afterwards(
            ActivityName.IDENTIFY_NODE, asked, acts.NodeFacts, "What was closed is given back."
        )
        if facts:
            self._incident.identity = facts.identity

    def _question(self, findings: tuple[FaultReport, ...], *, closes: bool) -> acts.IdentifyNode:
        return acts.IdentifyNode(
            request=self._incident.request,
            reports=findings,
            incident_id=self._fence.incident_id,
            run_id=self._fence.run_id,
            wants_permit=any(finding.verdict in CLOSING for finding in findings),
            closes=closes,
        )

    def _take(self, facts: acts.NodeFacts) -> None:
        known = self._incident.identity
        if known and facts.identity and facts.identity.node_uid != known.node_uid:
            raise IncidentEnded(Outcome.NODE_GONE, f"The Node {known.node} was replaced by another of the same name.")
        self._incident.circumstances = facts.circumstances or self._incident.circumstances
        self._incident.search = facts.search
        self._incident.take_policy(facts.policy if facts.identity else None, facts.policy_version)
        if facts.identity:
            # Looked at again and not found, the machine is still the one whose permits must go back.
            tried = dict.fromkeys((*(known.tried if known else ()), *facts.identity.tried))
            self._incident.identity = facts.identity.model_copy(update={"tried": tuple(tried)})
            self._incident.traits = facts.traits or self._incident.traits
        self.closed = facts.quarantined or self.closed
        if facts.permit:
            self._permits.take(PermitKind.QUARANTINE, facts.permit)
        if facts.proven is not None:
            self._incident.demand_proof(frozenset(facts.proven))
            self._proving = self._proving or asyncio.create_task(
                prove_what_joins(self._incident, self._showcase.publish)
            )
