"""What one incident knows so far, and how it becomes the report. Plain state: it decides nothing, waits for nothing."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from contract.aftermath import Aftermath
from contract.budget import Traits
from contract.corroboration import Circumstances
from contract.culprit import CulpritSearch
from contract.fault import FaultReport, RemediationRequest
from contract.gates import GateRecord
from contract.identity import NodeIdentity
from contract.incident import IncidentReport, OverrideRecord, SavedWork, StepRecord, StepStatus
from contract.names import KERNEL_LOG, Outcome, Phase, Step
from contract.override import Override
from contract.plan import Plan, Rung
from contract.policy import GroupPolicy, Mode
from contract.proof import digest
from contract.trail import ActRecord
from workflows.policy_change import tightened

FINDINGS_MAX: Final = 10
"""Findings kept in full; the rest are counted."""
OVERRIDES_MAX: Final = 50
NOTES_MAX: Final = 20
ACTS_MAX: Final = 40
WRITES_MAX: Final = 200
"""External writes of a whole incident that are kept: some forty kilobytes of the report."""


@dataclass
class Incident:
    """The facts of one incident, gathered as it runs."""

    request: RemediationRequest
    incident_id: str
    run_id: str
    opened_at: datetime
    trace_id: str = ""
    phase: Phase = Phase.QUEUED
    outcome: Outcome | None = None
    summary: str = "Looking at the report."
    closed_at: datetime | None = None
    identity: NodeIdentity | None = None
    policy: GroupPolicy = field(default_factory=GroupPolicy)
    policy_version: str = ""
    traits: Traits = field(default_factory=dict)
    circumstances: Circumstances | None = None
    """What may corroborate a doubtful finding; None in an incident that began without knowing of it."""
    search: CulpritSearch | None = None
    """Where its job hangs because of another node: who that may be."""
    mode: Mode | None = None
    plan: Plan | None = None
    steps: dict[Step, StepRecord] = field(default_factory=dict)
    overrides: list[OverrideRecord] = field(default_factory=list)
    gates: list[GateRecord] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    asked_at: datetime | None = None
    asked_again: int = 0
    saved: tuple[SavedWork, ...] = ()
    acts: list[ActRecord] = field(default_factory=list)
    acts_total: int = 0
    replacement_instance_id: str | None = None
    replacement_node: str | None = None
    aftermath: Aftermath | None = None
    """Of a decision in mode shadow: what became of the node."""
    on_standby: bool = False
    """Whether the instance was put on standby beside a spare."""
    verification_skipped: Override | None = None
    """Who had the replacement's verification left out, and why."""
    asks_for_proof: bool = False
    """Findings that join from now on count only when their origin is proven."""
    _findings: dict[str, FaultReport] = field(default_factory=dict)
    _unproven: dict[str, FaultReport] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    @property
    def findings(self) -> tuple[FaultReport, ...]:
        """What is held in full, in the order of its arrival."""
        return tuple(self._findings.values())

    @property
    def unproven(self) -> tuple[FaultReport, ...]:
        """What joined and does not count yet."""
        return tuple(self._unproven.values())

    def join(self, report: FaultReport) -> bool:
        """Take a finding in. False when it says nothing new: the same delivery again, or an older count."""
        known = self._findings.get(report.signature)
        if report.key in self._seen and not (known and known.key == report.key and report.count > known.count):
            return False
        if self.asks_for_proof and not (known and digest(known) == digest(report)):
            if len(self._unproven) < FINDINGS_MAX:
                self._unproven.setdefault(report.key, report)
            return False
        self._keep(report)
        return True

    def demand_proof(self, proven: frozenset[str]) -> None:
        """From now on only what is proven counts: of what is there, the findings with these keys."""
        self.asks_for_proof = True
        for report in self.findings:
            if report.key not in proven:
                del self._findings[report.signature]
                self._seen.discard(report.key)
                self._unproven[report.key] = report

    def settle_proof(self, asked: tuple[FaultReport, ...], proven: frozenset[str]) -> None:
        """What was asked about counts now, or never."""
        for report in asked:
            self._unproven.pop(report.key, None)
            if report.key in proven:
                self._keep(report)
            else:
                self.note(
                    f"A finding ({report.reason}) was left out: the node does not carry its digest, so nobody who may "
                    "speak for it says so."
                )

    def _keep(self, report: FaultReport) -> None:
        known = self._findings.get(report.signature)
        self._seen.add(report.key)
        if known and known.source == KERNEL_LOG and report.source != KERNEL_LOG:
            # The same fault at second hand: what the node's own detector says of it stays.
            return
        if known or len(self._findings) < FINDINGS_MAX:
            # The first sight of a fault is what its evidence dates from, whoever repeats it later.
            first = min(known.first_seen, report.first_seen) if known else report.first_seen
            self._findings[report.signature] = report.model_copy(update={"first_seen": first})

    def begin(self, step: Step, now: datetime, summary: str, status: StepStatus = StepStatus.RUNNING) -> None:
        """A step starts, or goes on with something else to say."""
        known = self.steps.get(step)
        self.steps[step] = StepRecord(
            step=step, status=status, started_at=known.started_at if known else now, summary=summary
        )

    def end(self, step: Step, now: datetime, summary: str, status: StepStatus = StepStatus.DONE) -> None:
        """A step is over."""
        known = self.steps.get(step)
        self.steps[step] = StepRecord(
            step=step, status=status, started_at=known.started_at if known else now, ended_at=now, summary=summary
        )

    def note(self, sentence: str) -> None:
        """Keep what no step says."""
        if sentence not in self.notes and len(self.notes) < NOTES_MAX:
            self.notes.append(sentence)

    def keep_override(self, record: OverrideRecord) -> None:
        """Keep what a human pressed. Of more than fit, the refused go first: pressing in vain fills no report."""
        self.overrides.append(record)
        if len(self.overrides) > OVERRIDES_MAX:
            refused = next((index for index, kept in enumerate(self.overrides) if not kept.accepted), 0)
            del self.overrides[refused]

    def take_policy(self, policy: GroupPolicy | None, version: str) -> None:
        """The policy of now; None where no machine was found that it is about. A running incident it only tightens."""
        if self.policy_version not in ("", version):
            self.note(
                f"Looked at again under policy {version}; until then it was decided under {self.policy_version}. What "
                "was tightened holds here from now on, what was loosened holds for new incidents."
            )
        self.policy_version = version
        if policy:
            self.policy = policy if self.mode is None else tightened(self.policy, policy)
            self.mode = self.policy.mode_for(drill=self.request.drill)

    def keep_act(self, record: ActRecord) -> None:
        """Keep what an act wrote and how it failed. Of more than fit, those in the middle go: the counts stay."""
        self.acts_total += 1
        room = max(0, WRITES_MAX - sum(len(kept.trail.writes) for kept in self.acts))
        trail = record.trail.model_copy(update={"writes": record.trail.writes[:room]})
        self.acts.append(record.model_copy(update={"trail": trail}))
        if len(self.acts) > ACTS_MAX:
            del self.acts[ACTS_MAX // 2]

    def tried(self, rung: Rung) -> None:
        """A rung was tried on this machine: it is not tried again."""
        assert self.identity is not None
        self.identity = self.identity.model_copy(update={"tried": (*self.identity.tried, str(rung))})

    def handled_seq(self) -> int:
        """The last kernel record of this boot that the incident took in."""
        boot = self.identity.boot_id if self.identity else ""
        own = [finding for finding in self.findings if finding.source == KERNEL_LOG and finding.boot_id == boot]
        return max((finding.newest_seq for finding in own), default=0)

    def report(self) -> IncidentReport:
        """The report as of now."""
        return IncidentReport(
            incident_id=self.incident_id,
            run_id=self.run_id,
            trace_id=self.trace_id,
            cluster=self.request.cluster,
            node=self.request.node,
            instance_id=self.identity.instance_id if self.identity else self.request.instance_id,
            drill=self.request.drill,
            phase=self.phase,
            outcome=self.outcome,
            summary=self.summary,
            opened_at=self.opened_at,
            closed_at=self.closed_at,
            mode=self.mode,
            policy_version=self.policy_version,
            identity=self.identity,
            findings=self.findings,
            findings_total=len(self._seen),
            plan=self.plan,
            steps=tuple(self.steps.values()),
            overrides=tuple(self.overrides),
            gates=tuple(self.gates),
            facts=dict(self.facts),
            saved=self.saved,
            notes=tuple(self.notes),
            asked_at=self.asked_at,
            asked_again=self.asked_again if self.asked_at else 0,
            acts=tuple(self.acts),
            acts_total=self.acts_total,
            replacement_instance_id=self.replacement_instance_id,
            replacement_node=self.replacement_node,
            aftermath=self.aftermath,
        )
