"""Fleets whose failure rates were published. What was not is ours, and stands as such in ``source``."""

from datetime import timedelta
from typing import Final

from cli.simulation.model import FaultClass, FleetModel, RollOut

_OURS: Final = (
    "Ours: false alarms, a bad roll-out on day 20 that makes 60 % of the nodes report a fault, spares, times."
)

LLAMA3_INTERRUPTIONS: Final = {
    "faulty gpu": 148,
    "gpu hbm3 memory": 72,
    "software bug": 54,
    "network switch or cable": 35,
    "host maintenance": 32,
    "gpu sram memory": 19,
    "gpu system processor": 17,
    "nic": 7,
    "nccl watchdog timeout": 7,
    "silent data corruption": 6,
    "gpu thermal interface and sensor": 6,
    "ssd": 3,
    "power supply": 3,
    "server chassis": 2,
    "io expansion board": 2,
    "dependency": 2,
    "cpu": 2,
    "system memory": 2,
}
"""The unexpected interruptions of 54 days of pre-training on 16,384 H100 (The Llama 3 Herd of Models, Meta, 2024,
arXiv 2407.21783, table 5). The counts add up to the 419 of the text; the 30.1 % that the table prints beside the 148 do
not fit them, so the counts are taken."""
LLAMA3_SOFTWARE: Final = frozenset({"software bug", "dependency"})
"""No machine stands behind them, and none is replaced for them."""
_LLAMA3_NODES: Final = 16_384 // 8
_LLAMA3_DAYS: Final = 54.0

RSC1_RATE: Final = 6.50
RSC2_RATE: Final = 2.34
"""Failures per thousand node-days of the two clusters (Kokolis et al., Revisiting Reliability in Large-Scale Machine
Learning Research Clusters, HPCA 2025, arXiv 2410.21680, its model of the mean time to failure). RSC-1's gives the 1.8 h
that the paper projects for 16,384 devices, and the 0.23 h for 131,072."""


def _llama3_faults() -> dict[str, FaultClass]:
    per_event = 1000 / _LLAMA3_NODES / _LLAMA3_DAYS
    return {
        cause: FaultClass(per_1000_node_days=round(count * per_event, 4))
        for cause, count in LLAMA3_INTERRUPTIONS.items()
        if cause not in LLAMA3_SOFTWARE
    }


PRESETS: Final = {
    "llama3-16k": FleetModel(
        source="Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100, 8 a node, by cause (The Llama 3 "
        "Herd of Models, Meta, 2024, arXiv 2407.21783, table 5), without the 56 of software, which no machine is "
        f"replaced for. {_OURS}",
        nodes=_LLAMA3_NODES + 64,
        spares=64,
        gang=_LLAMA3_NODES,
        days=_LLAMA3_DAYS,
        zones=1,
        faults=_llama3_faults(),
        false_alarms_per_1000_node_days=0.5,
        mistakes=(RollOut(day=20, share=0.6),),
        checkpoint_every=timedelta(minutes=20),
        restart=timedelta(minutes=5),
    ),
    "rsc1-16k": FleetModel(
        source="RSC-1, 16,000 A100: 6.50 failures per thousand node-days (Kokolis et al., Revisiting Reliability in "
        "Large-Scale Machine Learning Research Clusters, HPCA 2025, arXiv 2410.21680). Gangs of 64 nodes are ours too. "
        f"{_OURS}",
        nodes=2000,
        spares=16,
        gang=64,
        days=30,
        groups=10,
        zones=2,
        faults={"hardware": FaultClass(per_1000_node_days=RSC1_RATE)},
        false_alarms_per_1000_node_days=0.5,
        mistakes=(RollOut(day=20, share=0.6),),
    ),
    "rsc2-8k": FleetModel(
        source="RSC-2, 8,000 A100: 2.34 failures per thousand node-days (Kokolis et al., HPCA 2025). Gangs of 64 nodes "
        f"are ours too. {_OURS}",
        nodes=1000,
        spares=8,
        gang=64,
        days=30,
        groups=5,
        zones=2,
        faults={"hardware": FaultClass(per_1000_node_days=RSC2_RATE)},
        false_alarms_per_1000_node_days=0.5,
        mistakes=(RollOut(day=20, share=0.6),),
    ),
    "small": FleetModel(
        source="Ours: three node groups of 16, with the failure rates of Llama 3's run and one bad roll-out.",
        nodes=48,
        spares=0,
        gang=16,
        days=60,
        groups=3,
        zones=3,
        faults=_llama3_faults(),
        false_alarms_per_1000_node_days=1.0,
        mistakes=(RollOut(day=20, share=0.6),),
    ),
}
