"""Fleets whose failure rates were published. What was not is ours, and stands as such in ``source``."""

from datetime import timedelta
from typing import Final

from cli.simulation.model import FaultClass, FleetModel, RollOut

_OURS: Final = (
    "Ours: false alarms, a bad roll-out on day 20 that makes 60 % of the nodes report a fault, spares, times."
)


def _rate(events: float, nodes: int, days: float) -> float:
    return round(events / nodes / days * 1000, 4)


_LLAMA: Final = 2048, 54.0

PRESETS: Final = {
    "llama3-16k": FleetModel(
        source="Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100 (8 a node), by cause (The Llama 3 "
        f"Herd of Models, Meta 2024, table of root causes). {_OURS}",
        nodes=2048 + 64,
        spares=64,
        gang=2048,
        days=54,
        zones=1,
        faults={
            "gpu": FaultClass(per_1000_node_days=_rate(148, *_LLAMA)),
            "hbm": FaultClass(per_1000_node_days=_rate(72, *_LLAMA)),
            "gpu sram and processor": FaultClass(per_1000_node_days=_rate(19 + 17, *_LLAMA)),
            "network": FaultClass(per_1000_node_days=_rate(35, *_LLAMA)),
            "other": FaultClass(per_1000_node_days=_rate(419 - 148 - 72 - 19 - 17 - 35, *_LLAMA)),
        },
        false_alarms_per_1000_node_days=0.5,
        mistakes=(RollOut(day=20, share=0.6),),
        checkpoint_every=timedelta(minutes=20),
        restart=timedelta(minutes=5),
    ),
    "rsc1-16k": FleetModel(
        source="RSC-1, 16,000 A100: 6.50 failures per thousand node-days (Kokolis et al., Revisiting Reliability in "
        f"Large-Scale Machine Learning Research Clusters, 2024). Gangs of 64 nodes are ours too. {_OURS}",
        nodes=2000,
        spares=16,
        gang=64,
        days=30,
        groups=10,
        zones=2,
        faults={"hardware": FaultClass(per_1000_node_days=6.5)},
        false_alarms_per_1000_node_days=0.5,
        mistakes=(RollOut(day=20, share=0.6),),
    ),
    "rsc2-8k": FleetModel(
        source="RSC-2, 8,000 A100: 2.34 failures per thousand node-days (Kokolis et al., 2024). Gangs of 64 nodes are "
        f"ours too. {_OURS}",
        nodes=1000,
        spares=8,
        gang=64,
        days=30,
        groups=5,
        zones=2,
        faults={"hardware": FaultClass(per_1000_node_days=2.34)},
        false_alarms_per_1000_node_days=0.5,
        mistakes=(RollOut(day=20, share=0.6),),
    ),
    "small": FleetModel(
        source="Ours: three node groups of 16, with the failure rate of Llama 3's run and one bad roll-out.",
        nodes=48,
        spares=0,
        gang=16,
        days=60,
        groups=3,
        zones=3,
        faults={"hardware": FaultClass(per_1000_node_days=_rate(419, *_LLAMA))},
        false_alarms_per_1000_node_days=1.0,
        mistakes=(RollOut(day=20, share=0.6),),
    ),
}
