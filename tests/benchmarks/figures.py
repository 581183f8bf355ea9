"""Figures with their goals, and how they are written down."""

import json
import os
import platform
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Figure:
    """One measured figure. Its name says the unit."""

    figure: str
    value: float
    unit: str
    goal: str
    holds: bool
    note: str = ""


def at_most(figure: str, value: float, unit: str, limit: float, note: str = "", *, held: bool = True) -> Figure:
    """A figure whose goal is an upper limit; ``held`` is False where it was not measured to its end."""
    return Figure(figure, round(value, 3), unit, f"at most {limit:g}", held and value <= limit, note)


def told(figure: str, value: float, unit: str, note: str = "") -> Figure:
    """A figure without a goal, for comparison."""
    return Figure(figure, round(value, 3), unit, "none", True, note)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of them lies; the largest for few of them."""
    if share >= 0.99 and len(values) < 100:
        return max(values)
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": model[0].partition(":")[2].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory.split()[1]) / 1024**2, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def write(figures: Sequence[Figure]) -> None:
    """``build/bench.json``, and ``docs/benchmarks.md`` from it.

    Figures that were not measured now are kept as ``docs/benchmarks.json`` has them: it is under version control, so
    that a fresh clone can measure one of them without forgetting the others.
    """
    kept = ROOT / "docs" / "benchmarks.json"
    known: dict[str, dict[str, object]] = {}
    if kept.exists():
        known = {str(entry["figure"]): entry for entry in json.loads(kept.read_text())}
    facts = {"machine": machine(), "measured_at": datetime.now(UTC).isoformat(timespec="seconds")}
    known |= {figure.figure: {**asdict(figure), **facts} for figure in figures}
    text = json.dumps(list(known.values()), indent=2) + "\n"
    kept.write_text(text)
    target = ROOT / "build" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)
    (ROOT / "docs" / "benchmarks.md").write_text(_document(list(known.values())))


def _document(entries: list[dict[str, object]]) -> str:
    machines = Counter(_described(entry["machine"]) for entry in entries).most_common()
    usual = machines[0][0]
    elsewhere = []
    for other, _ in machines[1:]:
        names = ", ".join(f"`{entry['figure']}`" for entry in entries if _described(entry["machine"]) == other)
        elsewhere.append(f"- {other}: {names}")
    lines = [
        "# Figures",
        "",
        f"Measured by `make bench` on the embedded stack, everything on one machine: {usual}. Such machines are noisy: "
        "read ratios and medians, and measure your own.",
        *(["", "On another machine:", "", *elsewhere] if elsewhere else []),
        "",
        "| figure | value | goal | holds | note |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{entry['figure']}` | {entry['value']} {entry['unit']} | {entry['goal']} | "
        f"{'yes' if entry['holds'] else '**no**'} | {entry['note']} |"
        for entry in entries
    ]
    return "\n".join(lines) + "\n"


def _described(facts: object) -> str:
    assert isinstance(facts, dict)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, Linux {facts['kernel']}, "
        f"Python {facts['python']}"
    )
