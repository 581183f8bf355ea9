"""What of the kernel log could not be read: counted by reason, and told as often as people can use.

Standard library alone.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from detector.kmsg import Lost

_TOLD_AGAIN_S: Final = 10.0
"""At most this often does a loss become an Event."""
_NOT_OURS: Final = "before_first"
"""Overwritten before any detector ran in this boot: counted, and no reason to alarm anybody."""


class Losses:
    """Counts, and what of them nobody was told yet."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """All of this process, by reason."""
        self._untold: Counter[str] = Counter()
        self._told_at: float | None = None

    def add(self, lost: "Iterable[Lost]") -> None:
        """Count them."""
        for some in lost:
            self.counts[some.reason] += some.records
            if some.reason != _NOT_OURS:
                self._untold[some.reason] += some.records

    def due(self, now: float) -> str:
        """What is to be told now, in words; empty where there is nothing. ``now`` is monotonic."""
        if not self._untold or (self._told_at is not None and now - self._told_at < _TOLD_AGAIN_S):
            return ""
        self._told_at = now
        lost, self._untold = self._untold, Counter()
        counts = ", ".join(f"{number} {reason}" for reason, number in sorted(lost.items()))
        return f"Kernel records could not be read: {counts}. A fault may have been missed: check the devices."
