"""Which EC2 instance this is: the machine is what fails, so its id is part of the incident's.

Learnt once per boot and kept beside the spool, so that an API server that is away neither delays a report nor makes
one machine look like two.
"""

import os
import re
from pathlib import Path
from typing import Final

from detector.spool import read_json, write_json

_PATTERN: Final = re.compile(r"^i-[0-9a-f]{8,17}$")
_DMI: Final = Path("/sys/devices/virtual/dmi/id/board_asset_tag")
"""Nitro instances carry their id there (EC2 user guide, Identify EC2 instances)."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_FILE: Final = "instance.json"


def is_instance_id(text: str) -> bool:
    """Whether a text is an EC2 instance id."""
    return bool(_PATTERN.match(text))


def known_instance_id(folder: str) -> str | None:
    """The id from the setting, from DMI, or as learnt earlier in this boot; None when none of them names one."""
    if told := os.environ.get("NODEMEND_INSTANCE_ID"):
        return told
    try:
        found = _DMI.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        found = ""
    if is_instance_id(found):
        return found
    learnt = read_json(str(Path(folder) / _FILE))
    return learnt.get("instance_id") if learnt.get("boot_id") == _boot_id() else None


def learn_instance_id(folder: str, instance_id: str) -> None:
    """Keep what the Node said, for this boot.

    Raises:
        OSError: it could not be kept.
    """
    write_json(str(Path(folder) / _FILE), {"boot_id": _boot_id(), "instance_id": instance_id})


def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()
