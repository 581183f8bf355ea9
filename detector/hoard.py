"""What was read of a flood and not judged yet. Standard library alone.

The kernel's ring holds a few hundred to a few thousand records, so a flood is lost to whoever looks at each record
before reading the next. Reading alone is several times as fast as a flood is written: read first, judge when the ring
is empty. The memory for it is bounded, and goes back to the system with the flood.
"""

import re
from collections import deque
from typing import Final, NamedTuple

_FULL_BYTES: Final = 4 << 20
"""Some 40,000 lines of ordinary length; with it, watch keeps below its 20 MB."""

_RECORD: Final = re.compile(rb"[^\n]*\n(?: [^\n]*\n)*")
"""A record and its dictionary, whose lines begin with a blank: the kernel escapes every other end of a line (K16)."""


class Round(NamedTuple):
    """Records that were read together."""

    raws: "list[bytes]"
    last_seq: "int | None"
    """Sequence number of the newest."""
    live: bool
    """Whether they were written just before they were read."""


class Hoard:
    """Rounds in the order in which they were read, packed: a record of its own costs half as much again."""

    def __init__(self) -> None:
        self._rounds: deque[tuple[bytes, int | None, bool]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._rounds)

    @property
    def full(self) -> bool:
        """Whether no more should be read before some of it was judged."""
        return self._bytes >= _FULL_BYTES

    def put(self, read: Round) -> None:
        """Keep what a device gave; every record ends with its newline."""
        blob = b"".join(read.raws)
        self._rounds.append((blob, read.last_seq, read.live))
        self._bytes += len(blob)

    def take(self) -> Round:
        """The oldest round."""
        blob, last_seq, live = self._rounds.popleft()
        self._bytes -= len(blob)
        return Round(_RECORD.findall(blob), last_seq, live)
