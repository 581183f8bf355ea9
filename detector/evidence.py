"""What else the machine says about its devices when a finding leaves it: counters, versions, uptime.

Facts for the record and for whoever corroborates (K12), read when the courier delivers, never by watch. Missing
files are missing facts: no report waits for them.
"""

from pathlib import Path
from typing import Final

NEURON_DEVICES: Final = Path("/sys/devices/virtual/neuron_device")
_NEURON_HARDWARE: Final = "stats/hardware"
_NEURON_COUNTERS: Final = ("mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "sram_ecc_uncorrected")
"""Neuron documentation, "Neuron sysfs user guide"."""
_MODULES: Final = Path("/sys/module")
_DRIVERS: Final = ("neuron", "nvidia", "amdgpu", "efa")
_UPTIME: Final = Path("/proc/uptime")
_DEVICES_MAX: Final = 64
_VALUE_MAX: Final = 64


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


def neuron_counters(device: str | None = None) -> dict[str, str]:
    """Uncorrected errors that the Neuron driver has counted: of one device, else of all that have any."""
    facts = {}
    for number, folder in _neuron_devices():
        if device not in (None, str(number)):
            continue
        for counter in _NEURON_COUNTERS:
            value = _text(folder / _NEURON_HARDWARE / counter) or _text(folder / _NEURON_HARDWARE / counter / "total")
            if value and (device is not None or value != "0"):
                facts[f"neuron{number}.{counter}"] = value
    return facts


def device_count() -> int | None:
    """How many Neuron devices there are; None where the driver is not loaded."""
    return len(_neuron_devices()) if NEURON_DEVICES.is_dir() else None


def _neuron_devices() -> list[tuple[int, Path]]:
    try:
        found = [folder for folder in NEURON_DEVICES.iterdir() if folder.name.removeprefix("neuron").isdigit()]
    except OSError:
        return []
    return sorted((int(folder.name.removeprefix("neuron")), folder) for folder in found)[:_DEVICES_MAX]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()[:_VALUE_MAX]
    except OSError:
        return ""
