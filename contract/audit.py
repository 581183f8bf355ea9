"""The audit log of an incident: who did what, when and why, each entry holding the digest of the one before it.

A changed, removed or moved entry breaks the chain. Cutting off the end does not, so the digest of the last entry is
also told to the workflow, whose result keeps it where whoever can write the folder cannot.
"""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from contract.incident import IncidentReport
from contract.model import SCHEMA_VERSION, Message

START: Final = "0" * 64
"""What the first entry has for the digest before it."""
NODEMEND: Final = "nodemend"
TEMPORAL: Final = "temporal"
"""Who did what no human did: timed out, failed."""


class AuditEntry(Message):
    """One thing that somebody did."""

    schema_version: int = SCHEMA_VERSION
    incident_id: str
    run_id: str
    seq: int
    at: datetime
    node: str
    by: str
    """A human, as they said themselves, ``nodemend``, or who ended the workflow in Temporal."""
    what: str
    why: str = ""
    accepted: bool = True
    previous: str
    digest: str = ""

    def sealed(self) -> "AuditEntry":
        """With the digest of all its other fields."""
        text = self.model_dump_json(exclude={"digest"})
        return self.model_copy(update={"digest": hashlib.sha256(text.encode()).hexdigest()})


def audit_log(report: IncidentReport) -> tuple[AuditEntry, ...]:
    """What was done in an incident, in the order of time. The same report makes the same log."""
    done = [
        (step.ended_at or step.started_at, NODEMEND, f"{step.step}: {step.status}", step.summary, True)
        for step in report.steps
    ]
    pressed = [(one.at, one.by, str(one.name), one.reason, one.accepted) for one in report.overrides]
    end = report.forced_end
    forced = [(end.at, end.by or TEMPORAL, f"workflow {end.how}", end.reason, True)] if end else []
    entries: list[AuditEntry] = []
    for seq, (at, by, what, why, accepted) in enumerate(sorted([*done, *pressed, *forced], key=lambda item: item[0])):
        entry = AuditEntry(
            incident_id=report.incident_id,
            run_id=report.run_id,
            seq=seq,
            at=at,
            node=report.node,
            by=by,
            what=what,
            why=why,
            accepted=accepted,
            previous=entries[-1].digest if entries else START,
        )
        entries.append(entry.sealed())
    return tuple(entries)


def lines(entries: Iterable[AuditEntry]) -> str:
    """As JSON lines."""
    return "".join(entry.model_dump_json() + "\n" for entry in entries)


def broken(text: str) -> Iterator[str]:
    """What does not hold in a log, in words; nothing where all of it does."""
    previous, count = START, 0
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            entry = AuditEntry.model_validate_json(line)
        except ValidationError:
            yield f"line {number} is no audit entry"
            return
        if entry.sealed().digest != entry.digest:
            yield f"line {number} was changed after it was written"
        if entry.previous != previous or entry.seq != count:
            yield f"line {number} does not follow the line before it: one was removed, added or moved"
        previous, count = entry.digest, count + 1
    if not count:
        yield "it is empty"
