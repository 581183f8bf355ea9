"""Captured kernel logs, line by line, as the records that ``/dev/kmsg`` would have given.

What is read: raw ``/dev/kmsg``; ``dmesg``, plain, ``-T``, ``-x``, ``-r``, ``--time-format iso`` or without times;
``journalctl -k`` in its short forms, ``kern.log``; ``journalctl -o json``. The first line that says which kind it is
decides between the three families. Whatever a line holds, it is a record or it is counted: nothing raises.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import IO, Any, Final, NamedTuple

from cli.judging.opening import Lines
from detector.kmsg import parse

LINE_MAX: Final = 1 << 16
"""Bytes of a line that are looked at: a record has 8 KiB at most, and its JSON escapes may blow that up."""
_DIGITS: Final = re.compile(r"\d{1,18}")
_CLOCK_MAX_S: Final = 20 * 365 * 86400.0
"""No machine is up for longer: a clock beyond it is damage."""
_WALL_MAX_S: Final = 4e9
"""The year 2096: a later wall clock is damage as well."""
_USUAL_PRIORITY: Final = 6
"""kern.info, where the form does not say: without a facility every line counts as the kernel's."""
_FACILITIES: Final = (
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
)
_LEVELS: Final = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_MONO: Final = r"\[\s*(?P<mono>\d{1,10}\.\d{1,9})\](?:\[\s*[TC]\d{1,10}\])?"
"""Seconds since boot; with ``CONFIG_PRINTK_CALLER`` the thread or CPU follows."""
_ISO: Final = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})"
"""With a comma it is dmesg's, which names no host."""
_SYSLOG: Final = r"[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2}(?:\.\d{1,6})?"
_DMESG: Final = re.compile(
    rf"(?:<(?P<priority>\d{{1,3}})>)?(?:(?P<facility>{'|'.join(_FACILITIES)}|local[0-7])\s*:(?P<level>{'|'.join(_LEVELS)})\s*:\s*)?"
    rf"(?:{_MONO}|\[(?P<ctime>[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]\d \d{{2}}:\d{{2}}:\d{{2}} \d{{4}})\]"
    rf"|(?P<iso>\d{{4}}-\d{{2}}-\d{{2}}T\d{{2}}:\d{{2}}:\d{{2}},\d{{1,9}}[+-]\d{{2}}:\d{{2}}))? ?(?P<text>.*)",
    re.DOTALL,
)
_JOURNAL: Final = re.compile(
    rf"(?P<at>{_ISO}|{_SYSLOG}) \S{{1,255}} (?P<who>[^\s:\[]{{1,200}})(?:\[\d{{1,10}}\])?: (?:{_MONO} ?)?(?P<text>.*)",
    re.DOTALL,
)
_JOURNAL_MONO: Final = re.compile(
    rf"{_MONO} \S{{1,255}} (?:(?P<who>kernel)|[^\s:\[]{{1,200}}\[\d{{1,10}}\]): (?P<text>.*)", re.DOTALL
)
_JOURNAL_BOOT: Final = re.compile(
    r"-- (?:Boot (?P<boot>[0-9a-f]{32}) --|Reboot --|Logs begin|Journal begins|No entries)"
)


class Family(StrEnum):
    """Families of forms: a file is of one."""

    KMSG = "kmsg"
    JSON = "journal-json"
    TEXT = "text"


class Captured(NamedTuple):
    """One record of a capture."""

    raw: bytes
    """As ``/dev/kmsg`` gives it."""
    seq: int
    since_boot_s: float | None
    at: float | None
    """Seconds since the epoch, where the capture says so."""
    boot: str
    """Which boot, in the capture's own words; empty where it does not say."""
    line: int


@dataclass
class Counts:
    """What became of the lines."""

    lines: int = 0
    records: int = 0
    not_kernel: int = 0
    """Of a journal, by something else than the kernel: the detector never sees them."""
    unparsable: int = 0
    truncated: int = 0
    """Longer than any record; the rest of them was left out."""


@dataclass
class Capture:
    """Reads a capture as a stream: nothing of it is kept but one line."""

    stream: IO[bytes] | Lines
    until: datetime
    """Times without a year are of the last year that ends before this."""
    counts: Counts = field(default_factory=Counts)
    family: Family | None = None
    forms: set[str] = field(default_factory=set)
    """What the lines had: ``mono``, ``wall``, ``facility``, ``zoneless``."""
    _boot: str = ""
    _reboots: int = 0
    _seq: int = -1
    _held: bytes = b""
    _held_line: int = 0

    def records(self) -> Iterator[Captured]:
        """Record by record."""
        for line in self._lines():
            if not line.strip():
                continue
            found = self._read(line)
            if found is not None:
                self.counts.records += 1
                yield found
        if self._held and (last := self._kmsg()):
            self.counts.records += 1
            yield last

    def _lines(self) -> Iterator[bytes]:
        while line := self.stream.readline(LINE_MAX):
            self.counts.lines += 1
            if not line.endswith(b"\n") and len(line) == LINE_MAX:
                self.counts.truncated += 1
                while (rest := self.stream.readline(LINE_MAX)) and not rest.endswith(b"\n"):
                    pass
            yield line.rstrip(b"\r\n")

    def _read(self, line: bytes) -> Captured | None:
        family = self.family or _family(line)
        if family is Family.KMSG:
            found = self._of_kmsg(line)
        elif family is Family.JSON:
            found = self._of_json(line)
        else:
            # Only a line with a time of its own decides: a heading may stand before a capture.
            found = self._of_text(line.decode("utf-8", "replace"))
            if self.forms & {"mono", "wall"}:
                self.family = Family.TEXT
            return found
        self.family = family
        return found

    def _of_kmsg(self, line: bytes) -> Captured | None:
        """A record is whole when the next begins: its dictionary follows on lines of their own."""
        if line.startswith(b" "):
            if self._held:
                self._held += b"\n" + line[:1024] if len(self._held) < LINE_MAX else b""
            else:
                self.counts.unparsable += 1
            return None
        before = self._kmsg() if self._held else None
        self._held, self._held_line = (line, self.counts.lines) if parse(line) else (b"", 0)
        if not self._held:
            self.counts.unparsable += 1
        return before

    def _kmsg(self) -> Captured | None:
        raw, line = self._held, self._held_line
        self._held = b""
        record = parse(raw)
        if record is None:
            return None
        self.forms |= {"mono", "facility"}
        return Captured(raw + b"\n", record.seq, _sane(record.time_us / 1e6), None, "", line)

    def _of_json(self, line: bytes) -> Captured | None:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or (text := _text(entry.get("MESSAGE"))) is None:
            self.counts.unparsable += 1
            return None
        if entry.get("_TRANSPORT") != "kernel":
            self.counts.not_kernel += 1
            return None
        self.forms |= {"mono", "wall", "facility"}
        mono = _number(entry.get("_SOURCE_MONOTONIC_TIMESTAMP")) or _number(entry.get("__MONOTONIC_TIMESTAMP"))
        real = _number(entry.get("_SOURCE_REALTIME_TIMESTAMP")) or _number(entry.get("__REALTIME_TIMESTAMP"))
        level, facility = _number(entry.get("PRIORITY")), _number(entry.get("SYSLOG_FACILITY"))
        priority = ((facility or 0) % 24) * 8 + (_USUAL_PRIORITY if level is None else level % 8)
        dictionary = {
            name: value
            for name, key in (("SUBSYSTEM", "_KERNEL_SUBSYSTEM"), ("DEVICE", "_KERNEL_DEVICE"))
            if (value := _text(entry.get(key)))
        }
        boot = _text(entry.get("_BOOT_ID")) or ""
        return self._made(text, priority, _seconds(mono), _seconds(real), boot[:64], dictionary)

    def _of_text(self, line: str) -> Captured | None:
        if boot := _JOURNAL_BOOT.match(line):
            if boot["boot"] or line.startswith("-- Reboot"):
                self._reboots += 1
                self._boot = boot["boot"] or f"reboot {self._reboots}"
            return None
        journal = _JOURNAL.match(line) or _JOURNAL_MONO.match(line)
        if journal:
            known = journal.groupdict()
            at = self._moment(known["at"]) if known.get("at") else None
            self.forms.add("mono" if at is None else "wall")
            if known["who"] != "kernel":
                self.counts.not_kernel += 1
                return None
            return self._made(known["text"], _USUAL_PRIORITY, _float(known["mono"]), at, self._boot, {})
        found = _DMESG.match(line)
        assert found is not None  # Every part of it is optional.
        known = found.groupdict()
        at = self._moment(known["ctime"] or known["iso"]) if known["ctime"] or known["iso"] else None
        self.forms |= {name for name, there in (("mono", known["mono"]), ("wall", at)) if there is not None}
        return self._made(known["text"], self._priority(known), _float(known["mono"]), at, self._boot, {})

    def _priority(self, known: dict[str, str]) -> int:
        if known["priority"]:
            self.forms.add("facility")
            return int(known["priority"])
        if not known["level"]:
            return _USUAL_PRIORITY
        self.forms.add("facility")
        name = known["facility"]
        facility = 16 + int(name[-1]) if name.startswith("local") else _FACILITIES.index(name)
        return facility * 8 + _LEVELS.index(known["level"])

    def _moment(self, text: str) -> float | None:
        if text[0].isalpha():
            self.forms.add("zoneless")
        at = _moment(text, self.until)
        return at if at is not None and 0 <= at < _WALL_MAX_S else None

    def _made(
        self, text: str, priority: int, mono: float | None, at: float | None, boot: str, dictionary: dict[str, str]
    ) -> Captured:
        """The record that the kernel would have given for it. A line's end within the text is escaped, as it does."""
        self._seq += 1
        message = text[:LINE_MAX].replace("\n", "\\x0a").encode("utf-8", "replace")
        rest = "".join(f" {key}={value[:200]}\n".replace("\n", " ") + "\n" for key, value in dictionary.items())
        header = f"{priority},{self._seq},{int((mono or 0.0) * 1e6)},-;".encode()
        raw = header + message + b"\n" + rest.encode("utf-8", "replace")
        return Captured(raw, self._seq, _sane(mono), at, boot, self.counts.lines)


def _family(line: bytes) -> Family:
    if parse(line):
        return Family.KMSG
    return Family.JSON if line.startswith(b"{") else Family.TEXT


def _sane(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 <= seconds <= _CLOCK_MAX_S else None


def _float(text: str | None) -> float | None:
    return float(text) if text else None


def _number(value: Any) -> int | None:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return int(text) if _DIGITS.fullmatch(text) and text.isascii() else None


def _seconds(microseconds: int | None) -> float | None:
    seconds = None if microseconds is None else microseconds / 1e6
    return seconds if seconds is not None and seconds < _WALL_MAX_S else None


def _text(value: Any) -> str | None:
    """A journal's field: text, or its bytes where it is not printable; the first where there are several."""
    if isinstance(value, list) and value and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(byte, int) and 0 <= byte <= 255 for byte in value):
        return bytes(value).decode("utf-8", "replace")
    return None


@lru_cache(maxsize=4096)
def _moment(text: str, until: datetime) -> float | None:
    """Seconds since the epoch. Times that name no zone are taken for UTC."""
    try:
        if text[:1].isdigit():
            return datetime.fromisoformat(text.replace(",", ".")).timestamp()
        if not text[3:5].strip().isdigit() and len(text) == 24:
            return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
        form = "%Y %b %d %H:%M:%S.%f" if "." in text else "%Y %b %d %H:%M:%S"
        for year in (until.year, until.year - 1):
            with_year = datetime.strptime(f"{year} {text}", form).replace(tzinfo=UTC)
            if with_year <= until + timedelta(days=1):
                return with_year.timestamp()
    except ValueError:
        return None
    return None
