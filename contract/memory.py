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
    """The dedicated host, where there is one: EC2 names no other kind of host."""
    network_node: str = ""
    """What it hung on in the network: many machines share one, so that it tells a neighbour and not the machine."""
    serials: tuple[str, ...] = ()
    """Of the devices that failed."""
    job: str = ""
    """The work that held its devices then, where there was any."""
    reason: str
    incident: str

    def known_as(self, key: str) -> bool:
        """Whether a name, an instance id, a host or a serial number is this machine's."""
        return key in {self.node, self.instance_id, self.host, *self.serials} - {""}

    def meant_by(self, key: str) -> bool:
        """Whether somebody who asks for a name means this failure: the machine's, or that of what it hung on."""
        return self.known_as(key) or (bool(key) and key == self.network_node)


class FailedMachines(Message):
    """The whole memory, the oldest first, bounded by its writer."""

    machines: tuple[FailedMachine, ...] = ()


class TriedRung(Message):
    """A rung of the ladder that was tried, with everything by which what it was tried on may be known again."""

    at: datetime
    rung: str
    node: str
    instance_id: str = ""
    host: str = ""
    serials: tuple[str, ...] = ()
    """Of the devices that failed then."""
    incident: str


class TriedRungs(Message):
    """All of them, the oldest first, bounded by their writer."""

    rungs: tuple[TriedRung, ...] = ()
