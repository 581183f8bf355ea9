"""What an incident would have decided about a captured log, finding by finding, at the log's own time.

The capture goes on as it went, whatever is decided here: after a decision to replace, its lines are those of a machine
that would not have been there any more, and they are counted as such.
"""

import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from cli.judging.budgets import Budget, Permit
from cli.judging.facts import ANY_INSTANCE, named_instance
from cli.judging.play import Moment
from cli.judging.reports import report_of
from cli.judging.witnesses import assumed
from contract.corroboration import Corroboration
from contract.fault import EvidenceEnd, FaultReport, RemediationRequest, Verdict
from contract.gates import GATED, Situation, demanded, worst
from contract.identity import NodeIdentity
from contract.model import Message
from contract.names import Outcome
from contract.permit import PermitKind
from contract.plan import Plan, Rung
from contract.policy import Mode, Policy
from workflows.assess import assess
from workflows.incident_state import Incident
from workflows.mending import MENDING

EVENTS_MAX: Final = 2000
"""Entries of a timeline; what comes after them is counted."""
FINDINGS_MAX: Final = 1000
INCIDENTS_MAX: Final = 200
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class When(Message):
    """A moment of the capture."""

    boot: int
    since_boot_s: float
    at: datetime | None = None
    """None where the capture has no wall clock."""
    line: int
    """Line of the capture that was read then."""


class Event(Message):
    """One entry of the timeline."""

    when: When
    what: str
    """``boot``, ``finding``, ``again``, ``decision``, ``permit``, ``gate``, ``end``."""
    says: str


class Finding(Message):
    """One fault as the detector told it."""

    rule: str
    verdict: Verdict
    signature: str
    reason: str
    first: When
    last: When
    count: int
    reports: int
    drill: bool
    message: str


class Decision(Message):
    """One incident as it would have gone."""

    opened: When
    drill: bool
    mode: Mode
    plan: Plan
    """As it stood at its end."""
    changed: int
    """How often what came later changed the decision."""
    permits: tuple[Permit, ...] = ()
    gate: str = ""
    """The approval that it would have waited for; whatever pods run there."""
    findings: int
    findings_after_replacement: int = 0
    """That would not have come: the machine would have been given up by then."""
    outcome: Outcome | None = None
    says: str


@dataclass
class _Open:
    """An incident that goes on."""

    incident: Incident
    opened: When
    budget: Budget
    changed: int = -1
    permits: dict[PermitKind, Permit] = field(default_factory=dict)
    gate: str = ""
    given_up: bool = False
    after: int = 0


@dataclass
class Judge:
    """Takes the detector's reports, and keeps what would have been decided."""

    identity: NodeIdentity
    policy: Policy
    size: int
    witnesses: tuple[Corroboration, ...] = ()
    """Second witnesses that are taken to be there."""
    events: list[Event] = field(default_factory=list)
    left_out: int = 0
    """Entries of the timeline beyond its bound."""
    decisions: list[Decision] = field(default_factory=list)
    decisions_left_out: int = 0
    findings: dict[tuple[int, str, int], Finding] = field(default_factory=dict)
    findings_left_out: int = 0
    _open: dict[bool, _Open] = field(default_factory=dict)

    def take(self, counted: dict[str, Any], moment: Moment) -> None:
        """A report of the detector."""
        if self.identity.instance_id == ANY_INSTANCE and (named := named_instance(counted["fields"])):
            # Nobody said which machine it was, and the capture does: that it lies can then not be known.
            self.identity = self.identity.model_copy(update={"instance_id": named})
        report = report_of(counted, self.identity, f"boot-{moment.boot}")
        when = when_of(moment)
        self._keep(report, when)
        known = self._open.get(report.drill)
        if known is None:
            known = self._open[report.drill] = self._begin(report, when)
        # A count alone decides nothing new.
        if known.incident.join(report):
            if known.given_up:
                known.after += 1
            self._decide(known, when)

    def reboot(self, moment: Moment) -> None:
        """The machine booted. What a boot ends is no evidence any more (C6), and a rung that is a boot was tried."""
        when = when_of(moment)
        self._event(when, "boot", "The machine booted.")
        for known in list(self._open.values()):
            plan = known.incident.plan
            if plan and plan.rung in MENDING and self._mode(drill=known.incident.request.drill) is Mode.ACT:
                tried = tuple(dict.fromkeys((*self.identity.tried, str(plan.rung))))
                self.identity = self.identity.model_copy(update={"tried": tried})
                says = f"This boot stands for the {plan.rung} that would have been done: it counts as tried."
                self._end(known, when, Outcome.REPAIRED, says)
            elif all(finding.evidence_end is EvidenceEnd.BOOT for finding in known.incident.findings):
                self._end(known, when, Outcome.STALE, "A boot ended the evidence: there was nothing left to repair.")

    def close(self, moment: Moment) -> None:
        """The capture is over."""
        for known in list(self._open.values()):
            self._end(known, when_of(moment), None, "It was open when the capture ended.", tell=False)

    def _begin(self, report: FaultReport, when: When) -> _Open:
        request = RemediationRequest(cluster=self.identity.cluster, node=self.identity.node, drill=report.drill)
        incident = Incident(request, f"replay-{len(self.decisions) + 1}", "replay", when.at or _EPOCH)
        incident.identity = self.identity
        rules = self.policy.for_node(self.identity.group, self.identity.nodegroup)
        return _Open(incident, when, Budget(self.policy, rules, self.identity, self.size))

    def _decide(self, known: _Open, when: When) -> None:
        incident = known.incident
        rules = known.budget.rules
        around = assumed(self.witnesses, incident.findings)
        found, doubts = (*incident.findings, *around.findings), (around.circumstances, rules.corroboration)
        plan = assess(found, self.identity, None, rules.replacement, *doubts)
        mode = self._mode(drill=incident.request.drill)
        if incident.plan is None or not plan.decides_as(incident.plan):
            known.changed += 1
            self._event(when, "decision", f"{plan.rung}: {' '.join(plan.reasons)}")
        incident.plan = plan
        if plan.rung is Rung.OBSERVE or mode is Mode.OBSERVE:
            why = "Nothing would have been done." if plan.rung is Rung.OBSERVE else "The policy only observes here."
            self._end(known, when, Outcome.OBSERVED, why)
            return
        moves = plan.rung in MENDING or plan.rung is Rung.REPLACE
        for kind in (PermitKind.QUARANTINE, *([PermitKind.DISRUPTION] if moves else [])):
            self._ask(known, kind, when)
        if moves:
            self._gate(known, when)
        granted = not known.gate and all(permit.granted for permit in known.permits.values())
        if plan.rung is Rung.REPLACE and granted and mode is Mode.ACT:
            known.given_up = True

    def _gate(self, known: _Open, when: When) -> None:
        """An approval that the policy asks for: the log does not say whether it came."""
        # How many pods ran there it does not say either: a gate for many of them is taken to ask.
        findings, plan = known.incident.findings, known.incident.plan
        assert plan is not None
        situation = Situation(worst(findings), when.at or _EPOCH, sys.maxsize, plan.confidence)
        demand = demanded(known.budget.rules.all_gates, GATED, situation)
        if demand and not known.gate:
            known.gate = demand.why
            self._event(when, "gate", demand.why)

    def _ask(self, known: _Open, kind: PermitKind, when: When) -> None:
        had = known.permits.get(kind)
        if had and had.granted:
            return
        answer = known.budget.ask(kind, known.incident.findings, when.at or _EPOCH, known.incident.incident_id)
        known.permits[kind] = answer
        if had is None or had.says != answer.says:
            self._event(when, "permit", f"{kind}: {'granted' if answer.granted else f'waits: {answer.says}'}")

    def _end(self, known: _Open, when: When, outcome: Outcome | None, says: str, *, tell: bool = True) -> None:
        incident = known.incident
        del self._open[incident.request.drill]
        assert incident.plan is not None
        if tell:
            self._event(when, "end", says)
        if len(self.decisions) >= INCIDENTS_MAX:
            self.decisions_left_out += 1
            return
        self.decisions.append(
            Decision(
                opened=known.opened,
                drill=incident.request.drill,
                mode=self._mode(drill=incident.request.drill),
                plan=incident.plan,
                changed=known.changed,
                permits=tuple(known.permits.values()),
                gate=known.gate,
                findings=len(incident.findings),
                findings_after_replacement=known.after,
                outcome=outcome,
                says=says,
            )
        )

    def _mode(self, *, drill: bool) -> Mode:
        return self.policy.for_node(self.identity.group, self.identity.nodegroup).mode_for(drill=drill)

    def _keep(self, report: FaultReport, when: When) -> None:
        key = (when.boot, report.signature, report.seq)
        known = self.findings.get(key)
        again = known is not None
        self._event(
            when,
            "again" if again else "finding",
            f"{report.reason} ({report.rule}, {report.verdict}{', a drill' if report.drill else ''})"
            f"{f', seen {report.count} times' if report.count > 1 else ''}",
        )
        if known is None and len(self.findings) >= FINDINGS_MAX:
            self.findings_left_out += 1
            return
        self.findings[key] = Finding(
            rule=report.rule,
            verdict=report.verdict,
            signature=report.signature,
            reason=report.reason,
            first=known.first if known else when,
            last=when,
            count=report.count,
            reports=known.reports + 1 if known else 1,
            drill=report.drill,
            message=report.message,
        )

    def _event(self, when: When, what: str, says: str) -> None:
        if len(self.events) >= EVENTS_MAX:
            self.left_out += 1
            return
        self.events.append(Event(when=when, what=what, says=says))


def when_of(moment: Moment) -> When:
    """The moment as people and programs read it."""
    at = None if moment.at is None else datetime.fromtimestamp(moment.at, UTC)
    return When(boot=moment.boot, since_boot_s=round(moment.since_boot_s, 3), at=at, line=moment.line)
