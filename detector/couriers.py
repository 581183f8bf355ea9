"""Starting couriers, one at a time, with pauses that grow while they fail. Standard library alone."""

import os
import random
import signal
import sys
import time
from typing import Final

TEMPFAIL: Final = 75
"""EX_TEMPFAIL of sysexits.h: another courier, of a watch that was killed, is still at work."""
_LONGEST_PAUSE_S: Final = 60.0


class Couriers:
    """The courier that runs, if one does."""

    def __init__(self, folder: str) -> None:
        self._command = [sys.executable, "-m", "detector.courier", folder]
        self._pid = 0
        self._pause_s = 1.0
        self._not_before = 0.0
        self.problem = ""
        """Why none could be started."""
        self.failures = 0

    @property
    def running(self) -> bool:
        """Whether one is at work."""
        return bool(self._pid)

    def ended(self) -> bool:
        """Whether the running one has ended just now."""
        if not self._pid:
            return False
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return False
        self._pid = 0
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            self._pause_s, self._not_before = 1.0, 0.0
        elif code == TEMPFAIL:
            self._not_before = time.monotonic() + 1.0
        else:
            self.failures += 1
            self._wait()
        return True

    def start(self, overlay: str) -> bool:
        """Start one, unless one runs or it is too early after a failure. ``overlay`` is for ``detector.courier``."""
        if self._pid or time.monotonic() < self._not_before:
            return False
        environment = {
            **os.environ,
            "NODEMEND_DETECTOR_TROUBLE": overlay,
            # Looking for plugins that nobody has reads the metadata of every package: a tenth of a courier's start.
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        }
        try:
            self._pid = os.posix_spawn(sys.executable, self._command, environment)
        except OSError as error:
            self.problem = f"no courier can be started ({error.strerror})"
            self._wait()
            return False
        self.problem = ""
        return True

    def stop(self, patience_s: float) -> None:
        """End it; what it had not delivered stays in the spool."""
        if not self._pid:
            return
        os.kill(self._pid, signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if self.ended():
                return
            time.sleep(0.05)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._pid = 0

    def _wait(self) -> None:
        """It retries by itself; that it ended all the same must not become a hot loop."""
        self._not_before = time.monotonic() + self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
