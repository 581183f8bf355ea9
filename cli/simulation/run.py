"""One run: what befalls the fleet, a way to answer it, and what came of that."""

import heapq
import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cli.simulation.events import DAY_S, Befalls, mistake_name
from cli.simulation.gangs import Gangs
from cli.simulation.model import FleetModel
from cli.simulation.ways import View, Way

_TICK_S: Final = 600.0
"""How often time alone is looked at while somebody waits."""
_REPORTED_AGAIN_S: Final = 300.0
"""How soon a replacement that a mistake hits is reported."""


@dataclass(frozen=True)
class Result:
    """What came of it."""

    effective_training_time: float
    """Of the time of all gangs, the share that was of use: not lost, not waiting, not restarting."""
    interruptions: int
    evictions: int
    false_evictions: int
    """Of nodes that were well."""
    worst_loss: int
    """The most nodes that did no work at one time."""
    at_work: tuple[tuple[float, int], ...]
    """Seconds, and how many nodes were at work from then on."""


@dataclass
class _Node:
    works: bool = True
    taken: bool = False
    well: bool = True
    reported: str = ""
    """The fault, while it is reported."""


def simulate(model: FleetModel, befalls: list[Befalls], way: Way) -> Result:
    """Play the run. The same arguments give the same result."""
    run = _Run(model, way)
    run.play(befalls)
    return run.result()


class _Run:
    def __init__(self, model: FleetModel, way: Way) -> None:
        self._model = model
        self._way = way
        self._gangs = Gangs(model)
        self._nodes = [_Node() for _ in range(model.nodes)]
        self._lost: set[int] = set()
        self._evictions = self._false = 0
        self._at_work = [(0.0, model.nodes)]
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, Befalls | int | str]] = []
        """Reports, nodes whose replacement comes, mistakes that are undone, and ticks."""
        self._tick: float | None = None

    def play(self, befalls: list[Befalls]) -> None:
        end = self._model.days * DAY_S
        for item in befalls:
            self._plan(item.at_s, item)
        for number, mistake in enumerate(self._model.mistakes):
            self._plan(mistake.day * DAY_S + mistake.fixed_after / timedelta(seconds=1), mistake_name(number))
        while self._agenda and self._agenda[0][0] < end:
            now, _, what = heapq.heappop(self._agenda)
            if isinstance(what, Befalls):
                self._befall(what, now)
            elif isinstance(what, int):
                self._replaced(what, now)
            elif what:
                self._undone(what, now)
            else:
                self._tick = None
            self._decide(now)
        self._gangs.end(end)

    def result(self) -> Result:
        useful = sum(gang.useful_s for gang in self._gangs.all)
        return Result(
            effective_training_time=useful / (len(self._gangs.all) * self._model.days * DAY_S),
            interruptions=sum(gang.interruptions for gang in self._gangs.all),
            evictions=self._evictions,
            false_evictions=self._false,
            worst_loss=self._model.nodes - min(number for _, number in self._at_work),
            at_work=tuple(self._at_work),
        )

    def _plan(self, at_s: float, what: Befalls | int | str) -> None:
        heapq.heappush(self._agenda, (at_s, next(self._order), what))

    def _befall(self, what: Befalls, now: float) -> None:
        node = self._nodes[what.node]
        if node.taken or not node.works or (node.reported and not what.kills):
            return
        if what.real:
            node.well = False
        if what.kills:
            node.works = False
            self._gangs.lose(what.node, now, saved=False)
            self._lose(what.node, now)
        node.reported = what.fault
        self._way.report(what, now)

    def _decide(self, now: float) -> None:
        closed, taken = self._way.decide(View(self._model, frozenset(self._lost)), now)
        for index in closed:
            self._gangs.close(index)
        for index in taken:
            self._take(index, now)
        if self._way.waits and self._tick is None:
            self._tick = now + _TICK_S
            self._plan(self._tick, "")

    def _take(self, index: int, now: float) -> None:
        node = self._nodes[index]
        if node.taken:
            return
        self._evictions += 1
        self._false += node.well
        self._gangs.lose(index, now, saved=self._way.saves and node.works)
        node.taken, node.works = True, False
        self._lose(index, now)
        self._plan(now + self._model.launch / timedelta(seconds=1), index)

    def _replaced(self, index: int, now: float) -> None:
        fault = self._nodes[index].reported
        self._nodes[index] = _Node()
        self._lost.discard(index)
        self._at_work.append((now, self._model.nodes - len(self._lost)))
        self._way.replaced(index, now)
        self._gangs.open(index, now)
        for number, mistake in enumerate(self._model.mistakes):
            until = mistake.day * DAY_S + mistake.fixed_after / timedelta(seconds=1)
            again = now + _REPORTED_AGAIN_S
            if fault == mistake_name(number) and again < until:
                self._plan(again, Befalls(again, index, fault, real=False, kills=False))

    def _undone(self, mistake: str, now: float) -> None:
        """People have found it: what still waits is withdrawn, and open to work again."""
        nodes = [
            index for index, node in enumerate(self._nodes) if node.reported == mistake and node.well and not node.taken
        ]
        self._way.withdraw(nodes)
        for index in nodes:
            self._nodes[index].reported = ""
            self._gangs.open(index, now)

    def _lose(self, index: int, now: float) -> None:
        self._lost.add(index)
        self._at_work.append((now, self._model.nodes - len(self._lost)))
