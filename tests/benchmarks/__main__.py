"""``make bench``: all benchmarks, or those named (``make bench ONLY=latency``, or a figure's name).

``make bench ONLY=detector PEER='command'`` measures another agent beside the detector.
"""

import argparse
import functools
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from deploy.local.fleet import FleetKnobs
from deploy.local.stack import Stack, running_stack
from tests.benchmarks import (
    admission,
    checkpoint,
    demo,
    detector,
    drain,
    footprint,
    history,
    latency,
    operators,
    replacement,
    storm,
    watch_cluster,
)
from tests.benchmarks.figures import Figure, write

Measure = Callable[[Stack, Path], Iterator[Figure]]

BENCHMARKS: dict[str, tuple[Measure, tuple[str, ...]]] = {
    "admission": (admission.measure, ("admission_10000_nodes_1000_requests_ms",)),  # type: ignore[dict-item]
    "checkpoint": (
        checkpoint.measure,
        (
            "checkpoint_lost_steps_without",
            "checkpoint_lost_steps_with",
            "checkpoint_time_added_s",
            "checkpoint_requests_per_gang",
        ),
    ),
    "demo": (demo.measure, ("warm_demo_s",)),  # type: ignore[dict-item]
    "detector": (detector.measure, ("detector_rss_idle_mib",)),
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
    "footprint": (footprint.measure, ("idle_api_calls_per_node_hour", "worker_parked_1000_rss_mib")),
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
    "operators": (
        operators.measure,
        (
            "details_quiet_bytes",
            "memo_quiet_bytes",
            "history_quiet_events",
            "history_quiet_kib",
            "details_stormy_bytes",
            "memo_stormy_bytes",
            "history_stormy_events",
            "history_stormy_kib",
            "override_to_effect_p99_s",
            "status_1000_open_s",
        ),
    ),
    "watch-cluster": (
        watch_cluster.measure,
        (
            "watch_cluster_sync_cpu_s",
            "watch_cluster_idle_cpu_percent",
            "watch_cluster_heartbeats_cpu_percent",
            "condition_to_workflow_p50_s",
            "condition_to_workflow_p99_s",
            "watch_cluster_rss_mib",
        ),
    ),
    "storm": (
        storm.measure,  # type: ignore[dict-item]
        (
            "storm_1000_nodes_decided_s",
            "storm_1000_nodes_floor_s",
            "storm_over_floor",
            "storm_1000_nodes_per_s",
            "storm_cpu_ms_per_node",
            "storm_permits_over_limit",
            "storm_growth_100_to_1000",
            "storm_budget_history_events",
            "storm_budget_history_kib",
        ),
    ),
    "replacement": (
        replacement.measure,
        (
            "replacement_overhead_s",
            "aws_calls_per_incident",
            "aws_calls_per_100_at_once",
            "incidents_failed_of_100_at_once",
        ),
    ),
    "replacement-faults": (
        replacement.measure_under_faults,
        ("double_replacements", "incidents_failed_under_faults"),
    ),
}


WITHOUT_STACK = ("admission", "demo", "detector", "operators", "storm", "watch-cluster")
"""They bring what they need, or are to be measured alone."""


def main(arguments: list[str]) -> int:
    """Run them, print and write the figures. Returns 1 when a goal does not hold."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("only", nargs="*", help="benchmarks or figures; all without")
    parser.add_argument("--peer", default="", help="command of another agent that reads /dev/kmsg")
    options = parser.parse_args(arguments)
    wanted = options.only
    chosen = [name for name, (_, figures) in BENCHMARKS.items() if not wanted or {name, *figures} & set(wanted)]
    if not chosen:
        print(f"No benchmark is called {', '.join(wanted)}. There are: {', '.join(BENCHMARKS)}, or a figure's name.")
        return 2
    figures: list[Figure] = []
    for name in chosen:
        with ExitStack() as exits:
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="nodemend-bench-")))
            stack = exits.enter_context(running_stack(folder / "stack")) if name not in WITHOUT_STACK else None
            if stack:
                stack.fleet.knobs = FleetKnobs(boot_delay_s=0.5, device_delay_s=0.5)
            run = BENCHMARKS[name][0]
            if name == "detector":
                run = functools.partial(detector.measure, peer=options.peer)
            for figure in run(stack, folder):  # type: ignore[arg-type]
                figures.append(figure)
                print(f"{figure.figure:28} {figure.value:10g} {figure.unit:7} goal {figure.goal}: {figure.holds}")
    write(figures)
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
