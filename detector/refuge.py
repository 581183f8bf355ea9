"""Where findings go while the spool's disk takes none: a folder in memory, from which a courier delivers them.

A hung or full disk is one of the faults that must be reported, and a report must not need that disk. What is delivered
from here is delivered once more when the disk is back, under the same request id, which Temporal takes once. Standard
library alone; a folder in memory answers at once, so watch itself may write to it.
"""

import os
import stat
from typing import Any, Final

from detector.couriers import Couriers
from detector.spool import STATE, Spool, read_delivered, write_text

_MEMORY: Final = "/dev/shm"  # noqa: S108 - tmpfs of the container; the folder is checked to be ours
_NAME_MAX: Final = 200


class Refuge:
    """The folder in memory, made when it is needed and removed when it is not."""

    def __init__(self, folder: str) -> None:
        """``folder`` is that of the spool: each has a refuge of its own."""
        # Not by a digest: hashlib alone costs as much memory as the rest of watch.
        name = os.path.abspath(folder).strip("/").replace("/", "-")[-_NAME_MAX:]  # noqa: PTH100
        self.folder = os.path.join(_MEMORY, f"nodemend-{name}")  # noqa: PTH118
        self._couriers = Couriers(self.folder)
        self._spool: Spool | None = None

    def hold(self, waiting: "list[tuple[str, dict[str, Any]]]", state: str, trouble: str) -> None:
        """Keep what waits for the disk, and have it delivered. ``trouble`` is what the node's condition shall say."""
        try:
            if self._spool is None:
                self._spool = self._open()
            self._spool.append_all(waiting)
            write_text(os.path.join(self.folder, STATE), state)  # noqa: PTH118
        except OSError:
            # There is no such folder here: then findings wait, and the health says why.
            return
        if self._couriers.running:
            self._couriers.ended()
        elif min(read_delivered(self.folder).values()) < self._spool.last_id:
            self._couriers.start(trouble)

    def leave(self) -> None:
        """The disk is back: what came here is in the spool now."""
        if self._spool is None or (self._couriers.running and not self._couriers.ended()):
            return
        self._spool = None
        self._remove()

    def stop(self, patience_s: float) -> None:
        """End its courier with watch."""
        self._couriers.stop(patience_s)

    def _open(self) -> Spool:
        try:
            os.mkdir(self.folder, 0o700)  # noqa: PTH102
        except FileExistsError:
            # Of an earlier watch; one that another user has put there is left alone.
            found = os.lstat(self.folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise
        return Spool(self.folder)

    def _remove(self) -> None:
        try:
            for name in os.listdir(self.folder):  # noqa: PTH208
                os.unlink(os.path.join(self.folder, name))  # noqa: PTH108, PTH118
            os.rmdir(self.folder)  # noqa: PTH106
        except OSError:
            return
