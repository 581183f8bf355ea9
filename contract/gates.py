"""Gates: where a human approves before Nodemend goes on, and when that is asked for. Pure: the clock is an argument."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import Field, field_validator

from contract.fault import FaultReport, Verdict
from contract.maintenance import MaintenanceWindow, opens_at
from contract.model import Document, Message
from contract.names import Step
from contract.plan import Confidence, Plan
from contract.price import Price
from contract.words import counted

GATED: Final = (Step.DISRUPT, Step.REPLACE)
"""Before these an approval can be asked: before the work is disturbed, and before the machine is given up."""
_SEVERITY: Final = tuple(Verdict)
_SURENESS: Final = tuple(Confidence)


def must_be_gated(step: Step) -> Step:
    """A step that an approval can be asked before.

    Raises:
        ValueError: it is none.
    """
    if step not in GATED:
        allowed = sorted(one.value for one in GATED)
        raise ValueError(f"approval can be asked before {allowed}, not before {step.value!r}")
    return step


class Gate(Document):
    """Asks for an approval where all of its conditions hold; one without conditions always asks."""

    before: Step
    """``disrupt`` or ``replace``."""
    verdicts: tuple[Verdict, ...] = ()
    """Only where the worst finding is one of these; empty: whatever it is."""
    hours: tuple[MaintenanceWindow, ...] = ()
    """Only in these hours; empty: at any time."""
    pods: int = Field(default=0, ge=0)
    """Only where at least so many pods work on the node."""
    confidence: Confidence | None = None
    """Only where the plan is no surer than this; left out: however sure it is."""
    approvals: int = Field(default=1, ge=1, le=2)
    """How many different people have to approve."""

    _before_something = field_validator("before")(must_be_gated)

    def asks(self, situation: "Situation") -> bool:
        """Whether all of its conditions hold."""
        return (
            (not self.verdicts or situation.verdict in self.verdicts)
            and (not self.hours or opens_at(self.hours, situation.now) is None)
            and situation.pods >= self.pods
            and (self.confidence is None or _SURENESS.index(situation.confidence) <= _SURENESS.index(self.confidence))
        )

    def words(self) -> str:
        """What it asks for and when, for people."""
        conditions = ["an approval" if self.approvals == 1 else f"the approvals of {self.approvals} people"]
        if self.verdicts:
            conditions.append(f"for {' or '.join(self.verdicts)} faults")
        if self.hours:
            spans = (f"{one.start:%H:%M}-{one.end:%H:%M} {one.timezone}" for one in self.hours)
            conditions.append(f"in the hours {', '.join(spans)}")
        if self.pods:
            conditions.append(f"where {counted(self.pods, 'pod')} or more run on the node")
        if self.confidence:
            conditions.append(f"where the confidence is {self.confidence} or less")
        return " ".join(conditions)


@dataclass(frozen=True)
class Situation:
    """What a gate's conditions look at."""

    verdict: Verdict
    """Of the worst finding."""
    now: datetime
    pods: int
    """That work on the node."""
    confidence: Confidence
    """Of the plan."""


@dataclass(frozen=True)
class Demand:
    """What the policy asks for at one place."""

    approvals: int
    why: str


def demanded(gates: Iterable[Gate], steps: Iterable[Step], situation: Situation) -> Demand | None:
    """What the gates before these steps ask for now: the strictest of those whose conditions hold. None: nothing."""
    asking = [gate for step in steps for gate in gates if gate.before is step and gate.asks(situation)]
    if not asking:
        return None
    strictest = max(asking, key=lambda gate: gate.approvals)
    return Demand(strictest.approvals, f"Before {strictest.before} the policy asks for {strictest.words()}.")


def worst(findings: Iterable[FaultReport]) -> Verdict:
    """The worst verdict; ``Verdict`` is declared from the worst to the least."""
    return min((finding.verdict for finding in findings), key=_SEVERITY.index)


def plan_digest(plan: Plan) -> str:
    """Names a plan: an approval is of the plan that has this digest, and of no other.

    Of the decision alone. More evidence for the same decision is no other decision, and voids no approval.
    """
    decision = [plan.rung, *plan.reasons, plan.data, plan.device_resource]
    return hashlib.sha256(json.dumps(decision).encode()).hexdigest()[:8]


class GateRecord(Message):
    """A gate as the incident's report keeps it."""

    before: Step
    plan: str
    """Digest of the plan that is, or was, to be approved."""
    why: str
    approvals: int = 1
    """How many different people it needs."""
    approved_by: tuple[str, ...] = ()
    asked_at: datetime
    passed_at: datetime | None = None
    price: Price | None = None
    """What the approval costs, as far as it could be found out."""
