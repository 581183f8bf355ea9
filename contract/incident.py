"""The incident report: the same document in the memo while it runs, in the result, and in every record sink."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from contract.aftermath import Aftermath
from contract.fault import FaultReport
from contract.gates import GateRecord
from contract.identity import NodeIdentity
from contract.model import SCHEMA_VERSION, Message
from contract.names import Outcome, OverrideName, Phase, Step
from contract.plan import Plan
from contract.policy import Mode
from contract.trail import ActRecord

RECORD_FACT: Final = "record"
"""The fact that says where an incident that closed by itself wrote its record."""
NOT_TAKEN: Final = "A sink of the record does not have it"
"""How the note begins that says of a sink that it refused."""


class StepStatus(StrEnum):
    """How a step stands."""

    RUNNING = "running"
    WAITING = "waiting"
    """For a permit, an approval or a human."""
    DONE = "done"
    SHADOWED = "shadowed"
    """Decided and not done: the policy says shadow."""
    SKIPPED = "skipped"
    FAILED = "failed"


class StepRecord(Message):
    """One step of the runbook in this incident."""

    step: Step
    status: StepStatus
    started_at: datetime
    ended_at: datetime | None = None
    summary: str = ""
    """What it did, found or waits for."""


class OverrideRecord(Message):
    """What a human pressed, and what came of it. Refused ones are kept too."""

    name: OverrideName
    by: str
    reason: str
    at: datetime
    accepted: bool
    answer: str
    """Why it was refused and what is allowed now, or what it does."""


class SavedWork(Message):
    """What a job's checkpoint was worth. None where nobody knows."""

    job: str
    status: str
    """Of the checkpoint."""
    saved_steps: int | None = None
    saved_accelerator_seconds: float | None = None
    lost_steps: int | None = None
    how: str = ""
    """How that is computed, in words."""


class ForcedEnd(Message):
    """How Temporal ended an incident that did not close by itself: nothing was cleaned up, and others tell of it."""

    how: str
    """``was terminated``, ``timed out``, ``failed`` or ``was cancelled``."""
    at: datetime
    by: str = ""
    """Who terminated it, as Temporal knows them; empty where nobody did."""
    reason: str = ""


class IncidentReport(Message):
    """Everything about one incident, complete at its end."""

    schema_version: int = SCHEMA_VERSION
    incident_id: str
    run_id: str
    trace_id: str = ""
    """OpenTelemetry trace of the incident; empty where nothing named one at its start."""
    cluster: str
    node: str
    instance_id: str | None = None
    drill: bool = False
    phase: Phase
    outcome: Outcome | None = None
    """None while it runs."""
    summary: str
    """One sentence: how it ended, or what it does now."""
    opened_at: datetime
    closed_at: datetime | None = None
    mode: Mode | None = None
    policy_version: str = ""
    identity: NodeIdentity | None = None
    findings: tuple[FaultReport, ...] = ()
    findings_total: int = 0
    """Findings received, repeated ones counted once; the list above is bounded."""
    plan: Plan | None = None
    steps: tuple[StepRecord, ...] = ()
    overrides: tuple[OverrideRecord, ...] = ()
    gates: tuple[GateRecord, ...] = ()
    """Approvals that were asked for: of what, at which price, and who gave them."""
    facts: dict[str, str] = Field(default_factory=dict)
    """Results by name, in words: what was saved, evicted, replaced and proven."""
    saved: tuple[SavedWork, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know and no step says, e.g. a record that could not be written."""
    asked_at: datetime | None = None
    """Since when a human is waited for; None while none is."""
    asked_again: int = 0
    """How often that was told again since."""
    acts: tuple[ActRecord, ...] = ()
    """Every act with its attempts, their errors and what each wrote outside; the list is bounded, from its middle."""
    acts_total: int = 0
    replacement_instance_id: str | None = None
    replacement_node: str | None = None
    aftermath: Aftermath | None = None
    """Of a decision in mode shadow: what became of the node, where the policy has it followed."""
    forced_end: ForcedEnd | None = None
    """Of one that did not close by itself; None of every other."""
