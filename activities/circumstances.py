"""What may corroborate a doubtful finding: EC2's own word on the instance, and the past of the device that failed.

Asked where a finding is in doubt, and only then. What cannot be had proves nothing and stops nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.ec2 import Ec2
from activities.memory import Memory
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
        doubtful = [report for report in reports if report.verdict is Verdict.AMBIGUOUS]
        if not doubtful:
            return Circumstances()
        serials = {serial for report in doubtful for serial in proven_serials(report)}
        complaints, asked = self._complaints(identity.instance_id)
        return Circumstances(
            ec2=complaints,
            ec2_asked=asked,
            recurrence=recurrences(self._failed(), serials, job()) if serials else (),
        )

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
