"""RemediateNode: the runbook of one failing machine. ``run`` reads as what an operator would do by hand."""

import asyncio
import hashlib
from typing import Any, Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from activities.saved import saved_work
    from contract import acts
    from contract.fault import FaultReport, RemediationRequest
    from contract.identity import Fence, NodeIdentity, Target
    from contract.incident import IncidentReport, StepStatus
    from contract.names import (
        INCIDENT_QUERY,
        PERMIT_GRANTED,
        PERMITS_QUERY,
        REMEDIATE_NODE,
        REPORT_FAULT,
        ActivityName,
        Outcome,
        OverrideName,
        Phase,
        Step,
    )
    from contract.override import Override
    from contract.permit import PermitKind, PermitRequest
    from contract.plan import Plan, Rung
    from contract.policy import Mode
    from contract.trace import TRACE_HEADER, trace_id
    from workflows import sentences
    from workflows.approvals import Gatekeeper
    from workflows.assess import APPROVED_BY_SOMEONE, assess
    from workflows.closing import GIVES_BACK, Closing
    from workflows.draining import drain_order
    from workflows.failures import IncidentEnded
    from workflows.following import follow
    from workflows.identifying import Identifying
    from workflows.incident_state import Incident
    from workflows.mending import MENDING, mend
    from workflows.needs_human import way_on
    from workflows.override_handlers import answers_overrides
    from workflows.overrides import Answer, Controls, as_of_then, press
    from workflows.permits import Permits
    from workflows.replacing import Replacing
    from workflows.showcase import Showcase
    from workflows.step_orders import Deadline, StepSkipped, skippable
    from workflows.step_runner import StepRunner
    from workflows.work import Work

DONE_BY_US: Final = MENDING | {Rung.REPLACE}
_DISRUPTIVE: Final = frozenset(
    {
        ActivityName.REQUEST_CHECKPOINTS,
        ActivityName.DRAIN_NODE,
        ActivityName.REBOOT_MACHINE,
        ActivityName.RESET_DEVICES,
        ActivityName.MARK_INSTANCE_UNHEALTHY,
    }
)


@workflow.defn(name=REMEDIATE_NODE)
@answers_overrides
class RemediateNode:
    """One machine, from its first finding to a proven replacement or a stated other end."""

    @workflow.init
    def __init__(self, request: RemediationRequest) -> None:
        """Signals may be handled before the first line of ``run``, so everything stands here."""
        info = workflow.info()
        self._fence = Fence(incident_id=info.workflow_id, run_id=info.run_id)
        self._incident = Incident(request, info.workflow_id, info.run_id, workflow.now())
        if named := info.headers.get(TRACE_HEADER):
            self._incident.trace_id = trace_id(named.data)
        self._controls = Controls()
        self._runner = StepRunner(self._incident, self._controls, self._publish)
        self._runner.prepare = self._prepare
        self._runner.before_parking = self._give_leave_back
        self._showcase = Showcase(self._incident, self._runner)
        self._runner.escalate = self._showcase.escalate
        self._gates = Gatekeeper(self._incident, self._runner, self._controls, self._plan, lambda: self._target)
        self._permits = Permits(self._incident, self._fence, self._runner, self._controls)
        self._work = Work(self._incident, self._runner, self._permits, lambda: self._target, self._plan)
        self._gates.pods = self._work.pods
        self._identifying = Identifying(
            self._incident, self._fence, self._runner, self._permits, self._showcase, self._plan, self._reassess
        )
        self._closing = Closing(self._incident, self._controls, self._runner, self._permits, self._work, self._showcase)
        self._replacing = Replacing(self._incident, self._runner, self._gates, lambda: self._target)

    @workflow.run
    async def run(self, _request: RemediationRequest) -> IncidentReport:
        """Play the runbook and return the closing report."""
        try:
            await self._repair()
            outcome, summary = sentences.replaced(self._incident)
        except IncidentEnded as end:
            outcome, summary = end.outcome, end.summary
        except asyncio.CancelledError:
            reason = workflow.cancellation_reason() or "no reason given"
            outcome, summary = sentences.cancelled(reason, committed=self._runner.committed)
        if outcome in GIVES_BACK:
            await self._identifying.find_what_was_closed()
        target = self._target if self._incident.identity else None
        return await self._closing.close(outcome, summary, target)

    async def _repair(self) -> None:
        """Play the runbook; after a decision in mode shadow look on, and begin anew where the policy acts by then."""
        while True:
            try:
                await self._remediate()
            except IncidentEnded as end:
                if end.outcome is not Outcome.SHADOWED or not await follow(self._incident, self._runner, end.summary):
                    raise
            else:
                return

    async def _remediate(self) -> None:
        await self._identifying.identify()
        await self._quarantine()
        await self._settle()
        await self._assess()
        await self._preserve()
        await self._look_ahead()
        await self._disrupt()
        await self._checkpoint()
        await self._drain()
        await self._work.drained()
        await self._mend()
        await self._replace()
        await self._replacing.see_successor()
        await self._close()

    # --- messages -------------------------------------------------------------------------------------------------

    @workflow.signal(name=REPORT_FAULT, description="A finding of the node's detector (a FaultReport).")
    def report_fault(self, payload: Any) -> None:
        """Take a finding in. One that cannot be read is noted, not dropped."""
        try:
            report = FaultReport.model_validate(payload)
        except ValidationError as error:
            fields = ", ".join(sorted({".".join(map(str, problem["loc"])) for problem in error.errors()}))
            self._incident.note(f"A finding could not be read (fields {fields}): is the detector of another version?")
            return
        request = self._incident.request
        if (report.cluster, report.node) != (request.cluster, request.node):
            self._incident.note(f"A finding for {report.cluster}/{report.node} came here and was left out.")
        elif self._incident.join(report):
            self._publish(None)

    @workflow.signal(name=PERMIT_GRANTED, description="FleetBudget says that a queued permit is granted.")
    def permit_granted(self, _payload: Any) -> None:
        """Ask the issuer again: its word counts, not that of whoever can send signals."""
        self._permits.nudges += 1

    def take_override(self, name: OverrideName, payload: object) -> Answer:
        """Apply what a human pressed, or refuse it; either way it is in the record."""
        stand = as_of_then(self._runner.stand, name)
        answer, new = press(name, payload, stand, self._controls, self._runner.open_step, self._gates.digest)
        if new:
            self._incident.keep_override(answer.record(name, workflow.now()))
            self._publish(None)
        return answer

    def leave_out(self, skipped: StepSkipped) -> None:
        """A human had a step left out."""
        self._runner.skip(skipped)

    @workflow.query(name=INCIDENT_QUERY, description="The incident report as of now.")
    def incident(self) -> IncidentReport:
        """The report as of now."""
        return self._incident.report()

    @workflow.query(name=PERMITS_QUERY, description="The permits of the fleet's budget that it holds.")
    def permits(self) -> list[PermitRequest]:
        """For FleetBudget, after a Terminate or a Reset."""
        return self._permits.in_use()

    # --- the steps ------------------------------------------------------------------------------------------------

    async def _quarantine(self) -> None:
        """Keep new work away from the machine, as soon as the fleet can spare it."""
        if self._shadowed(Step.QUARANTINE, "Would cordon the node and taint it."):
            return
        await self._permits.hold(PermitKind.QUARANTINE, Step.QUARANTINE)
        first = self._incident.findings[0]
        done = self._identifying.closed or await self._runner.act(
            Step.QUARANTINE,
            ActivityName.QUARANTINE_NODE,
            lambda: acts.QuarantineNode(
                target=self._target, rule=first.rule, reason=first.reason, drill=self._incident.request.drill
            ),
            acts.Quarantined,
            says="Closing the node to new work.",
        )
        self._runner.end(Step.QUARANTINE, sentences.quarantined(done))
        self._showcase.announce(Phase.ADMITTED)

    @skippable
    async def _settle(self) -> None:
        """Let findings of the same fault gather."""
        quiet = self._incident.policy.deadlines.settle
        if quiet:
            await self._runner.pause(Step.SETTLE, quiet, "Letting findings of the same fault gather.")
        self._runner.end(Step.SETTLE, sentences.settled(self._incident.report().findings_total))

    async def _assess(self) -> None:
        """Decide; where the findings or the machine leave doubt, have a human decide."""
        while (plan := self._reassess()).rung not in DONE_BY_US:
            if self._incident.mode is Mode.SHADOW:
                self._runner.end(Step.ASSESS, sentences.plan(plan), StepStatus.SHADOWED)
                raise IncidentEnded(Outcome.SHADOWED, f"Shadow mode: would quarantine and ask. {sentences.plan(plan)}")
            await self._runner.park(
                Step.ASSESS,
                self._asks(plan, undecided := self._plan(APPROVED_BY_SOMEONE).rung is Rung.REPLACE),
                undecided=undecided,
                changed=lambda plan=plan: not self._plan().decides_as(plan),  # type: ignore[misc]
            )
            if self._plan().decides_as(plan):
                await self._identifying.identify()
        self._runner.end(Step.ASSESS, sentences.plan(plan))

    @skippable
    async def _preserve(self) -> None:
        """Keep the evidence before anything destroys it."""
        if self._shadowed(Step.PRESERVE, "Would keep the kernel lines and the console output."):
            return
        findings = self._incident.findings
        evidence = await self._runner.act(
            Step.PRESERVE,
            ActivityName.PRESERVE_EVIDENCE,
            lambda: acts.PreserveEvidence(target=self._target, reports=findings),
            acts.Evidence,
            says="Keeping the evidence.",
            deadline=Deadline(self._incident.policy.deadlines.preserve),
        )
        self._tell(Step.PRESERVE, "evidence", sentences.preserved(evidence))

    async def _look_ahead(self) -> None:
        """See that another machine would come before this one's work is stopped."""
        replaces = self._reassess().rung is Rung.REPLACE and self._incident.mode is Mode.ACT
        if replaces and workflow.patched("look-at-the-group-before-the-work-is-stopped"):
            await self._replacing.look_ahead()

    async def _disrupt(self) -> None:
        """Have leave to disturb the work: from a human where the policy asks, and from the fleet."""
        if self._shadowed(Step.DISRUPT, "Would ask for a permit to stop the node's work."):
            return
        if workflow.patched("gangs"):
            self._work.in_gangs = True
            await self._work.find()
        last = self._work.last_attempts()
        await self._gates.before(Step.DISRUPT, sentences.last_attempt(last), adds="" if last else self._work.attempts())
        self._runner.end(Step.DISRUPT, await self._work.hold())

    @skippable
    async def _checkpoint(self) -> None:
        """Save what can be believed, name what could be believed before."""
        if self._shadowed(Step.CHECKPOINT, "Would ask the jobs on the node for a checkpoint."):
            return
        await self._work.released()
        nonce = hashlib.sha256(f"{self._fence.incident_id}/{self._fence.run_id}".encode()).hexdigest()[:16]
        await self._work.save_the_others(nonce)
        for job in self._work.checkpoints:
            self._incident.facts[f"checkpoint {job.job}"] = sentences.checkpoint(job)
        self._incident.saved = tuple(map(saved_work, self._work.checkpoints))
        if unsaved := self._work.unsaved():
            # Nobody waits for this node while a human thinks: what was saved by then is asked for again.
            await self._work.give_back()
            await self._gates.before(Step.CHECKPOINT, sentences.unsaved(unsaved))
        self._tell(Step.CHECKPOINT, "checkpoints", sentences.checkpoints(self._work.checkpoints))
        await self._work.announce()

    @skippable
    async def _drain(self) -> None:
        """Take the work off the node through the Eviction API."""
        if self._shadowed(Step.DRAIN, "Would evict the pods of the node."):
            return
        policy = self._incident.policy
        deadline = Deadline(policy.deadlines.drain)
        resumes = self._controls.resumes

        def findings() -> tuple[FaultReport, ...]:
            """Those that must hold still, unless a human knows that they do not and resumed."""
            return self._incident.findings if self._controls.resumes == resumes else ()

        drained = await self._runner.act(
            Step.DRAIN,
            ActivityName.DRAIN_NODE,
            lambda: drain_order(self._target, policy, deadline, findings(), drill=self._incident.request.drill),
            acts.Drained,
            says="Evicting the pods of the node.",
            deadline=deadline,
        )
        self._tell(Step.DRAIN, "drained", sentences.drained(drained))

    async def _mend(self) -> None:
        """Try what may repair this very machine, rung by rung, and end here where one does."""
        while (rung := self._reassess().rung) in MENDING:
            if self._shadowed(Step.REPLACE, f"Would {rung} the machine."):
                raise IncidentEnded(Outcome.SHADOWED, sentences.shadowed(self._incident))
            if await mend(self._incident, self._runner, rung, lambda: self._target):
                raise IncidentEnded(Outcome.REPAIRED, sentences.repaired(self._incident, rung))
            await self._assess()

    async def _replace(self) -> None:
        """Have another machine brought, and give this one up: the point of no return."""
        if self._shadowed(Step.REPLACE, "Would mark the instance unhealthy."):
            raise IncidentEnded(Outcome.SHADOWED, sentences.shadowed(self._incident))
        await self._replacing.give_up_machine()

    @skippable
    async def _close(self) -> None:
        """See the jobs run again, past what was saved of them, for only then is nothing lost; and the machine gone."""
        if self._work.in_gangs:
            self._runner.begin(Step.CLOSE, "Following the jobs until they have passed their checkpoints.")
            if seen := await self._work.follow():
                self._incident.facts["work"] = seen
        await self._replacing.see_old_one_gone()

    def _asks(self, plan: Plan, undecided: bool) -> str:
        name = OverrideName.APPROVE if undecided else OverrideName.RESUME
        return f"{sentences.plan(plan)} {plan.remedy} {way_on(name, self._incident.request.node)}"

    # --- what the steps stand on ----------------------------------------------------------------------------------

    @property
    def _identity(self) -> NodeIdentity:
        assert self._incident.identity is not None
        return self._incident.identity

    @property
    def _target(self) -> Target:
        return Target(identity=self._identity, fence=self._fence)

    def _plan(self, approval: Override | None = None) -> Plan:
        incident = self._incident
        approved = approval or self._controls.approved_by
        rules = incident.policy
        doubts = incident.circumstances, rules.corroboration
        return assess(incident.findings, self._identity, approved, rules.replacement, *doubts)

    def _reassess(self) -> Plan:
        self._incident.plan = self._plan()
        return self._incident.plan

    async def _prepare(self, name: ActivityName) -> None:
        """Before an act: decide again, and hold the permit that it needs (parking gives it back)."""
        if self._incident.identity:
            self._reassess()
        if name in _DISRUPTIVE:
            await self._gates.again()
            await self._work.hold()
        if name in _DISRUPTIVE - {ActivityName.REQUEST_CHECKPOINTS}:
            try:
                await self._work.released()
            except StepSkipped as skipped:
                self.leave_out(skipped)

    async def _give_leave_back(self) -> None:
        """A step that is parked keeps nobody else waiting."""
        await self._work.give_back()

    def _shadowed(self, step: Step, would: str) -> bool:
        if self._incident.mode is not Mode.SHADOW:
            return False
        self._runner.end(step, self._gates.foretell(step, would), StepStatus.SHADOWED)
        return True

    def _tell(self, step: Step, fact: str, sentence: str) -> None:
        self._incident.facts[fact] = sentence
        self._runner.end(step, sentence)

    def _publish(self, phase: Phase | None) -> None:
        self._showcase.publish(phase)
