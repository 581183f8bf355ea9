"""From matches to findings: the same fault again is a count, not another finding. Standard library alone. Pure.

Quiet verdicts (``application``, ``notice``) are counted here and reported only when a rule's threshold is crossed: a
workflow is never started for every out-of-memory kill.

Two clocks: intervals are taken from ``now``, the kernel's time since boot, which nobody sets; ``wall`` is for people,
and may step.
"""

import time
from collections import deque
from typing import Any, Final

from detector.kmsg import Record, parse
from detector.rules import Match

REPORT_AGAIN_S: Final = 60.0
"""At most this often is a finding reported again with its new count."""
NEW_AFTER_S: Final = 600.0
"""A fault that was silent this long and shows again is a new finding."""
OTHERS: Final = "others"
"""Stands for the device and code of what a rule finds beyond its share of signatures."""
_PER_RULE: Final = 48
"""Signatures of one rule: three times the devices of the largest machine. Whoever writes lines with made-up devices
gets one more finding, not a thousand."""
_SIGNATURES_MAX: Final = 512
_MESSAGE_MAX: Final = 1024
_FIELDS_MAX: Final = 32
_FIELD_MAX: Final = 200
_CONTEXT_LINES: Final = 8
_CONTEXT_MAX: Final = 200
_KEYS: Final = frozenset(
    ("count", "reported", "reported_at", "first_seen", "last_seen", "last_at", "last_seq", "window", "report")
)
_QUIET: Final = frozenset({"application", "notice"})

Open = dict[str, Any]


class Findings:
    """What is known of this boot's faults, by signature."""

    def __init__(self, known: "dict[str, Open] | None" = None) -> None:
        """``known`` is what ``known()`` gave before a restart."""
        # What another version wrote may have another shape: then it is counted anew.
        self._open: dict[str, Open] = {name: entry for name, entry in (known or {}).items() if _is_whole(entry)}
        self._context: deque[bytes] = deque(maxlen=_CONTEXT_LINES)
        self.counts: dict[str, int] = {}
        """Matches by reason, since the start of the process."""

    def known(self) -> "dict[str, Open]":
        """The state to keep over a restart."""
        return self._open

    def remember(self, raws: "list[bytes]") -> None:
        """Keep records as context of a later finding."""
        self._context.extend(raws[-_CONTEXT_LINES:])

    def take(self, record: Record, match: Match, now: float, wall: "float | None" = None) -> "dict[str, Any] | None":
        """Count a match. Returns a report to spool when it is time for one.

        Args:
            record: the record that matched.
            match: what the catalogue made of it.
            now: seconds since boot at which the record was written.
            wall: seconds since the epoch; ``now`` where they are the same to the caller.
        """
        rule = match.rule
        wall = now if wall is None else wall
        self.counts[match.reason] = self.counts.get(match.reason, 0) + 1
        quiet = rule.verdict in _QUIET
        signature = self._signature(record, match)
        known = self._open.get(signature)
        silence = max(NEW_AFTER_S, rule.window_s if quiet else 0.0)
        if known is None or now - known["last_at"] > silence:
            known = self._begin(signature, record, match, now, wall)
        else:
            known["count"] += 1
            known["last_seq"] = max(record.seq, known["last_seq"])
            known["last_at"] = max(now, known["last_at"])
            known["last_seen"] = max(wall, known["last_seen"])
        if quiet:
            return self._when_crossed(known, rule.threshold, rule.window_s, now)
        return self._report(known, now) if known["reported"] == 0 or _again(known, now) else None

    def due(self, now: float) -> "list[dict[str, Any]]":
        """Reports of counts that grew since they were last told. Quiet ones are told by their threshold alone."""
        return [
            self._report(known, now)
            for known in self._open.values()
            if known["report"]["verdict"] not in _QUIET and known["reported"] and _again(known, now)
        ]

    def _signature(self, record: Record, match: Match) -> str:
        drill = "drill/" if is_drill(record) else ""
        signature = f"{drill}{match.signature}"
        if signature in self._open:
            return signature
        own = f"{drill}{match.rule.id}/"
        if sum(known.startswith(own) for known in self._open) >= _PER_RULE:
            return f"{own}{OTHERS}"
        return signature

    def _begin(self, signature: str, record: Record, match: Match, now: float, wall: float) -> Open:
        rule = match.rule
        if len(self._open) >= _SIGNATURES_MAX:
            self._forget_one()
        fields = {**record.fields, **match.fields}
        known: Open = {
            "count": 1,
            "reported": 0,
            "reported_at": 0.0,
            "first_seen": wall,
            "last_seen": wall,
            "last_at": now,
            "last_seq": record.seq,
            "window": [],
            "report": {
                "seq": record.seq,
                "rule": rule.id,
                "component": rule.component,
                "verdict": rule.verdict,
                "data": rule.data,
                "evidence_end": rule.evidence_end,
                "corroboration": rule.corroboration,
                "workload_alive": rule.workload_alive,
                "device_resource": rule.device_resource,
                "condition_type": rule.condition_type,
                "reason": match.reason,
                "signature": signature,
                "fields": {key: clean(fields[key])[:_FIELD_MAX] for key in list(fields)[:_FIELDS_MAX]},
                "message": clean(record.message[:_MESSAGE_MAX]),
                "context": self._lines_before(record),
                "facility": record.facility,
                "level": record.level,
                "kernel_time_us": record.time_us,
                "drill": is_drill(record),
            },
        }
        # The newest last: an old signature that begins again is young.
        self._open.pop(signature, None)
        self._open[signature] = known
        return known

    def _lines_before(self, record: Record) -> "list[str]":
        before = (parse(raw) for raw in self._context)
        return [clean(line.message[:_CONTEXT_MAX]) for line in before if line is not None and line.seq != record.seq]

    def _forget_one(self) -> None:
        """Whatever is least: a rehearsal or a count before a fault, the old before the new."""

        def worth(signature: str) -> "tuple[bool, float]":
            known = self._open[signature]
            report = known["report"]
            return not report["drill"] and report["verdict"] not in _QUIET, known["last_at"]

        del self._open[min(self._open, key=worth)]

    def _when_crossed(
        self, known: Open, threshold: "int | None", window_s: float, now: float
    ) -> "dict[str, Any] | None":
        if threshold is None:
            return None
        known["window"] = [*(moment for moment in known["window"] if now - moment <= window_s), now][-threshold:]
        told = bool(known["reported"]) and now - known["reported_at"] < max(window_s, REPORT_AGAIN_S)
        if len(known["window"]) < threshold or told:
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


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, dict) and set(entry) >= _KEYS and isinstance(entry["report"], dict)


def _again(known: Open, now: float) -> bool:
    return bool(known["count"] > known["reported"] and now - known["reported_at"] >= REPORT_AGAIN_S)


def is_drill(record: Record) -> bool:
    """Whether user space wrote the record: the kernel never lets it have facility 0 (K11)."""
    return record.facility != 0


def clean(text: str) -> str:
    """Kernel text without control characters: it ends in terminals, Markdown and JSON (C14)."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def iso(moment: float) -> str:
    """UTC in ISO 8601, to the millisecond."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1000):03d}Z"
