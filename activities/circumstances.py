"""What is known around a finding: EC2's own word on the instance, the past of the device, and what was tried on it.

Asked only where it matters: the first two for a finding that has to be confirmed, the last for one that may be
repaired. A witness that cannot be had proves nothing and stops nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.ec2 import Ec2
from activities.memory import Memory, tried_before
from activities.node_facts import REMEMBERED
from contract.corroboration import Circumstances
from contract.fault import SERIAL_FIELDS, FaultReport, Verdict
from contract.identity import NodeIdentity
from contract.memory import FailedMachine

_TOLD: Final = 3
"""Earlier failures that are told: one is enough to prove, more bloat the history."""


class CircumstanceReader:
    """Reads them for ``identify``."""

    def __init__(self, ec2: Ec2, memory: Memory) -> None:
        self._ec2 = ec2
        self._memory = memory

    def read(self, identity: NodeIdentity, reports: Sequence[FaultReport], job: Callable[[], str]) -> Circumstances:
        """What is known around these findings of this machine; ``job`` tells the work that holds its devices."""
        doubtful = [report for report in reports if report.verdict is Verdict.AMBIGUOUS or report.corroboration]
        if not doubtful:
            return Circumstances()
        serials = {serial for report in doubtful for serial in proven_serials(report)}
        complaints, asked = self._complaints(identity.instance_id)
        return Circumstances(
            ec2=complaints,
            ec2_asked=asked,
            recurrence=recurrences(self._failed(), serials, job()) if serials else (),
        )

    def tried(self, identity: NodeIdentity, reports: Sequence[FaultReport]) -> tuple[str, ...]:
        """Rungs that were tried lately on this machine or its failing devices, whatever Node they were of then.

        Raises:
            ApplicationError: the memory cannot be read: a rung that failed must not be repeated for that.
        """
        repairable = [report for report in reports if report.verdict is Verdict.REPAIRABLE]
        if not repairable:
            return ()
        serials = {serial for report in repairable for serial in proven_serials(report)}
        since = datetime.now(UTC) - REMEMBERED
        return tried_before(self._memory.tried(), identity.instance_id or "", identity.host, serials, since)

    def _complaints(self, instance_id: str | None) -> tuple[tuple[str, ...], bool]:
        if instance_id is None:
            return (), False
        try:
            return self._ec2.complaints(instance_id), True
        except ApplicationError as error:
            activity.logger.warning("EC2's word on %s cannot be had: %s", instance_id, error.message)
            return (), False

    def _failed(self) -> tuple[FailedMachine, ...]:
        try:
            return self._memory.all()
        except ApplicationError as error:
            activity.logger.warning("The memory of failed machines cannot be read: %s", error.message)
            return ()


def proven_serials(report: FaultReport) -> set[str]:
    """Serial numbers that the node vouches for: the digest holds the signature, and not the other fields. Pure."""
    parts = report.signature.split("/")
    return {report.fields[name] for name in SERIAL_FIELDS if f"{name}={report.fields.get(name)}" in parts}


def recurrences(machines: Iterable[FailedMachine], serials: set[str], job: str) -> tuple[str, ...]:
    """Earlier failures of one of these devices under other work than ``job``. Pure.

    Where the work of then or of now is not known, it may be the same, and a job can break what it touches: no proof.
    """
    found = [
        f"Device {serial} failed before, on {machine.at:%Y-%m-%d} in {machine.node} under {machine.job}."
        for machine in machines
        for serial in sorted(serials & set(machine.serials))
        if job and machine.job and machine.job != job
    ]
    return tuple(found[-_TOLD:])
