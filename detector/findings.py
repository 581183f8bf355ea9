"""From matches to findings: the same fault again is a count, not another finding. Standard library alone. Pure.

Quiet verdicts (``application``, ``notice``) are counted here and reported only when a rule's threshold is crossed: a
workflow is never started for every out-of-memory kill.
"""

import time
from typing import Any, Final

from detector.kmsg import Record
from detector.rules import Match

REPORT_AGAIN_S: Final = 60.0
"""At most this often is a finding reported again with its new count."""
NEW_AFTER_S: Final = 600.0
"""A fault that was silent this long and shows again is a new finding."""
_SIGNATURES_MAX: Final = 256
_MESSAGE_MAX: Final = 1024
_CONTEXT_LINES: Final = 8
_CONTEXT_MAX: Final = 200
_QUIET: Final = frozenset({"application", "notice"})

Open = dict[str, Any]


class Findings:
    """What is known of this boot's faults, by signature."""

    def __init__(self, known: "dict[str, Open] | None" = None) -> None:
        """``known`` is what ``known()`` gave before a restart."""
        self._open: dict[str, Open] = dict(known or {})
        self._context: list[str] = []
        self.counts: dict[str, int] = {}
        """Matches by reason, since the start of the process."""

    def known(self) -> "dict[str, Open]":
        """The state to keep over a restart."""
        return self._open

    def remember(self, record: Record) -> None:
        """Keep a line as context of a later finding."""
        self._context.append(clean(record.message)[:_CONTEXT_MAX])
        del self._context[:-_CONTEXT_LINES]

    def take(self, record: Record, match: Match, now: float) -> "dict[str, Any] | None":
        """Count a match. Returns a report to spool when it is time for one.

        ``now`` is wall time in seconds; a clock that was set back never delays a first report.
        """
        rule = match.rule
        self.counts[match.reason] = self.counts.get(match.reason, 0) + 1
        signature = match.signature if not is_drill(record) else f"drill/{match.signature}"
        known = self._open.get(signature)
        if known is None or now - known["last_seen"] > NEW_AFTER_S:
            known = self._begin(signature, record, match, now)
        else:
            known["count"] += 1
            known["last_seq"] = record.seq
            known["last_seen"] = max(now, known["last_seen"])
        if rule.verdict in _QUIET:
            return self._when_crossed(known, rule.threshold, rule.window_s, now)
        again = known["count"] > known["reported"] and now - known["reported_at"] >= REPORT_AGAIN_S
        return self._report(known, now) if known["reported"] == 0 or again else None

    def due(self, now: float) -> "list[dict[str, Any]]":
        """Reports of counts that grew since they were last told."""
        return [
            self._report(known, now)
            for known in self._open.values()
            if 0 < known["reported"] < known["count"] and now - known["reported_at"] >= REPORT_AGAIN_S
        ]

    def _begin(self, signature: str, record: Record, match: Match, now: float) -> Open:
        rule = match.rule
        if len(self._open) >= _SIGNATURES_MAX:
            oldest = min(self._open, key=lambda key: self._open[key]["last_seen"])
            del self._open[oldest]
        known: Open = {
            "count": 1,
            "reported": 0,
            "reported_at": 0.0,
            "first_seen": now,
            "last_seen": now,
            "last_seq": record.seq,
            "window": [],
            "verdict": rule.verdict,
            "report": {
                "seq": record.seq,
                "rule": rule.id,
                "component": rule.component,
                "verdict": rule.verdict,
                "data": rule.data,
                "evidence_end": rule.evidence_end,
                "workload_alive": rule.workload_alive,
                "device_resource": rule.device_resource,
                "condition_type": rule.condition_type,
                "reason": match.reason,
                "signature": signature,
                "fields": {**record.fields, **{key: clean(value)[:200] for key, value in match.fields.items()}},
                "message": clean(record.message)[:_MESSAGE_MAX],
                "context": list(self._context),
                "facility": record.facility,
                "level": record.level,
                "kernel_time_us": record.time_us,
                "drill": is_drill(record),
            },
        }
        self._open[signature] = known
        return known

    def _when_crossed(
        self, known: Open, threshold: "int | None", window_s: float, now: float
    ) -> "dict[str, Any] | None":
        if threshold is None:
            return None
        known["window"] = [*(moment for moment in known["window"] if now - moment <= window_s), now][-threshold:]
        if len(known["window"]) < threshold:
            return None
        known["window"] = []
        return self._report(known, now)

    @staticmethod
    def _report(known: Open, now: float) -> "dict[str, Any]":
        known["reported"], known["reported_at"] = known["count"], now
        return {
            **known["report"],
            "count": known["count"],
            "last_seq": known["last_seq"],
            "first_seen": iso(known["first_seen"]),
            "last_seen": iso(known["last_seen"]),
        }


def is_drill(record: Record) -> bool:
    """Whether user space wrote the record: the kernel never lets it have facility 0 (K11)."""
    return record.facility != 0


def clean(text: str) -> str:
    """Kernel text without control characters: it ends in terminals, Markdown and JSON (C14)."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def iso(moment: float) -> str:
    """UTC in ISO 8601, to the millisecond."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1000):03d}Z"
