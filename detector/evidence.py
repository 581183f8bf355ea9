"""What else the machine says about its devices when a finding leaves it: counters, versions, uptime.

Facts for the record and for whoever corroborates (K12), read when the courier delivers, never by watch. Missing
files are missing facts: no report waits for them.
"""

import re
from pathlib import Path
from typing import Final

from detector.counters import devices, read_all

_MODULES: Final = Path("/sys/module")
_DRIVERS: Final = ("neuron", "nvidia", "amdgpu", "efa")
_UPTIME: Final = Path("/proc/uptime")
_VALUE_MAX: Final = 64
_OURS: Final = re.compile(r"(?:machine|driver|neuron\d*)\.")
"""How the names of such facts begin."""


def gather(component: str, device: str | None) -> dict[str, str]:
    """Facts about the machine, as fields of a report.

    Args:
        component: of the rule, e.g. ``neuron``.
        device: its number as the line gives it, where it does: then only its counters are told.
    """
    facts = {}
    if uptime := _text(_UPTIME).partition(" ")[0]:
        facts["machine.uptime_s"] = uptime
    for driver in _DRIVERS:
        if version := _text(_MODULES / driver / "version"):
            facts[f"driver.{driver}"] = version
    if component == "neuron":
        facts |= neuron_counters(device)
    return facts


def is_evidence(name: str) -> bool:
    """Whether a field's name is one of evidence: a line that carries such a key does not speak for the machine."""
    return bool(_OURS.match(name))


def neuron_counters(device: str | None = None) -> dict[str, str]:
    """Uncorrected errors that the Neuron driver has counted: of one device, else of all that have any."""
    return {
        name: str(value)
        for name, value in read_all().items()
        if (value if device is None else name.startswith(f"neuron{device}."))
    }


def device_count() -> int | None:
    """How many Neuron devices there are; None where the driver is not loaded."""
    return len(devices()) or None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()[:_VALUE_MAX]
    except OSError:
        return ""
