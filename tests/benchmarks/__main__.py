"""``make bench``: all benchmarks, or those named (``make bench ONLY=latency``, or a figure's name)."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from deploy.local.fleet import FleetKnobs
from deploy.local.stack import Stack, running_stack
from tests.benchmarks import demo, drain, history, latency
from tests.benchmarks.figures import Figure, write

Measure = Callable[[Stack, Path], Iterator[Figure]]

BENCHMARKS: dict[str, tuple[Measure, tuple[str, ...]]] = {
    "demo": (demo.measure, ("warm_demo_s",)),  # type: ignore[dict-item]
    "drain": (
        drain.measure,
        (
            "drain_overhead_s",
            "drain_eviction_calls_per_pod",
            "kubectl_drain_overhead_s",
            "kubectl_drain_eviction_calls_per_pod",
            "drain_fleet_api_calls_per_pod",
            "drain_fleet_api_server_p99_s",
            "drain_fleet_worker_rss_mib",
        ),
    ),
    "history": (history.measure, ("history_events_1_pod", "history_events_100_pods")),
    "latency": (
        latency.measure,
        (
            "line_to_workflow_p50_s",
            "line_to_workflow_p99_s",
            "workflow_to_cordon_p50_s",
            "workflow_to_cordon_p99_s",
            "watch_rss_mib",
            "worker_rss_mib",
        ),
    ),
}


def main(wanted: list[str]) -> int:
    """Run them, print and write the figures. Returns 1 when a goal does not hold."""
    chosen = [name for name, (_, figures) in BENCHMARKS.items() if not wanted or {name, *figures} & set(wanted)]
    if not chosen:
        print(f"No benchmark is called {', '.join(wanted)}. There are: {', '.join(BENCHMARKS)}, or a figure's name.")
        return 2
    figures: list[Figure] = []
    for name in chosen:
        with ExitStack() as exits:
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="nodemend-bench-")))
            # The demo brings its own stack; beside another it would measure both.
            stack = exits.enter_context(running_stack(folder / "stack")) if name != "demo" else None
            if stack:
                stack.fleet.knobs = FleetKnobs(boot_delay_s=0.5, device_delay_s=0.5)
            for figure in BENCHMARKS[name][0](stack, folder):  # type: ignore[arg-type]
                figures.append(figure)
                print(f"{figure.figure:28} {figure.value:10g} {figure.unit:7} goal {figure.goal}: {figure.holds}")
    write(figures)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
