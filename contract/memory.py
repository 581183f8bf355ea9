"""What is remembered of machines that failed, across incidents, nodes and jobs."""

from datetime import datetime
from enum import StrEnum

from contract.model import Message


class Failure(StrEnum):
    """In which way a machine failed."""

    GIVEN_UP = "given-up"
    """Its incident had it replaced."""
    NOT_VERIFIED = "not-verified"
    """It came as a replacement and could not be proven whole: a failed repair (V11)."""


class FailedMachine(Message):
    """One machine that failed, with everything by which it may be known again."""

    at: datetime
    failure: Failure
    node: str
    instance_id: str = ""
    group: str = ""
    zone: str = ""
    host: str = ""
    """The dedicated host, or the hardware's own id, where one is known."""
    serials: tuple[str, ...] = ()
    """Of the devices that failed."""
    job: str = ""
    """The work that held its devices then, where there was any."""
    reason: str
    incident: str

    def known_as(self, key: str) -> bool:
        """Whether a name, an instance id, a host or a serial number is this machine's."""
        return key in {self.node, self.instance_id, self.host, *self.serials} - {""}


class FailedMachines(Message):
    """The whole memory, the oldest first, bounded by its writer."""

    machines: tuple[FailedMachine, ...] = ()
