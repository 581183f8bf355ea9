"""What the last watch on this disk left behind, and whether it is ours to take up. Standard library alone."""

import os
import sys
import time
from typing import Any, Final

from detector.spool import DELIVERED, SPOOL, STATE, lock, read_json

STARTED_OVER: Final = "DetectorStartedOver"
_DMI: Final = "/sys/devices/virtual/dmi/id/board_asset_tag"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_OF_A_MACHINE: Final = (STATE, SPOOL, DELIVERED, "instance.json")


def boot_id() -> str:
    """Identity of this boot."""
    return _first_line(_BOOT_ID)


def machine() -> str:
    """Identity of this machine, as far as it is known without asking anyone; empty when it is not."""
    return os.environ.get("NODEMEND_INSTANCE_ID") or _first_line(_DMI)


def take_up(folder: str, here: str) -> "tuple[dict[str, Any], str]":
    """The state of the last watch, and why there is none where there should be one.

    Args:
        folder: of the spool.
        here: ``machine()``. A disk, or an image of one, that comes from another machine brings none of its faults.

    Raises:
        OSError: the folder cannot be used.
    """
    path = os.path.join(folder, STATE)  # noqa: PTH118 - pathlib costs memory that watch does not have
    state = read_json(path)
    if not state and os.path.exists(path):  # noqa: PTH110
        return {}, f"{path} is damaged: all records of this boot are read again, and counts begin anew."
    other = state.get("machine")
    if not other or not here or other == here:
        return state, ""
    for name in _OF_A_MACHINE:
        left = os.path.join(folder, name)  # noqa: PTH118
        if os.path.exists(left):  # noqa: PTH110
            os.unlink(left)  # noqa: PTH108
    return {}, f"The spool was that of {other}: it was emptied."


def alone_in(folder: str) -> "int | None":
    """Wait until no other detector uses the folder. The lock; None on a disk that takes not even a lock."""
    try:
        while (held := lock(folder, "watch.lock")) is None:
            print(f"Another detector is at work in {folder}. Waiting for it to end.", file=sys.stderr, flush=True)
            time.sleep(2.0)
    except OSError as error:
        print(f"{folder} cannot be locked ({error.strerror}). Going on without.", file=sys.stderr, flush=True)
        return None
    return held


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as handle:  # noqa: PTH123
            return handle.readline().strip()
    except OSError:
        return ""
