"""What would happen to one node for one kernel line: the rule, the decision and every step with its gate and deadline.

Pure: it decides with the functions that decide in earnest (``detector.findings``, ``workflows.assess``, the budget's
``admit``, ``activities.pod_filters``), and does nothing.
"""

import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import Field

from activities.gangs import is_work
from activities.pod_filters import Filtered, filter_pod
from activities.pod_filters import Verdict as PodVerdict
from cli.judging.budgets import Budget, Permit
from cli.judging.captures import Captured
from cli.judging.facts import Facts
from cli.judging.play import Detector, Moment
from cli.judging.reports import report_of
from cli.judging.witnesses import is_in_doubt
from contract.fault import FaultReport, Verdict
from contract.gates import Situation, demanded
from contract.identity import MachineKind
from contract.model import Message
from contract.names import Step
from contract.permit import PermitKind
from contract.plan import Confidence, Plan, Rung
from contract.policy import GroupPolicy, Mode, Policy
from detector.rules import Catalogue, Match
from workflows.assess import assess
from workflows.mending import MENDING

_INCIDENT: Final = "plan"
_PODS_MAX: Final = 100


class PlannedStep(Message):
    """One step of the runbook, as it would be gone."""

    step: Step
    does: str
    deadline: timedelta | None = None
    """After which a human is asked."""
    gate: str = ""
    """What it would wait for."""


class PlannedPod(Message):
    """One pod of the node."""

    pod: str
    becomes: PodVerdict
    why: str = ""


class Foresight(Message):
    """What would happen."""

    node: str
    line: str
    rule: str | None = None
    """None: no rule takes the line for a fault, and nothing would happen."""
    verdict: Verdict | None = None
    reason: str = ""
    signature: str = ""
    fields: dict[str, str] = Field(default_factory=dict)
    drill: bool = False
    assumed: tuple[str, ...] = ()
    says: str
    """In one sentence: what would happen."""
    mode: Mode | None = None
    policy_version: str = ""
    plan: Plan | None = None
    steps: tuple[PlannedStep, ...] = ()
    permits: tuple[Permit, ...] = ()
    pods: tuple[PlannedPod, ...] | None = None
    """What a drain would do to each; None where no pods were given."""


def foresee(record: Captured, rules: Catalogue, facts: Facts, policy: Policy, now: datetime, size: int) -> Foresight:
    """Judge one line on one node."""
    counted, match = _count(record, rules)
    text = record.raw.decode("utf-8", "replace").partition(";")[2].partition("\n")[0]
    if match is None or match.rule.verdict == "benign":
        known = f"rule {match.rule.id} knows the line, and it means nothing" if match else "no rule knows the line"
        return Foresight(node=facts.identity.node, line=text, says=f"Nothing would happen: {known}.")
    report = report_of(counted[0], facts.identity, facts.identity.boot_id or "1") if counted else None
    if report is None:
        rule = match.rule
        enough = f"{rule.threshold} of it within {rule.window_s / 60:g} min" if rule.threshold else "No number of it"
        return Foresight(
            node=facts.identity.node,
            line=text,
            rule=match.rule.id,
            verdict=Verdict(match.rule.verdict),
            reason=match.reason,
            signature=match.signature,
            fields=match.fields,
            says=f"Nothing would happen for one such line: it is counted. {enough} would start an incident.",
        )
    return _decided(report, text, facts, policy, now, size)


def _count(record: Captured, rules: Catalogue) -> tuple[list[dict[str, Any]], Match | None]:
    """What the node's detector would report for the line, and the rule that has it."""
    told: list[dict[str, Any]] = []

    def tell(report: dict[str, Any], _moment: Moment) -> None:
        told.append(report)

    Detector(rules, tell, lambda _moment: None).play([record])
    return told, rules.match(record.raw.decode("utf-8", "replace").partition(";")[2].partition("\n")[0])


def _decided(report: FaultReport, text: str, facts: Facts, policy: Policy, now: datetime, size: int) -> Foresight:
    identity = facts.identity
    rules = policy.for_node(identity.group, identity.nodegroup)
    if identity.group is None and not identity.foreign_owners and rules.replacement.manual:
        # As `identify` has it: where nothing replaces a machine, the policy may have people do it.
        identity = identity.model_copy(update={"kind": MachineKind.MANUAL})
    mode = rules.mode_for(drill=report.drill)
    around = facts.around((report,))
    found = (report, *around.findings)
    plan = assess(found, identity, None, rules.replacement, around.circumstances, rules.corroboration)
    steps: tuple[PlannedStep, ...] = ()
    permits: tuple[Permit, ...] = ()
    if mode is not Mode.OBSERVE and plan.rung is not Rung.OBSERVE:
        budget = Budget(policy, rules, identity, size)
        kinds = [PermitKind.QUARANTINE, *([PermitKind.DISRUPTION] if plan.rung is not Rung.QUARANTINE else [])]
        permits = tuple(budget.ask(kind, (report,), now, _INCIDENT) for kind in kinds)
        steps = tuple(_steps(plan, rules, _Gates(rules, report.verdict, plan.confidence, now, facts)))
    doubtful = is_in_doubt(report) and rules.corroboration.of_rule(report.corroboration).accepted
    moves = plan.rung in MENDING or plan.rung is Rung.REPLACE
    pods = _pods(facts, rules) if moves and facts.pods is not None else None
    return Foresight(
        node=identity.node,
        line=text,
        rule=report.rule,
        verdict=report.verdict,
        reason=report.reason,
        signature=report.signature,
        fields=report.fields,
        drill=report.drill,
        assumed=(*facts.assumed, *filter(None, [facts.witness_note() if doubtful else ""])),
        says=_says(plan, mode, drill=report.drill),
        mode=mode,
        policy_version=policy.version,
        plan=plan,
        steps=steps,
        permits=permits,
        pods=pods,
    )


def _says(plan: Plan, mode: Mode, *, drill: bool) -> str:
    if plan.rung is Rung.OBSERVE:
        return "It would be recorded, and nothing done: this machine is not what failed."
    does = {
        Rung.QUARANTINE: "the node would be closed to new work, and a human asked",
        Rung.RESET_DEVICE: "the node would be closed, its work saved and moved, and its devices reset",
        Rung.REBOOT: "the node would be closed, its work saved and moved, and the machine rebooted",
        Rung.REPLACE: "the node would be closed, its work saved and moved, and the machine replaced",
    }[plan.rung]
    match mode:
        case Mode.OBSERVE:
            return f"It would be recorded, and nothing done: the policy only observes here. In mode act {does}."
        case Mode.SHADOW:
            why = "a drill goes no further here" if drill else "the policy's mode is shadow here"
            return f"Nothing would be touched, for {why}; the decision would be recorded. In mode act {does}."
        case Mode.ACT:
            return f"{does[0].upper()}{does[1:]}."


def _steps(plan: Plan, rules: GroupPolicy, gates: "_Gates") -> list[PlannedStep]:
    """The runbook of ``workflows.remediate_node`` for this decision."""
    limits = rules.deadlines
    steps = [
        PlannedStep(step=Step.QUARANTINE, does="Cordon the node and taint it.", gate="The quarantine permit."),
        PlannedStep(step=Step.SETTLE, does="Let findings of the same fault gather.", deadline=limits.settle),
    ]
    if plan.rung is Rung.QUARANTINE:
        return [*steps, PlannedStep(step=Step.ASSESS, does=f"Ask a human. {plan.remedy}".strip(), gate="A human.")]
    leave = gates.before(Step.DISRUPT, "The disruption permit.")
    steps += [
        PlannedStep(step=Step.ASSESS, does=f"Decide again with all that was found: {plan.rung}."),
        PlannedStep(step=Step.PRESERVE, does="Keep the kernel lines and the console output.", deadline=limits.preserve),
        PlannedStep(
            step=Step.DISRUPT,
            does="Have leave to stop the node's work.",
            gate=leave,
        ),
        PlannedStep(
            step=Step.CHECKPOINT, does="Ask the jobs on the node for a checkpoint.", deadline=limits.checkpoint
        ),
        PlannedStep(
            step=Step.DRAIN,
            does=f"Evict the pods; when they do not leave: {rules.drain_escalation}.",
            deadline=limits.drain,
        ),
    ]
    if plan.rung is Rung.REBOOT:
        return [*steps, PlannedStep(step=Step.REBOOT, does="Reboot, and see it whole again.", deadline=limits.reboot)]
    if plan.rung is Rung.RESET_DEVICE:
        does = "Reset the devices with the vendor's command, and see them whole again."
        return [*steps, PlannedStep(step=Step.RESET_DEVICE, does=does, deadline=limits.reboot)]
    return [
        *steps,
        PlannedStep(
            step=Step.REPLACE,
            does="Look at what replaces the machine, and give the machine up: the point of no return.",
            deadline=limits.group,
            gate=gates.before(Step.REPLACE),
        ),
        PlannedStep(step=Step.AWAIT_REPLACEMENT, does="Wait for the new Node.", deadline=limits.replacement),
        PlannedStep(step=Step.VERIFY, does="Prove it whole before it takes work.", deadline=limits.verification),
        PlannedStep(step=Step.CLOSE, does="See the jobs go on past their checkpoints, and write the record."),
    ]


@dataclass(frozen=True)
class _Gates:
    """What the policy would ask for before a step, as of now."""

    rules: GroupPolicy
    verdict: Verdict
    confidence: Confidence
    now: datetime
    facts: Facts

    def before(self, step: Step, permit: str = "") -> str:
        pods = self.facts.pods
        # Where nobody said what runs there, a gate for many pods is taken to ask.
        working = sys.maxsize if pods is None else sum(map(is_work, pods))
        demand = demanded(self.rules.all_gates, (step,), Situation(self.verdict, self.now, working, self.confidence))
        return " ".join(filter(None, (permit, demand.why if demand else "")))


def _pods(facts: Facts, rules: GroupPolicy) -> tuple[PlannedPod, ...]:
    assert facts.pods is not None
    filtered = [_filtered(pod, rules) for pod in facts.pods[:_PODS_MAX]]
    return tuple(PlannedPod(pod=one.name, becomes=one.verdict, why=one.why) for one in filtered)


def _filtered(pod: dict[str, Any], rules: GroupPolicy) -> Filtered:
    # Whether its DaemonSet still exists is looked up by the drain itself.
    return filter_pod(
        pod,
        daemon_set_exists=True,
        evict_unmanaged=rules.evict_unmanaged_pods,
        evict_local_storage=rules.evict_local_storage_pods,
    )
