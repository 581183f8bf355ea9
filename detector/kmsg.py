"""Reading kernel records: one ``read`` a record, every sequence number accounted for.

The format is the kernel's ABI (Documentation/ABI/testing/dev-kmsg):
``prio,seq,usec,flags[,more];text`` and a newline, then any number of lines `` KEY=value``. Standard library alone:
this runs in the process that must stay small.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

BUFFER: Final = 16384
"""Bytes per read. Older kernels emit records of up to 8192 (CONSOLE_EXT_LOG_MAX); a shorter buffer loses them."""

_BATCH_RECORDS: Final = 512
_BATCH_BYTES: Final = 1 << 20
"""A round of reading is bounded, so that a flood starves nothing else that the process has to do (K22)."""

_DIGITS_MAX: Final = 20
"""Those of 2**64."""
_RECORD: Final = re.compile(rb"\d{1,20},\d{1,20},\d{1,20}(?:,[^;]*)?;")
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})")


LOSS_REASONS: Final = ("overrun", "too_long", "malformed", "while_away", "before_first")
"""Overwritten before they were read; longer than the buffer; not in the format; overwritten while no detector ran;
overwritten before a detector ran for the first time in this boot."""


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
    """One of ``LOSS_REASONS``."""


class BlindError(Exception):
    """The log cannot be read at all; ``reason`` says why and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse(raw: bytes) -> "Record | None":
    """One record, or None when it is not in the format."""
    head, separator, rest = raw.partition(b";")
    header = _header(head)
    if not separator or header is None:
        return None
    priority, seq, time_us, fragment = header
    text, *dictionary = rest.decode("utf-8", "replace").rstrip("\n").split("\n")
    fields = {}
    for line in dictionary:
        key, equals, value = line.removeprefix(" ").partition("=")
        if equals:
            fields[key] = unescape(value)
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


def written_at(record: Record, now: float, wall: float) -> "tuple[float, float]":
    """When a record that waited in the ring was written, in seconds since boot and of the wall clock. Pure.

    It is as old as the kernel's clock says, which is right to within the drift of that clock (K19), and much better
    than now: checkpoints that are younger than the first sign of a fault are not trusted.

    Args:
        record: the record.
        now: seconds since boot, when it was read.
        wall: seconds since the epoch, then.
    """
    then = min(record.time_us / 1e6, now)
    return then, wall - (now - then)


class Batch(NamedTuple):
    """What one round of reading gave: records as they were read, in order, and what was lost among them."""

    raws: "list[bytes]"
    lost: "list[Lost]"
    last_seq: "int | None"
    """Sequence number of the newest of ``raws``."""
    more: bool
    """Whether the log had more than fits into a round."""


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
        self._path = path
        self.descriptor = _open(path)
        self.is_device = stat.S_ISCHR(os.fstat(self.descriptor).st_mode)
        self.catching_up = True
        """Until the end was reached once: what is read meanwhile was written at some earlier time."""
        self.started_over = ""
        """Why the cursor could not be used, when it could not."""
        self._after = self._last = after
        self._newest = -1
        self._first = True
        self._too_long = 0
        self._rest = b""
        self._size = 0

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)

    def read(self) -> "Iterator[Record | Lost]":
        """All that can be had now, parsed.

        Raises:
            BlindError: reading failed in a way that only opening again may mend.
        """
        more = True
        while more:
            batch = self.batch()
            yield from batch.lost
            for raw in batch.raws:
                record = parse(raw)
                if record is not None:
                    yield record
            more = batch.more

    def batch(self) -> Batch:
        """What can be had now, at most one round of it.

        Raises:
            BlindError: reading failed in a way that only opening again may mend.
        """
        lost: list[Lost] = []
        raws, more = self._drain_device() if self.is_device else self._drain_file()
        raws = self._account(raws, lost)
        if self._too_long:
            self._pass_over("too_long", lost)
            self._too_long = 0
        if not more and self.catching_up:
            if self._after is not None and -1 < self._newest < self._after:
                # No log of this boot can have lost its newest records: the cursor is what is wrong.
                self.started_over = f"the cursor {self._after} is beyond the newest record {self._newest}"
                self._after = self._last = None
                self._newest, self._first, self._rest, self._size = -1, True, b"", 0
                os.lseek(self.descriptor, 0, os.SEEK_SET)
                return Batch([], lost, None, more=True)
            self.catching_up = False
        return Batch(raws, lost, self._last if raws else None, more)

    def _drain_device(self) -> "tuple[list[bytes], bool]":
        raws: list[bytes] = []
        size = 0
        while len(raws) < _BATCH_RECORDS and size < _BATCH_BYTES:
            try:
                raw = os.read(self.descriptor, BUFFER)
            except BlockingIOError:
                return raws, False
            except InterruptedError:
                continue
            except BrokenPipeError:
                # The ring overtook us. The next read gives the oldest record there is; its number tells the loss (K4).
                continue
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise BlindError(f"reading the kernel log failed ({error.strerror})") from error
                # EINVAL consumes the record: the kernel has advanced before it checked the size (K3).
                self._too_long = 1
                return raws, True
            if not raw:
                return raws, False
            raws.append(raw)
            size += len(raw)
        return raws, True

    def _drain_file(self) -> "tuple[list[bytes], bool]":
        """Whole records: a record is whole only when its newline is there."""
        self._follow_the_name()
        chunk = os.read(self.descriptor, _BATCH_BYTES)
        self._size += len(chunk)
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        raws: list[bytes] = []
        for line in lines:
            if not line.startswith(b" "):
                raws.append(line)
            elif raws:
                raws[-1] += b"\n" + line
        return raws, len(chunk) == _BATCH_BYTES

    def _follow_the_name(self) -> None:
        """A file that was cut or replaced is read from its start: it may never grow past its old end."""
        try:
            named = os.stat(self._path)  # noqa: PTH116 - pathlib costs memory that watch does not have
        except OSError as error:
            raise BlindError(f"{self._path} is gone ({error.strerror})") from error
        here = os.fstat(self.descriptor)
        if (named.st_dev, named.st_ino) == (here.st_dev, here.st_ino) and here.st_size >= self._size:
            return
        os.close(self.descriptor)
        self.descriptor = _open(self._path)
        self._after = self._last = None
        self._newest, self._rest, self._size = -1, b"", 0

    def _account(self, raws: "list[bytes]", lost: "list[Lost]") -> "list[bytes]":
        """Those of the records that are new, every number between them read or counted as lost (K5)."""
        if not raws:
            return raws
        first, last = _seq(raws[0]), _seq(raws[-1])
        if (
            first is not None
            and last is not None
            and self._last == first - 1
            and last - first == len(raws) - 1
            and all(map(_RECORD.match, raws))
        ):
            # Numbers only grow, so the ends prove that none is missing in between.
            self._last = self._newest = last
            self._first = False
            return raws
        new = []
        for raw in raws:
            seq = _seq(raw)
            if seq is None:
                if raw.strip():
                    self._pass_over("malformed", lost)
                continue
            self._newest = max(self._newest, seq)
            if self._last is not None and seq <= self._last:
                continue
            # A file has the numbers that its writer chose; only the kernel's own have no gaps.
            missing = seq - self._last - 1 if self._last is not None else seq
            if missing and self.is_device:
                reason = "overrun" if not self._first else "before_first" if self._last is None else "while_away"
                lost.append(Lost(missing, reason))
            self._first = False
            self._last = seq
            new.append(raw)
        return new

    def _pass_over(self, reason: str, lost: "list[Lost]") -> None:
        """One record had a number and is lost."""
        if self._last is not None and self.is_device:
            self._last += 1
        lost.append(Lost(1, reason))


def _header(head: bytes) -> "tuple[int, int, int, bool] | None":
    """Priority, number, time and whether it is a fragment; unknown further fields are left alone (K9)."""
    parts = head.split(b",")
    if len(parts) < 3 or any(not part.isdigit() or len(part) > _DIGITS_MAX for part in parts[:3]):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2]), len(parts) > 3 and parts[3] == b"c"


def _seq(raw: bytes) -> "int | None":
    """The sequence number in a record's header; None when the record is not in the format."""
    head, separator, _ = raw.partition(b";")
    found = _header(head) if separator else None
    return found[1] if found else None


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise BlindError(
            f"{path} may not be read ({os.strerror(error.errno or 0)}): give the container CAP_SYSLOG, and boot "
            "without printk.devkmsg=off"
        ) from error
    except OSError as error:
        raise BlindError(f"{path} cannot be opened ({error.strerror}): mount the host's /dev/kmsg") from error
