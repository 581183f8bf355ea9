"""What the node's conditions should say: the worst of what is known of a component. Standard library alone. Pure.

Several faults feed one condition. Each is kept apart, so that the end of one (a drill's, a reboot's) does not hide
another that goes on (C9), and the condition says the worst of them.
"""

from typing import Any, Final

DRILL_ENDS_S: Final = 600.0
"""A rehearsal is over this long after its last line."""
LOSS_ENDS_S: Final = 3600.0
"""Lost records are told this long."""
LOG_HEALTH: Final = "KernelLogHealth"
"""The detector's own condition: ``True`` while it is blind, deaf or has lost records."""
_FAULTY: Final = ("hardware", "repairable", "ambiguous")
"""Verdicts that say something against this node, the worst first."""
_PER_TYPE: Final = 64
_KEYS: Final = frozenset(("reason", "message", "since", "verdict", "ends", "at"))

Fault = dict[str, Any]


class Conditions:
    """Faults by condition type and signature."""

    def __init__(self, known: "dict[str, dict[str, Fault]] | None" = None, *, same_boot: bool = True) -> None:
        """``known`` is what ``known()`` gave before a restart; after a reboot, what a boot ends is gone (C6)."""
        self._faults: dict[str, dict[str, Fault]] = {}
        for kind, faults in (known or {}).items():
            whole = {name: fault for name, fault in faults.items() if _is_whole(fault)}
            kept = {name: fault for name, fault in whole.items() if same_boot or _outlives_a_boot(fault)}
            if kept:
                self._faults[kind] = kept
        self.changed = True
        """Since the reader of this last set it to False: the node should be told soon."""

    def known(self) -> "dict[str, dict[str, Fault]]":
        """The state to keep over a restart."""
        return self._faults

    def take(self, report: "dict[str, Any]", boot_id: str, now: float) -> None:
        """A finding was reported. Counts alone change nothing but how long a drill lasts."""
        if report["verdict"] not in _FAULTY:
            return
        faults = self._faults.setdefault(report["condition_type"], {})
        known = faults.get(report["signature"])
        if known is None:
            self.changed = True
            if len(faults) >= _PER_TYPE:
                del faults[max(faults, key=lambda name: _rank(faults[name]))]
        faults[report["signature"]] = {
            "reason": report["reason"],
            "message": f"{report['message'][:600]} (rule {report['rule']}, boot {boot_id}, record {report['seq']})",
            "since": known["since"] if known else report["first_seen"],
            "verdict": report["verdict"],
            "ends": "drill" if report["drill"] else report["evidence_end"],
            "at": now,
        }

    def tell(self, name: str, reason: str, message: str, since: str, now: float, *, ends: str) -> None:
        """Something about the detector itself: ``ends`` is ``told`` (by ``end``) or ``loss`` (after a time)."""
        faults = self._faults.setdefault(LOG_HEALTH, {})
        known = faults.get(name)
        self.changed |= known is None or (known["reason"], known["message"]) != (reason, message)
        faults[name] = {
            "reason": reason,
            "message": message,
            "since": known["since"] if known else since,
            "verdict": "hardware" if ends == "told" else "ambiguous",
            "ends": ends,
            "at": now,
        }

    def end(self, name: str) -> None:
        """It is over."""
        if self._faults.get(LOG_HEALTH, {}).pop(name, None):
            self.changed = True

    def expire(self, now: float) -> None:
        """End what ends with time. ``now`` is seconds since boot."""
        for faults in self._faults.values():
            for name in [name for name, fault in faults.items() if _is_over(fault, now)]:
                del faults[name]
                self.changed = True

    def worst(self) -> "dict[str, Fault]":
        """What each faulty condition says: real before rehearsed, then by verdict, then the oldest (C9)."""
        said = {}
        for kind, faults in self._faults.items():
            if faults:
                fault = min(faults.values(), key=_rank)
                more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
                said[kind] = {**fault, "message": fault["message"] + more}
        return said


def _is_whole(fault: Any) -> bool:
    """Whether this version wrote it."""
    return isinstance(fault, dict) and set(fault) >= _KEYS and fault["verdict"] in _FAULTY


def _rank(fault: Fault) -> "tuple[bool, int, str]":
    return fault["ends"] == "drill", _FAULTY.index(fault["verdict"]), fault["since"]


def _outlives_a_boot(fault: Fault) -> bool:
    return bool(fault.get("ends") == "replacement")


def _is_over(fault: Fault, now: float) -> bool:
    limit = {"drill": DRILL_ENDS_S, "loss": LOSS_ENDS_S}.get(fault["ends"])
    return limit is not None and now - fault["at"] > limit
