"""The end of an incident, whatever it is: what is held goes back, the record is written, people see how it ended."""

from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract import acts
    from contract.identity import Target
    from contract.incident import NOT_TAKEN, RECORD_FACT, IncidentReport, StepStatus
    from contract.names import ActivityName, Outcome, Phase, Step
    from contract.permit import PermitKind
    from workflows import sentences
    from workflows.incident_state import Incident
    from workflows.overrides import Controls
    from workflows.permits import Permits
    from workflows.showcase import Showcase
    from workflows.step_runner import StepRunner
    from workflows.work import Work

GIVES_BACK: Final = frozenset({Outcome.RELEASED, Outcome.VETOED, Outcome.REPAIRED})
"""A human said so, by `release` or on the node itself, or it was repaired and proven. No other end opens a node."""


class Closing:
    """Closes one incident. Nothing that fails here changes the outcome: it becomes a note."""

    def __init__(
        self,
        incident: Incident,
        controls: Controls,
        runner: StepRunner,
        permits: Permits,
        work: Work,
        showcase: Showcase,
    ) -> None:
        self._incident = incident
        self._controls = controls
        self._runner = runner
        self._permits = permits
        self._work = work
        self._showcase = showcase

    async def close(self, outcome: Outcome, summary: str, target: Target | None) -> IncidentReport:
        """End with an outcome and its sentence; ``target`` is None where no machine was identified."""
        incident = self._incident
        self._runner.ending = True
        if target and outcome in GIVES_BACK:
            await self._give_back(outcome, summary, target)
        await self._permits.give_back(*PermitKind, outcome=outcome)
        await self._work.give_back()
        closing = incident.steps.get(Step.CLOSE)
        left_out = closing is not None and closing.status is StepStatus.SKIPPED
        for step in list(incident.steps.values()):
            if step.ended_at is None:
                incident.end(step.step, workflow.now(), summary, StepStatus.SKIPPED)
        if not left_out:
            incident.end(Step.CLOSE, workflow.now(), summary)
        incident.outcome, incident.summary = outcome, summary
        incident.phase, incident.closed_at = Phase.CLOSED, workflow.now()
        recorded = await self._runner.afterwards(
            ActivityName.WRITE_RECORD, acts.WriteRecord(report=incident.report()), acts.Recorded, str(outcome)
        )
        if recorded:
            incident.facts[RECORD_FACT] = ", ".join(recorded.uris)
            for missed in recorded.missed:
                incident.note(f"{NOT_TAKEN}: {missed}")
        self._showcase.close()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return incident.report()

    async def _give_back(self, outcome: Outcome, summary: str, target: Target) -> None:
        if self._incident.on_standby:
            lowered = await self._runner.afterwards(
                ActivityName.LOWER_SPARE, acts.RaiseSpare(target=target), acts.SpareRaised, "beside its spare"
            )
            if lowered:
                self._incident.facts["spare"] = sentences.lowered(lowered)
        unasked = "Nodemend" if outcome is Outcome.REPAIRED else "a human, on the node"
        by = self._controls.stopped_by.by if self._controls.stopped_by else unasked
        given = await self._runner.afterwards(
            ActivityName.GIVE_BACK_NODE,
            acts.GiveBackNode(target=target, by=by, reason=summary, handled_seq=self._incident.handled_seq()),
            acts.GivenBack,
            f"by {by}"[:100],
        )
        if given:
            self._incident.facts["given back"] = sentences.given_back(given, outcome)
