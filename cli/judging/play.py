"""The detector over a captured log, with the log's own clock: its lines, counts, thresholds and evidence lifetimes.

It is the code that runs on nodes (``detector.lines``, ``findings``, ``conditions``); only reading and the clock are
different. Watch looks each second whether a count is to be told again; here that happens at the very moment.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cli.judging.captures import Captured
from detector.conditions import Conditions
from detector.findings import REPORT_AGAIN_S, Findings
from detector.lines import Line, Lines
from detector.marker import Marker
from detector.rules import Catalogue

_BATCH: Final = 512
_AGAIN_S: Final = REPORT_AGAIN_S + 1e-3
"""And a little: sums of floats may fall short."""
_BACK_S: Final = 10.0
"""The kernel's clock never goes back within a boot by more than a race between CPUs: then it is another boot."""
_FIRST_WORDS: Final = b"Linux version "
"""What every kernel says when it begins."""
_EARLY: Final = 8
"""It may be preceded by a few lines of the same boot."""


class Moment(NamedTuple):
    """When, by all the clocks that there are."""

    boot: int
    since_boot_s: float
    at: float | None
    """Seconds since the epoch; None where the capture does not say."""
    line: int


@dataclass
class Played:
    """What the detector counted."""

    matched: int = 0
    """Lines that a rule knows and takes for a fault."""
    benign: int = 0
    """Lines that a rule knows and takes for nothing."""
    boots: int = 0
    by_rule: dict[str, int] = field(default_factory=dict)


class Detector:
    """One node's detector, from the first line of a capture to its last."""

    def __init__(
        self, catalogue: Catalogue, tell: Callable[[dict[str, Any], Moment], None], reboot: Callable[[Moment], None]
    ) -> None:
        """``tell`` is given each report, ``reboot`` each boot after the first."""
        self._catalogue = catalogue
        self._tell = tell
        self._reboot = reboot
        self._marker = Marker("", 0.0)
        self.played = Played()
        self.conditions = Conditions()
        self._findings, self._lines = Findings(), Lines(catalogue)
        self._moments: dict[int, Moment] = {}
        self._now = Moment(0, 0.0, None, 0)
        self._epoch: float | None = None
        self._epoch_is_of_kernel = False
        self._due_at = math.inf
        self._boot_name = ""
        self._line = 0
        self._last_seq = -1
        self._in_boot = 0

    def play(self, records: Iterable[Captured]) -> Played:
        """All of it."""
        batch: list[bytes] = []
        for record in records:
            if self._begins_a_boot(record):
                self._sift(batch)
                self._boot(record)
            self._advance(record)
            self._moments[record.seq] = self._now
            batch.append(record.raw)
            if len(batch) >= _BATCH:
                self._sift(batch)
        self._sift(batch)
        self._release()
        # What was counted and not told yet would have been told within the minute.
        self._tell_due(self._now.since_boot_s + _AGAIN_S)
        return self.played

    @property
    def now(self) -> Moment:
        """When the last line was written."""
        return self._now

    def _begins_a_boot(self, record: Captured) -> bool:
        if self.played.boots == 0:
            return True
        if record.boot and self._boot_name and record.boot != self._boot_name:
            return True
        clock = record.since_boot_s
        back = clock is not None and clock < self._now.since_boot_s - _BACK_S and self._epoch_is_of_kernel
        return (
            record.seq < self._last_seq
            or back
            or (self._in_boot > _EARLY and record.raw.partition(b";")[2].startswith(_FIRST_WORDS))
        )

    def _boot(self, record: Captured) -> None:
        self._release()
        self.played.boots += 1
        self._findings, self._lines = Findings(), Lines(self._catalogue)
        self.conditions = Conditions(self.conditions.known(), same_boot=self.played.boots == 1)
        self._moments.clear()
        self._boot_name, self._in_boot, self._last_seq = record.boot, 0, -1
        self._epoch, self._epoch_is_of_kernel, self._due_at = None, False, math.inf
        self._now = Moment(self.played.boots, record.since_boot_s or 0.0, record.at, record.line)
        if self.played.boots > 1:
            self._reboot(self._now)

    def _advance(self, record: Captured) -> None:
        """The clock of the record: the kernel's own, else the wall's, else it stands still."""
        self._last_seq, self._in_boot = record.seq, self._in_boot + 1
        self._boot_name = self._boot_name or record.boot
        clock, at = record.since_boot_s, record.at
        if clock is not None:
            self._epoch_is_of_kernel = True
            if at is not None:
                self._epoch = at - clock
            elif self._epoch is not None:
                at = self._epoch + clock
        elif at is not None:
            if self._epoch is None:
                self._epoch = at
            clock = max(0.0, at - self._epoch)
        now = max(self._now.since_boot_s, clock if clock is not None else 0.0)
        self._now = Moment(self.played.boots, now, at if at is not None else self._now.at, record.line)

    def _sift(self, batch: list[bytes]) -> None:
        if not batch:
            return
        for line in self._lines.sift(batch, self._marker, self._findings.remember):
            self._take(line)
        self._tell_due(self._now.since_boot_s)
        batch.clear()
        if not self._lines.holding:
            self._moments.clear()

    def _release(self) -> None:
        if held := self._lines.release():
            self._take(held)

    def _take(self, line: Line) -> None:
        record, match = line
        if match.rule.verdict == "benign":
            self.played.benign += 1
            return
        self.played.matched += 1
        self.played.by_rule[match.rule.id] = self.played.by_rule.get(match.rule.id, 0) + 1
        moment = self._moments.get(record.seq, self._now)
        self._tell_due(moment.since_boot_s)
        self._line = moment.line
        report = self._findings.take(record, match, moment.since_boot_s, _wall(moment))
        if report is not None:
            self._report(report, moment)

    def _tell_due(self, until_s: float) -> None:
        """Counts that grew are told again, each at its time."""
        while self._due_at <= until_s:
            due_at = self._due_at
            at = self._now.at - (self._now.since_boot_s - due_at) if self._now.at is not None else None
            for report in self._findings.due(due_at):
                self._report(report, Moment(self.played.boots, due_at, at, self._line))
            # One that was told longer ago than that is told at its very next line, by `take`.
            told = (known["reported_at"] + _AGAIN_S for known in self._findings.known().values() if known["reported"])
            self._due_at = min((moment for moment in told if moment > due_at), default=math.inf)

    def _report(self, report: dict[str, Any], moment: Moment) -> None:
        self._due_at = min(self._due_at, moment.since_boot_s + _AGAIN_S)
        self.conditions.take(report, str(moment.boot), moment.since_boot_s)
        self._tell(report, moment)


def _wall(moment: Moment) -> float:
    return moment.since_boot_s if moment.at is None else moment.at
