"""From raw records to lines that a rule knows. Standard library alone.

Most records are of no interest, and that is found out for a whole round of them at once. A line that the kernel wrote
in several records (flag ``c``) is put together again, because a rule's text may lie across the cut (K17).
"""

from collections.abc import Callable, Iterator
from typing import Final

from detector.kmsg import Record, parse
from detector.marker import Marker
from detector.rules import Catalogue, Match

Line = tuple[Record, Match]

_FRAGMENT: Final = (b",c;", b",c,")
_ESCAPED: Final = b"\\x"
_BLANKS: Final = b"  "
_HELD_MAX: Final = 8
"""Fragments that are put together; more are no line but a mistake."""
_TEXT_MAX: Final = 4096


class Lines:
    """What to look at, and the fragments of a line that has not ended."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._held: list[Record] = []

    @property
    def holding(self) -> bool:
        """Whether there are fragments whose end has not come."""
        return bool(self._held)

    @property
    def before_held(self) -> int:
        """The number before the first fragment: the cursor that would not lose it."""
        return self._held[0].seq - 1

    def sift(self, raws: "list[bytes]", marker: Marker, remember: "Callable[[list[bytes]], None]") -> "Iterator[Line]":
        """The lines among some records that a rule knows. ``remember`` is told all that lies before each."""
        blob = raws[0] if len(raws) == 1 else b"".join(raws)
        marker.look(blob)
        marks = self._catalogue.marks(blob)
        if _ESCAPED in blob:
            # What the kernel escaped may be what a rule looks for.
            marks.append(_ESCAPED)
        # Doubled blanks hide a text until they are one; fragments, until they are put together.
        marks += [mark for mark in (_BLANKS, *_FRAGMENT) if mark in blob]
        if not marks and not self._held:
            remember(raws)
            return
        told = 0
        for index, raw in enumerate(raws):
            if not self._held and not any(mark in raw for mark in marks):
                continue
            record = parse(raw)
            if record is None:
                continue
            if line := self._line(record):
                remember(raws[told:index])
                told = index
                yield line
        remember(raws[told:])

    def release(self) -> "Line | None":
        """The line of the fragments that are held, when no more seems to come."""
        return self._end() if self._held else None

    def _line(self, record: Record) -> "Line | None":
        if record.fragment and len(self._held) < _HELD_MAX:
            self._held.append(record)
            return None
        if not self._held:
            return self._judge(record)
        whole = self._end(record)
        # Other text may have come between: then the record is a line of its own.
        return whole or self._judge(record)

    def _end(self, last: "Record | None" = None) -> "Line | None":
        first = self._held[0]
        parts = [*self._held, last] if last else self._held
        text = "".join(part.message for part in parts)[:_TEXT_MAX]
        fields = {key: value for part in parts for key, value in part.fields.items()}
        self._held = []
        return self._judge(first._replace(message=text, fields=fields, fragment=False))

    def _judge(self, record: Record) -> "Line | None":
        match = self._catalogue.match(record.message)
        return (record, match) if match else None
