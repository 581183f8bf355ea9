"""Reading kernel records: one ``read`` a record, every sequence number accounted for.

The format is the kernel's ABI (Documentation/ABI/testing/dev-kmsg):
``prio,seq,usec,flags[,more];text`` and a newline, then any number of lines `` KEY=value``. Standard library alone:
this runs in the process that must stay small.
"""

import os
import re
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

BUFFER: Final = 16384
"""Bytes per read. Older kernels emit records of up to 8192 (CONSOLE_EXT_LOG_MAX); a shorter buffer loses them."""

_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})")


class Record(NamedTuple):
    """One kernel record."""

    facility: int
    level: int
    seq: int
    time_us: int
    """printk clock: it stops in suspend and drifts, so it is never compared with wall clocks (K19)."""
    fragment: bool
    """A continuation (flag ``c``): part of a line, not one of its own (K17)."""
    message: str
    fields: "dict[str, str]"
    """The dictionary: SUBSYSTEM, DEVICE and so on."""


class Lost(NamedTuple):
    """Records that were there and could not be read."""

    records: int
    reason: str
    """``overrun``, ``too_long``, ``malformed`` or ``while_away``."""


class BlindError(Exception):
    """The log cannot be read at all; ``reason`` says why and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse(raw: bytes) -> "Record | None":
    """One record, or None when it is not in the format. Unknown header fields are left alone (K9)."""
    head, separator, rest = raw.decode("utf-8", "replace").partition(";")
    if not separator:
        return None
    parts = head.split(",")
    try:
        priority, seq, time_us = int(parts[0]), int(parts[1]), int(parts[2])
    except (ValueError, IndexError):
        return None
    if priority < 0 or seq < 0 or time_us < 0:
        return None
    text, *dictionary = rest.rstrip("\n").split("\n")
    fields = {}
    for line in dictionary:
        key, equals, value = line.removeprefix(" ").partition("=")
        if equals:
            fields[key] = unescape(value)
    fragment = len(parts) > 3 and "c" in parts[3]
    return Record(priority >> 3, priority & 7, seq, time_us, fragment, unescape(text), fields)


def unescape(text: str) -> str:
    r"""Undo the kernel's ``\xNN``, which stands for one byte; what is no UTF-8 becomes replacement marks (K16)."""
    if "\\x" not in text:
        return text
    raw = bytearray()
    position = 0
    for match in _ESCAPE.finditer(text):
        raw += text[position : match.start()].encode()
        raw.append(int(match[1], 16))
        position = match.end()
    raw += text[position:].encode()
    return raw.decode("utf-8", "replace")


class Reader:
    """The log, from the record after a cursor on. Never blocks."""

    def __init__(self, path: str, after: "int | None") -> None:
        """Open it.

        Args:
            path: ``/dev/kmsg``, or a regular file in its format (for demonstrations and tests), which is followed.
            after: sequence number read last in this boot; None when there is none.

        Raises:
            BlindError: it cannot be opened.
        """
        try:
            self.descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError as error:
            raise BlindError(
                f"{path} may not be read ({os.strerror(error.errno or 0)}): give the container CAP_SYSLOG, and boot "
                "without printk.devkmsg=off"
            ) from error
        except OSError as error:
            raise BlindError(f"{path} cannot be opened ({error.strerror}): mount the host's /dev/kmsg") from error
        self.is_device = stat.S_ISCHR(os.fstat(self.descriptor).st_mode)
        self._last = after
        self._first = True
        self._rest = b""

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)

    def read(self) -> "Iterator[Record | Lost]":
        """All that can be had now.

        Raises:
            BlindError: reading failed in a way that only opening again may mend.
        """
        return self._read_device() if self.is_device else self._read_file()

    def _read_device(self) -> "Iterator[Record | Lost]":
        while True:
            try:
                raw = os.read(self.descriptor, BUFFER)
            except BlockingIOError:
                return
            except InterruptedError:
                continue
            except BrokenPipeError:
                # The ring overtook us. The next read gives the oldest record there is; its number tells the loss (K4).
                continue
            except OSError as error:
                if error.errno == 22:
                    # EINVAL consumes the record: the kernel has advanced before it checked the size (K3).
                    yield from self._skip("too_long")
                    continue
                raise BlindError(f"reading the kernel log failed ({error.strerror})") from error
            if not raw:
                return
            yield from self._take(raw)

    def _read_file(self) -> "Iterator[Record | Lost]":
        while chunk := os.read(self.descriptor, BUFFER):
            self._rest += chunk
        lines = self._rest.split(b"\n")
        # A record is whole only when its newline is there.
        self._rest = lines.pop()
        record: list[bytes] = []
        for line in lines:
            if record and not line.startswith(b" "):
                yield from self._take(b"\n".join(record))
                record = []
            record.append(line)
        if record:
            yield from self._take(b"\n".join(record))

    def _take(self, raw: bytes) -> "Iterator[Record | Lost]":
        record = parse(raw)
        if record is None:
            if raw.strip():
                yield from self._skip("malformed")
            return
        if self._last is not None:
            if record.seq <= self._last:
                return
            missing = record.seq - self._last - 1
            # A file has the numbers that its writer chose; only the kernel's own have no gaps.
            if missing and self.is_device:
                yield Lost(missing, "while_away" if self._first else "overrun")
        self._first = False
        self._last = record.seq
        yield record

    def _skip(self, reason: str) -> "Iterator[Lost]":
        if self._last is not None and self.is_device:
            self._last += 1
        yield Lost(1, reason)
