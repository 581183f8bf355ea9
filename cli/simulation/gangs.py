"""Jobs that need all their nodes at once, and how much of their time was of use."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from cli.simulation.model import FleetModel


@dataclass
class Gang:
    """One job."""

    members: set[int] = field(default_factory=set)
    runs_from_s: float | None = None
    """None while it stands still; in the future while it restarts."""
    useful_s: float = 0.0
    interruptions: int = 0


class Gangs:
    """All jobs, and the nodes that none of them has."""

    def __init__(self, model: FleetModel) -> None:
        self._size = model.gang
        self._every_s = model.checkpoint_every / timedelta(seconds=1)
        self._restart_s = model.restart / timedelta(seconds=1)
        self._save_s = model.checkpoint / timedelta(seconds=1)
        self.all = [Gang() for _ in range(model.gangs)]
        self._free = dict.fromkeys(range(model.nodes))
        """Nodes that a gang may take, in order."""
        self._gang_of: dict[int, Gang] = {}
        for gang in self.all:
            self._fill(gang, 0.0)
            gang.runs_from_s = 0.0

    def lose(self, node: int, now_s: float, *, saved: bool) -> None:
        """A node is gone for its gang, which first saves its work where it is asked and still can."""
        self._free.pop(node, None)
        gang = self._gang_of.pop(node, None)
        if gang is None:
            return
        gang.members.discard(node)
        if gang.runs_from_s is not None:
            ran = max(0.0, now_s - gang.runs_from_s)
            gang.useful_s += ran if saved else ran - ran % self._every_s
            gang.interruptions += 1
            gang.runs_from_s = None
        self._fill(gang, now_s + (self._save_s if saved else 0.0))

    def close(self, node: int) -> None:
        """No gang may take it any more; one that has it keeps it."""
        self._free.pop(node, None)

    def open(self, node: int, now_s: float) -> None:
        """It may be taken: by a gang that stands still first of all."""
        if node in self._gang_of:
            return
        self._free[node] = None
        for gang in self.all:
            if gang.runs_from_s is None:
                self._fill(gang, now_s)

    def end(self, now_s: float) -> None:
        """The run is over: what was done so far is done."""
        for gang in self.all:
            if gang.runs_from_s is not None:
                gang.useful_s += max(0.0, now_s - gang.runs_from_s)

    def _fill(self, gang: Gang, now_s: float) -> None:
        for node in list(_first(self._free, self._size - len(gang.members))):
            del self._free[node]
            gang.members.add(node)
            self._gang_of[node] = gang
        if len(gang.members) == self._size:
            gang.runs_from_s = now_s + self._restart_s


def _first(nodes: Iterable[int], number: int) -> Iterable[int]:
    for node, _ in zip(nodes, range(number), strict=False):
        yield node
