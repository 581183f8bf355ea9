"""The self-test: a line written to the kernel log that must come back, or the reader is deaf. Standard library alone.

A reader that hears nothing cannot tell a quiet kernel from a broken ear. Optional, for it needs write access to
``/dev/kmsg``. The kernel lets a descriptor write ten lines in five seconds (``printk.devkmsg=ratelimit``).
"""

import os
from typing import Final

_PRIORITY: Final = "<15>"
"""user.debug: no console shows it."""


class Marker:
    """Lines of our own, by number."""

    def __init__(self, path: str, every_s: float) -> None:
        """``every_s`` is how often one is written, and how long one may take to come back; 0 for never."""
        self._path = path
        self._every_s = every_s
        self._number = 0
        self._written_at: float | None = None
        self._came_back = True
        self._problem = ""
        self.token = b""
        """What to look for in raw records; empty while none is under way."""

    def beat(self, now: float) -> None:
        """Write one when it is time. ``now`` is in seconds of a clock that nobody sets."""
        if not self._every_s or (self._written_at is not None and now - self._written_at < self._every_s):
            return
        if self._written_at is not None and not self._came_back:
            self._problem = f"a line written to {self._path} {now - self._written_at:.0f} s ago did not come back"
        self._number += 1
        text = f"nodemend: self-test {os.getpid()}.{self._number}"
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, f"{_PRIORITY}{text}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            self._problem = f"the self-test cannot write to {self._path} ({error.strerror})"
            self.token = b""
        else:
            self._came_back, self.token = False, text.encode()
        self._written_at = now

    def look(self, raw: bytes) -> None:
        """Look for it in what was read."""
        if self.token and self.token in raw:
            self._came_back, self._problem, self.token = True, "", b""

    @property
    def problem(self) -> str:
        """Why the reader is deaf; empty while it hears."""
        return self._problem
