"""The courier: delivers the spool in order, to Temporal and to the node's own Node, and ends.

The two sides are two lines of work that do not wait for each other; an entry counts as delivered when both have it
(``detector.spool``). What cannot be reached is tried again with growing pauses and jitter, for as long as it takes:
findings wait on the disk, and memory stays flat because entries are read again each time. While one side is down the
other goes on with what is new.
"""

import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

from contract.words import counted
from detector.couriers import TEMPFAIL
from detector.spool import DELIVERED, Entry, lock, read_delivered, read_entries, write_json
from detector.trouble import Hopeless, Trouble

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LOOK_S: Final = 0.5
"""How often a side that is done looks for new entries while the other is not."""
_HEAD_START_S: Final = 1.5
"""For Temporal: loading the Kubernetes client at the same time would delay the report."""
BY_NODE: Final = "node"
"""``NODEMEND_DELIVERY``: the Node carries the findings, and ``watch-cluster`` reports them."""


class Ledger:
    """What each side has delivered, by entry id; on the disk before it counts."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, DELIVERED)  # noqa: PTH118 - one style with the spool
        self._lock = threading.Lock()
        self._done = read_delivered(folder)

    def done(self, side: str) -> int:
        """The last entry that a side has delivered."""
        return self._done[side]

    def note(self, side: str, entry_id: int) -> None:
        """A side has delivered an entry.

        Raises:
            OSError: it could not be kept; the entry will be delivered again, which is harmless.
        """
        with self._lock:
            self._done[side] = entry_id
            write_json(self._path, dict(self._done))


def deliver_side(
    side: str, folder: str, ledger: Ledger, deliver: Callable[[Entry], None], stop: threading.Event
) -> None:
    """Deliver what a side has not had, in order, until there is nothing left or ``stop``."""
    pause, told = _FIRST_PAUSE_S, ""
    while not stop.is_set():
        entries, _ = read_entries(folder)
        waiting = [entry for entry in entries if entry["id"] > ledger.done(side)]
        if not waiting:
            return
        try:
            for entry in waiting:
                if stop.is_set():
                    return
                try:
                    deliver(entry)
                except Hopeless as hopeless:
                    # One entry that nobody can take must not stop those after it.
                    say(f"Entry {entry['id']} is given up on the {side} side: {hopeless}")
                ledger.note(side, entry["id"])
                pause = _FIRST_PAUSE_S
        except Trouble as trouble:
            if str(trouble) != told:
                told = str(trouble)
                say(f"{told} {counted(len(waiting), 'entry waits', 'entries wait')} in the spool.")
            # Full jitter: a fleet whose Temporal comes back must not arrive all at once.
            stop.wait(random.uniform(0.0, pause))  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        except OSError as error:
            say(f"What is delivered cannot be noted ({error.strerror}): make room in {folder}.")
            stop.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)


class Sides:
    """The two lines of work, and whether both are done."""

    def __init__(self, folder: str, stop: threading.Event) -> None:
        self._folder = folder
        self._stop = stop
        self._ledger = Ledger(folder)
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self.failed = False
        """Whether a side ended by a mistake of ours."""
        self.temporal_settled = threading.Event()
        """Temporal has had its first round, whatever came of it."""

    def run(self, side: str, make: Callable[[], "tuple[Callable[[Entry], None], Callable[[], None]]"]) -> None:
        """Serve a side until both are done. ``make`` gives what delivers an entry, and what is done between rounds."""
        try:
            deliver, between = make()
            while not self._stop.is_set():
                deliver_side(side, self._folder, self._ledger, deliver, self._stop)
                between()
                with self._lock:
                    self._busy.discard(side)
                    over = not self._busy
                if over:
                    return
                self._stop.wait(_LOOK_S)
        except Exception:
            # Anything unforeseen ends the courier with a code, and watch starts another after a pause.
            traceback.print_exc()
            self.failed = True
            self._stop.set()

    def start(self, *sides: "tuple[str, Callable[[], tuple[Callable[[Entry], None], Callable[[], None]]]]") -> None:
        """Run the sides, and return when all have ended."""
        self._busy = {name for name, _ in sides}
        threads = [threading.Thread(target=self.run, args=side, daemon=True) for side in sides]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)


def main(arguments: list[str]) -> int:
    """``python -m detector.courier FOLDER``; spawned by watch."""
    (folder,) = arguments
    if lock(folder, "courier.lock") is None:
        return TEMPFAIL
    cluster, node = os.environ["NODEMEND_CLUSTER"], os.environ["NODE_NAME"]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    sides = Sides(folder, stop)
    by_node = os.environ.get("NODEMEND_DELIVERY") == BY_NODE
    waiting = not by_node and any(entry["kind"] == "finding" for entry in read_entries(folder)[0])
    if not waiting:
        sides.temporal_settled.set()

    def make_temporal() -> "tuple[Callable[[Entry], None], Callable[[], None]]":
        if by_node:
            return lambda _entry: None, sides.temporal_settled.set
        return _temporal(folder, cluster, node, sides.temporal_settled)

    def make_node() -> "tuple[Callable[[Entry], None], Callable[[], None]]":
        sides.temporal_settled.wait(_HEAD_START_S)
        return _node(folder, cluster, node, whole_reports=by_node)

    sides.start(("temporal", make_temporal), ("node", make_node))
    return 70 if sides.failed else 0


def _temporal(
    folder: str, cluster: str, node: str, settled: threading.Event
) -> "tuple[Callable[[Entry], None], Callable[[], None]]":
    """What delivers to Temporal. Nothing is loaded before there is a finding: most couriers only bring a heartbeat."""
    made: list[Callable[[Entry], None]] = []

    def deliver(entry: Entry) -> None:
        if entry["kind"] != "finding":
            return
        try:
            if not made:
                from detector.reporter import Reporter

                made.append(Reporter(folder, cluster, node).deliver)
            made[0](entry)
        finally:
            settled.set()

    return deliver, settled.set


def _node(
    folder: str, cluster: str, node: str, *, whole_reports: bool
) -> "tuple[Callable[[Entry], None], Callable[[], None]]":
    from detector.node_side import NodeSide

    side = NodeSide(folder, cluster, node, whole_reports=whole_reports)
    beat_at = -_HEARTBEAT_S

    def heartbeat() -> None:
        nonlocal beat_at
        if time.monotonic() - beat_at < _HEARTBEAT_S:
            return
        beat_at = time.monotonic()
        try:
            side.heartbeat()
        except Trouble as trouble:
            say(str(trouble))

    return side.deliver, heartbeat


_HEARTBEAT_S: Final = 200.0


def say(line: str) -> None:
    """Tell the pod's log."""
    print(f"courier: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # The SDK's runtime may crash the interpreter while it is taken down (temporalio #300).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
