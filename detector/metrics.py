"""What watch exports, by name. ``problem_counter`` and ``problem_gauge`` are the node problem detector's own names,
so that today's dashboards and alarms go on. Standard library alone.
"""

from typing import Final, NamedTuple

from detector.exporter import Sample, render
from detector.kmsg import LOSS_REASONS

_COUNTER: Final = "counter"
_GAUGE: Final = "gauge"


class Facts(NamedTuple):
    """What there is to tell."""

    read: int
    lost: "dict[str, int]"
    blind: bool
    deaf: bool
    disk_problem: bool
    spooled: int
    broken: int
    dropped: "dict[str, int]"
    last_read_age_s: float
    courier_failures: int
    counts: "dict[str, int]"
    conditions: "dict[str, str]"


def expose(facts: Facts) -> str:
    """Prometheus text."""
    prefix = "nodemend_detector"
    samples: list[Sample] = [
        (f"{prefix}_records_read_total", _COUNTER, "Kernel records read.", {}, facts.read),
        (f"{prefix}_last_record_age_seconds", _GAUGE, "Since the last record was read.", {}, facts.last_read_age_s),
        (f"{prefix}_blind", _GAUGE, "1 while the kernel log cannot be read.", {}, facts.blind),
        (f"{prefix}_deaf", _GAUGE, "1 while the self-test's line does not come back.", {}, facts.deaf),
        (f"{prefix}_spool_unwritable", _GAUGE, "1 while the spool's disk takes nothing.", {}, facts.disk_problem),
        (f"{prefix}_spool_entries", _GAUGE, "Findings not delivered yet.", {}, facts.spooled),
        (f"{prefix}_spool_broken_total", _COUNTER, "Spool lines that could not be read.", {}, facts.broken),
        (f"{prefix}_courier_failures_total", _COUNTER, "Couriers that ended badly.", {}, facts.courier_failures),
    ]
    samples += [
        (
            f"{prefix}_records_lost_total",
            _COUNTER,
            "Kernel records that could not be read.",
            {"reason": reason},
            facts.lost.get(reason, 0),
        )
        for reason in LOSS_REASONS
    ]
    samples += [
        (f"{prefix}_spool_dropped_total", _COUNTER, "Entries that had to make room.", {"verdict": verdict}, number)
        for verdict, number in sorted(facts.dropped.items())
    ]
    samples += [
        ("problem_counter", _COUNTER, "Number of times a problem has occurred.", {"reason": reason}, number)
        for reason, number in sorted(facts.counts.items())
    ]
    samples += [
        ("problem_gauge", _GAUGE, "Whether a problem affects the node.", {"type": kind, "reason": reason}, 1)
        for kind, reason in sorted(facts.conditions.items())
    ]
    return render(samples)
