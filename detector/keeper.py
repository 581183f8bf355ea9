"""The thread that waits for the disk, so that the reader never does: a hung disk is one of the faults to report.

It alone writes the spool and the state. The order is the promise: a finding is on the disk before the cursor that
lies beyond it, so whatever moment the power goes, the finding is there or its record is read again. Standard library
alone.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from detector.spool import STATE, Spool, least, write_text

_WAITING_MOST: Final = 1000
"""Entries that may wait for a disk that takes none."""
_RETRY_S: Final = 2.0

Entry = tuple[str, dict[str, Any]]


class Keeper:
    """Findings and state on their way to the disk."""

    def __init__(self, spool: Spool, wake: "Callable[[], None]") -> None:
        """``wake`` is called, from the keeper's thread, when something has reached the disk."""
        self._spool = spool
        self._wake = wake
        self._state_path = os.path.join(spool.folder, STATE)  # noqa: PTH118 - pathlib costs memory
        self._work = threading.Condition()
        self._entries: list[Entry] = []
        self._state: str | None = None
        self._collect = False
        self._stopping = False
        self._busy_since: float | None = None
        self.problem = ""
        """Why the disk took nothing, when it did not."""
        self.spooled = len(spool.entries)
        """Entries on the disk that are not delivered to both sides."""
        self.dropped: dict[str, int] = {}
        """By verdict: what waited for the disk and had to make room."""
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def submit(self, kind: str, content: "dict[str, Any]") -> None:
        """Have an entry spooled. Returns at once."""
        with self._work:
            self._entries.append((kind, content))
            if len(self._entries) > _WAITING_MOST:
                gone = self._entries.pop(least([content for _, content in self._entries]))[1]
                verdict = str(gone.get("verdict", "loss"))
                self.dropped[verdict] = self.dropped.get(verdict, 0) + 1
            self._work.notify()

    def keep(self, state: str) -> None:
        """Have the state written, after all that was submitted before it. The newest wins. Returns at once."""
        with self._work:
            self._state = state
            self._work.notify()

    def collect(self) -> None:
        """Have the spool forget what is delivered. Returns at once."""
        with self._work:
            self._collect = True
            self._work.notify()

    def peek(self) -> "list[Entry]":
        """The entries that are not on the disk yet."""
        with self._work:
            return list(self._entries)

    @property
    def waiting(self) -> int:
        """Entries that are not on the disk yet."""
        return len(self._entries)

    @property
    def idle(self) -> bool:
        """Whether everything is on the disk."""
        with self._work:
            return not self._entries and self._state is None and not self._collect and self._busy_since is None

    def stuck_s(self) -> float:
        """How long the disk has been busy with what it does now."""
        since = self._busy_since
        return time.monotonic() - since if since is not None else 0.0

    def stop(self, patience_s: float) -> bool:
        """Write what there is and end. Returns whether all of it reached the disk in time."""
        with self._work:
            self._stopping = True
            self._work.notify()
        self._thread.join(patience_s)
        return self.idle

    def write_pending(self) -> bool:
        """Write all there is now. Returns whether there was anything. What fails stays pending."""
        with self._work:
            entries, state = list(self._entries), self._state
            collect, self._collect = self._collect, False
            if not entries and state is None and not collect:
                return False
            self._busy_since = time.monotonic()
        try:
            self._write(entries, state, collect=collect)
            self.problem = ""
        except OSError as error:
            reason = error.strerror or "unknown"
            if not self.problem:
                _say(f"{self._spool.folder} cannot be written ({reason}): make room. Findings wait in memory.")
            self.problem = reason
            with self._work:
                self._collect |= collect
        finally:
            self._busy_since = None
            self.spooled = len(self._spool.entries)
        return True

    def _run(self) -> None:
        while True:
            with self._work:
                while not (self._entries or self._state is not None or self._collect or self._stopping):
                    self._work.wait()
            if not self.write_pending() and self._stopping:
                return
            self._wake()
            if self.problem:
                if self._stopping:
                    return
                time.sleep(_RETRY_S)

    def _write(self, entries: "list[Entry]", state: "str | None", *, collect: bool) -> None:
        if collect:
            self._spool.collect()
        if entries:
            self._spool.append_all(entries)
            with self._work:
                done = {id(content) for _, content in entries}
                self._entries = [entry for entry in self._entries if id(entry[1]) not in done]
        if state is not None:
            write_text(self._state_path, state)
            with self._work:
                if self._state is state:
                    self._state = None


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
