"""What an act leaves behind besides its answer: how often it was tried, why a try failed, and what it wrote outside.

It travels with the act's result, with its failure, and with its heartbeats from one attempt to the next, so all of it
is bounded: what is left out is counted.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from contract.model import Message
from contract.names import Step

TRAIL: Final = "trail"
"""Key of a trail in the details of a heartbeat or a failure."""
WRITES_MAX: Final = 40
"""External writes of one act that are kept; the rest are counted."""
FAILED_MAX: Final = 8
"""Failed attempts of one act that are kept, the first half and the last; the rest are counted."""
OBJECT_MAX: Final = 200
ERROR_MAX: Final = 300


class System(StrEnum):
    """Where something was written."""

    KUBERNETES = "kubernetes"
    AWS = "aws"


class ExternalWrite(Message):
    """One call that was sent to change something outside, whatever came of it."""

    at: datetime
    system: System
    verb: str
    """``create``, ``patch``, ``delete``, ``exec``, or the AWS action, ``autoscaling:SetInstanceHealth``."""
    object: str
    """The path of the Kubernetes object; the ids that the AWS call named."""
    status: int
    """HTTP status of the answer."""
    version: str = ""
    """``metadata.resourceVersion`` that the object had after it."""
    request_id: str = ""
    """AWS's request id; of Kubernetes, the ``Audit-Id`` by which its audit log has the call."""
    times: int = 1
    """How often in a row the same call had the same answer; ``at`` is the first, the ids are the last's."""


class FailedAttempt(Message):
    """One attempt of an act that failed, or several in a row that failed alike."""

    number: int
    """Counted from 1; of several, the last."""
    at: datetime
    error: str
    times: int = 1


class Trail(Message):
    """All of it, of one act."""

    attempts: int = 1
    failed: tuple[FailedAttempt, ...] = ()
    failed_total: int = 0
    writes: tuple[ExternalWrite, ...] = ()
    writes_total: int = 0

    def wrote(self, write: ExternalWrite) -> "Trail":
        """With one more write."""
        total = self.writes_total + 1
        last = self.writes[-1] if self.writes else None
        if last and _call(last) == _call(write):
            again = write.model_copy(update={"at": last.at, "times": last.times + 1})
            return self.model_copy(update={"writes": (*self.writes[:-1], again), "writes_total": total})
        kept = (*self.writes, write) if len(self.writes) < WRITES_MAX else self.writes
        return self.model_copy(update={"writes": kept, "writes_total": total})

    def failing(self, failed: FailedAttempt) -> "Trail":
        """With one more attempt that failed."""
        kept = list(self.failed)
        if kept and kept[-1].error == failed.error:
            failed = failed.model_copy(update={"times": kept[-1].times + 1})
            kept.pop()
        kept.append(failed)
        if len(kept) > FAILED_MAX:
            del kept[FAILED_MAX // 2]
        return self.model_copy(
            update={"attempts": failed.number, "failed": tuple(kept), "failed_total": self.failed_total + 1}
        )

    def within(self, size: int) -> "Trail":
        """The same in so many bytes of JSON: the oldest writes go first, then the oldest failures."""
        trail = self
        while len(trail.model_dump_json().encode()) > size and (trail.writes or trail.failed):
            field = "writes" if trail.writes else "failed"
            trail = trail.model_copy(update={field: getattr(trail, field)[1:]})
        return trail


class ActResult(Message):
    """The base of the results of acts that write outside."""

    trail: Trail | None = None
    """Laid in by the worker and taken out by the workflow, which keeps it in the report."""


class ActRecord(Message):
    """One act of an incident, as often as it was tried."""

    act: str
    step: Step | None = None
    """None for what is done after the last step."""
    at: datetime
    """When its answer came."""
    error: str = ""
    """Why it failed for good; empty where it did not."""
    trail: Trail = Trail()


def _call(write: ExternalWrite) -> tuple[str, str, str, int]:
    return write.system, write.verb, write.object, write.status
