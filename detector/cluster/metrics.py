"""What ``watch-cluster`` exports, by name."""

from typing import Final, NamedTuple

from detector.exporter import Sample, render

_COUNTER: Final = "counter"
_GAUGE: Final = "gauge"


class Facts(NamedTuple):
    """What there is to tell."""

    active: bool
    nodes: int = 0
    away: int = 0
    outage: bool = False
    silent: int = 0
    silence_held: bool = False
    waiting: int = 0
    failures: int = 0
    lists: int = 0
    reconnects: int = 0
    sent: "dict[str, int]" = {}  # noqa: RUF012 - never changed
    open: "dict[str, int]" = {}  # noqa: RUF012 - never changed


def expose(facts: Facts) -> str:
    """Prometheus text."""
    prefix = "nodemend_watch"
    samples: list[Sample] = [
        (f"{prefix}_active", _GAUGE, "1 on the replica that watches, 0 on those that wait.", {}, facts.active),
        (f"{prefix}_nodes", _GAUGE, "Nodes that are watched.", {}, facts.nodes),
        (f"{prefix}_nodes_not_ready", _GAUGE, "Nodes that are NotReady or Unknown.", {}, facts.away),
        (f"{prefix}_outage", _GAUGE, "1 while so many are that nothing of ours is sent.", {}, facts.outage),
        (f"{prefix}_detectors_silent", _GAUGE, "Detectors that do not renew their Lease.", {}, facts.silent),
        (f"{prefix}_silence_held", _GAUGE, "1 while too many are silent to report each.", {}, facts.silence_held),
        (f"{prefix}_reports_waiting", _GAUGE, "Reports that Temporal does not have yet.", {}, facts.waiting),
        (f"{prefix}_delivery_failures_total", _COUNTER, "Deliveries that failed.", {}, facts.failures),
        (f"{prefix}_lists_total", _COUNTER, "Lists of all Nodes; after the first, only when needed.", {}, facts.lists),
        (f"{prefix}_reconnects_total", _COUNTER, "Watches that broke.", {}, facts.reconnects),
    ]
    samples += [
        (f"{prefix}_reports_sent_total", _COUNTER, "Reports that Temporal took.", {"source": source}, number)
        for source, number in sorted(facts.sent.items())
    ]
    samples += [
        (f"{prefix}_findings_open", _GAUGE, "Findings that go on.", {"source": source}, number)
        for source, number in sorted(facts.open.items())
    ]
    return render(samples)
