"""What the Neuron driver counts, and a finding of its own when an uncorrected error is added. Standard library alone.

Lines can be lost, and some be written by whoever may open the device; the driver's counters are neither. They are
read by a thread, for a driver in trouble may not answer and the reader of the log must never wait, every minute and at
once after a neuron line or a loss of records. A first look in a boot has nothing to compare with: it tells nothing.
"""

import os
import re
import threading
import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from detector.findings import NEW_AFTER_S, iso

NEURON_DEVICES: Final = "/sys/devices/virtual/neuron_device"
_HARDWARE: Final = "stats/hardware"
_VERDICTS: Final = {
    "mem_ecc_uncorrected": ("ambiguous", "replacement"),
    "sram_ecc_uncorrected": ("ambiguous", "replacement"),
    "mem_ecc_repairable_uncorrected": ("repairable", "boot"),
}
"""Neuron documentation, "Neuron sysfs user guide", with what is made of each: that it moved is certain, and still one
witness; with a line of the device, or EC2's word, there are two. A repairable error ends with a reboot ([TRB])."""
SOURCE: Final = "device-counters"
"""``contract.names.DEVICE_COUNTERS``."""
RULE: Final = "neuron-counters-moved"
_DEVICE: Final = re.compile(r"neuron(\d{1,3})")
_DEVICES_MAX: Final = 64
_VALUE_MAX: Final = 64
_EVERY_S: Final = 60.0
_SHIFT: Final = 20
_DAEMON: Final = 3
"""Facility of system daemons (RFC 5424): it is no kernel record."""

Values = dict[str, int]
"""By ``neuron<number>.<counter>``."""


class _Reading(NamedTuple):
    values: Values
    lost: bool
    """Whether kernel records were lost since the reading before."""


class Counters:
    """Looks at the counters, and says what moved."""

    def __init__(self, root: str = NEURON_DEVICES) -> None:
        self._root = root
        self._known: Values = {}
        self._told_at: dict[str, float] = {}
        self._work = threading.Condition()
        self._asked = self._lost = False
        self._reading: _Reading | None = None

    def take_up(self, known: Any) -> None:
        """Compare with what ``known()`` gave earlier in this boot."""
        if isinstance(known, dict):
            self._known = {str(name): value for name, value in known.items() if isinstance(value, int)}

    def start(self, wake: Callable[[], None]) -> None:
        """Begin to look. ``wake`` is called, from the thread, when something was read."""
        threading.Thread(target=self._run, args=(wake,), name="counters", daemon=True).start()

    def look(self, *, lost: bool = False) -> None:
        """Look again now: a line was read, or ``lost``."""
        with self._work:
            self._asked, self._lost = True, self._lost or lost
            self._work.notify()

    def known(self) -> Values:
        """What was told or seen, to keep over a restart."""
        return self._known

    def moved(self, now: float, wall: float) -> "list[dict[str, Any]]":
        """Reports of what the last look found. ``now`` is a clock that nobody sets; ``wall`` is for people."""
        with self._work:
            reading, self._reading = self._reading, None
        if reading is None:
            return []
        reports = []
        for name, value in reading.values.items():
            before = self._known.get(name)
            if before is not None and value > before:
                if now - self._told_at.get(name, -NEW_AFTER_S) < NEW_AFTER_S:
                    # Told lately: what is added meanwhile is told with the next.
                    continue
                self._told_at[name] = now
                reports.append(_report(name, before, value, now, wall, lost=reading.lost))
            self._known[name] = value
        return reports

    def read(self) -> bool:
        """Read them all, however long the driver takes. Returns whether there are any."""
        with self._work:
            lost, self._asked, self._lost = self._lost, False, False
        values = read_all(self._root)
        with self._work:
            missed = self._reading is not None and self._reading.lost
            self._reading = _Reading(values, lost or missed)
        return bool(values)

    def _run(self, wake: Callable[[], None]) -> None:
        while True:
            if self.read():
                wake()
            with self._work:
                self._work.wait_for(lambda: self._asked, _EVERY_S)


def read_all(root: str = NEURON_DEVICES) -> Values:
    """Every counter that can be read; missing files are missing facts."""
    return {
        f"neuron{number}.{counter}": int(text)
        for number, folder in devices(root)
        for counter in _VERDICTS
        if (text := read_counter(folder, counter)).isdecimal()
    }


def devices(root: str = NEURON_DEVICES) -> "list[tuple[int, str]]":
    """Numbers and folders of the devices that the driver knows."""
    try:
        found = [(int(known[1]), entry) for entry in os.listdir(root) if (known := _DEVICE.fullmatch(entry))]  # noqa: PTH208
    except OSError:
        return []
    return [(number, f"{root}/{entry}") for number, entry in sorted(found)[:_DEVICES_MAX]]


def read_counter(folder: str, counter: str) -> str:
    """A counter's value as text: a file, or with older drivers a folder with ``total``; empty where there is none."""
    path = f"{folder}/{_HARDWARE}/{counter}"
    return _text(path) or _text(f"{path}/total")


def _report(name: str, before: int, value: int, now: float, wall: float, *, lost: bool) -> "dict[str, Any]":
    device, _, counter = name.partition(".")
    number = device.removeprefix("neuron")
    verdict, evidence_end = _VERDICTS[counter]
    meanwhile = ", while kernel records were lost" if lost else ""
    seen = iso(wall)
    # No record has this number: beyond any of the log's, and below 2**53, so that every JSON reader keeps it.
    seq = (int(wall) << _SHIFT) | (zlib.crc32(name.encode()) & ((1 << _SHIFT) - 1))
    return {
        "seq": seq,
        "last_seq": seq,
        "source": SOURCE,
        "rule": RULE,
        "component": "neuron",
        "verdict": verdict,
        "data": "suspect",
        "evidence_end": evidence_end,
        "workload_alive": True,
        "device_resource": "aws.amazon.com/neuron",
        "condition_type": "NeuronHealth",
        "reason": "NeuronCountersMoved",
        "signature": f"{RULE}/nd-id={number}/{counter}",
        "fields": {"nd-id": number, "counter": counter, "before": str(before), "after": str(value)},
        "message": f"The driver's {counter} of {device} went from {before} to {value}{meanwhile}.",
        "context": [],
        "facility": _DAEMON,
        "level": 3,
        "kernel_time_us": int(now * 1e6),
        "drill": False,
        "count": 1,
        "first_seen": seen,
        "last_seen": seen,
    }


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as handle:  # noqa: PTH123 - pathlib costs memory
            return handle.read(_VALUE_MAX).strip()
    except OSError:
        return ""
