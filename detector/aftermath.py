"""What the kernel said right after a finding: an oops is followed by its trace, a device error by its reset.

Read when the courier delivers, some tenths of a second later, from the log itself: watch never waits for lines to come.
"""

from typing import Final

from detector.kmsg import BlindError, Reader, parse

LINES_MAX: Final = 8
LINE_MAX: Final = 200
_ROUNDS_MAX: Final = 64
"""A ring has fewer. A file may go on, and what is far behind is no context."""


def lines_after(log: str, seq: int) -> tuple[str, ...]:
    """The lines after a record, as far as they are there; none where the log cannot be read.

    Args:
        log: the kernel log that watch reads, or a file in its format.
        seq: number of the record, in this boot.
    """
    try:
        reader = Reader(log, seq)
    except BlindError:
        return ()
    found: list[str] = []
    try:
        for _ in range(_ROUNDS_MAX):
            batch = reader.batch()
            if reader.started_over:
                return ()
            found += [record.message[:LINE_MAX] for raw in batch.raws if (record := parse(raw))]
            if len(found) >= LINES_MAX or not batch.more:
                break
    except (BlindError, OSError):
        return ()
    finally:
        reader.close()
    return tuple(found[:LINES_MAX])
