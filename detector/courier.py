"""The courier: delivers the spool in order, to Temporal and to the node's own Node, and ends.

The two sides are two lines of work that do not wait for each other; an entry counts as delivered when both have it
(``detector.spool``). What cannot be reached is tried again with growing pauses and jitter, for as long as it takes:
findings wait on the disk, and memory stays flat because entries are read again each time.
"""

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from contract.fault import FaultReport
from detector.instance import known_instance_id, learn_instance_id
from detector.spool import DELIVERED, Entry, read_entries, read_json, write_json
from detector.temporal_side import TemporalSide
from detector.trouble import Trouble

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0


class Ledger:
    """What each side has delivered, by entry id; on the disk before it counts."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, DELIVERED)  # noqa: PTH118 - one style with the spool
        self._lock = threading.Lock()
        self._done = {side: int(read_json(self._path).get(side, 0)) for side in ("temporal", "node")}

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
                deliver(entry)
                ledger.note(side, entry["id"])
                pause = _FIRST_PAUSE_S
        except Trouble as trouble:
            if str(trouble) != told:
                told = str(trouble)
                _say(f"{told} {len(waiting)} entries wait in the spool.")
            # Full jitter: a fleet whose Temporal comes back must not arrive all at once.
            stop.wait(random.uniform(0.0, pause))  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        except OSError as error:
            _say(f"What is delivered cannot be noted ({error.strerror}): make room in {folder}.")
            stop.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)


def main(arguments: list[str]) -> int:
    """``python -m detector.courier FOLDER``; spawned by watch."""
    (folder,) = arguments
    cluster, node = os.environ["NODEMEND_CLUSTER"], os.environ["NODE_NAME"]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    ledger = Ledger(folder)
    sides = [
        threading.Thread(target=_serve_temporal, args=(folder, ledger, cluster, node, stop), daemon=True),
        threading.Thread(target=_serve_node, args=(folder, ledger, node, stop), daemon=True),
    ]
    for side in sides:
        side.start()
    for side in sides:
        while side.is_alive():
            side.join(0.1)
    return 0


def _serve_temporal(folder: str, ledger: Ledger, cluster: str, node: str, stop: threading.Event) -> None:
    temporal, loop = TemporalSide(), asyncio.new_event_loop()
    instance_id: str | None = None

    def deliver(entry: Entry) -> None:
        nonlocal instance_id
        if not is_report(entry):
            return
        instance_id = instance_id or known_instance_id(folder) or _ask_the_node(folder, node)
        loop.run_until_complete(temporal.deliver(to_report(entry, cluster, node, instance_id)))

    deliver_side("temporal", folder, ledger, deliver, stop)


def _ask_the_node(folder: str, node: str) -> str | None:
    from detector.node_side import NodeSide  # a second to import, which a report need not wait for

    try:
        found = NodeSide(folder, node).instance_id()
    except Trouble as trouble:
        _say(f"{trouble} The report goes out without an instance id.")
        return None
    if found:
        learn_instance_id(folder, found)
    return found


def _serve_node(folder: str, ledger: Ledger, node: str, stop: threading.Event) -> None:
    from detector.node_side import NodeSide

    node_side = NodeSide(folder, node)
    deliver_side("node", folder, ledger, node_side.deliver, stop)
    try:
        node_side.heartbeat()
        if known_instance_id(folder) is None and (found := node_side.instance_id()):
            learn_instance_id(folder, found)
    except Trouble as trouble:
        _say(str(trouble))


def is_report(entry: Entry) -> bool:
    """Whether an entry is for Temporal; the others are the node's alone."""
    return bool(entry["kind"] == "finding")


def to_report(entry: Entry, cluster: str, node: str, instance_id: str | None) -> FaultReport:
    """The report of a spooled finding."""
    known = {name: value for name, value in entry.items() if name in FaultReport.model_fields}
    return FaultReport.model_validate(
        {
            **known,
            "cluster": cluster,
            "node": node,
            "instance_id": instance_id,
            "kernel_version": os.uname().release,
            "detector_version": _version(),
        }
    )


def _version() -> str:
    try:
        return version("nodemend")
    except PackageNotFoundError:
        return ""


def _say(line: str) -> None:
    print(f"courier: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # The SDK's runtime may crash the interpreter while it is taken down (temporalio #300).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
