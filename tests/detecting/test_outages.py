"""An hour without Temporal or the API server, played on a clock of its own: patience, order, memory, no stampede."""

import itertools
import json
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from detector.courier import Ledger, deliver_side
from detector.spool import SPOOL, Entry, read_delivered
from detector.trouble import Trouble

pytestmark = pytest.mark.thorough

HOUR_S = 3600.0


class Clock(threading.Event):
    """A courier's stop event whose waiting costs no time. It is set when the play is over."""

    def __init__(self, until_s: float = 10 * HOUR_S) -> None:
        super().__init__()
        self.now_s = 0.0
        self._until_s = until_s

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return self.is_set()

    def is_set(self) -> bool:
        return self.now_s > self._until_s


class Server:
    """One side, away until a moment; it notes who asked when, and what it got."""

    def __init__(self, clock: Clock, back_at_s: float) -> None:
        self._clock = clock
        self._back_at_s = back_at_s
        self.asked_at_s: list[float] = []
        self.got: list[int] = []
        self.memory: list[int] = []

    def deliver(self, entry: Entry) -> None:
        self.asked_at_s.append(self._clock.now_s)
        if self._clock.now_s < self._back_at_s:
            self.memory.append(tracemalloc.get_traced_memory()[0])
            raise Trouble("It is away.")
        self.got.append(entry["id"])


def spool(folder: Path, entries: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": n, "kind": "finding", "message": "x" * 500}) for n in range(1, entries + 1)]
    (folder / SPOOL).write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("side", ["temporal", "node"])
def test_after_an_hour_away_everything_arrives_in_order_and_the_hour_cost_little(
    tmp_path: Path, side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(spool(tmp_path, 300))
    clock = Clock()
    server = Server(clock, HOUR_S)
    tracemalloc.start()
    try:
        deliver_side(side, folder, Ledger(folder), server.deliver, clock)
    finally:
        tracemalloc.stop()
    assert server.got == list(range(1, 301))
    assert read_delivered(folder)[side] == 300
    # At most 60 s apart, so that it is back within a minute; jitter makes it half of that on average.
    tries = [moment for moment in server.asked_at_s if moment < HOUR_S]
    assert 60 <= len(tries) <= 300
    assert max(later - earlier for earlier, later in itertools.pairwise(tries)) <= 60.0
    # Memory is flat: the last tries hold no more than the first.
    assert max(server.memory[-10:]) < 1.1 * max(server.memory[5:15])
    # The log says it once, not at every try.
    assert capsys.readouterr().err.count("It is away.") == 1


def test_fleet_whose_temporal_returns_does_not_arrive_all_at_once(tmp_path: Path) -> None:
    """A thousand nodes that have waited an hour: in no second after the return more than a twelfth of them come."""
    fleet = 1000
    arrivals: list[float] = []
    for number in range(fleet):
        folder = str(spool(tmp_path / str(number % 8), 1))
        clock = Clock()
        server = Server(clock, HOUR_S)
        deliver_side("temporal", folder, _Forgetful(folder), server.deliver, clock)
        arrivals.append(next(moment for moment in server.asked_at_s if moment >= HOUR_S))
    per_second = Counter(int(moment - HOUR_S) for moment in arrivals)
    assert max(per_second.values()) < fleet / 12
    assert max(arrivals) <= HOUR_S + 60.0


class _Forgetful(Ledger):
    """Keeps nothing on the disk: a thousand couriers share a few folders."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._own: dict[str, int] = {"temporal": 0, "node": 0}

    def done(self, side: str) -> int:
        return self._own[side]

    def note(self, side: str, entry_id: int) -> None:
        self._own[side] = entry_id


def test_side_that_is_stopped_in_its_wait_ends_at_once(tmp_path: Path) -> None:
    folder = str(spool(tmp_path, 1))
    clock = Clock(until_s=30.0)
    server = Server(clock, HOUR_S)
    deliver_side("node", folder, Ledger(folder), server.deliver, clock)
    assert server.got == []
    assert read_delivered(folder) == {"temporal": 0, "node": 0}
