"""What befalls the fleet: drawn once from the seed, the same for every policy that is compared."""

import random
from dataclasses import dataclass
from datetime import timedelta

from cli.simulation.model import FleetModel

DAY_S = 86_400.0
FALSE_ALARM = "false alarm"


@dataclass(frozen=True, order=True)
class Befalls:
    """A report about one node."""

    at_s: float
    node: int
    fault: str
    real: bool
    kills: bool


def mistake_name(number: int) -> str:
    """What the reports of a mistake say."""
    return f"mistake {number + 1}"


def draw(model: FleetModel, seed: int) -> list[Befalls]:
    """All reports of the run, in order."""
    source = random.Random(seed)  # noqa: S311 - a simulation is no secret
    found: list[Befalls] = []
    kinds = [(name, kind.per_1000_node_days, True, kind.kills) for name, kind in sorted(model.faults.items())]
    for name, rate, real, kills in [*kinds, (FALSE_ALARM, model.false_alarms_per_1000_node_days, False, False)]:
        per_second = rate / 1000 * model.nodes / DAY_S
        at = source.expovariate(per_second) if per_second else float("inf")
        while at < model.days * DAY_S:
            found.append(Befalls(at, source.randrange(model.nodes), name, real, kills))
            at += source.expovariate(per_second)
    for number, mistake in enumerate(model.mistakes):
        spread = mistake.within / timedelta(seconds=1)
        for node in source.sample(range(model.nodes), round(mistake.share * model.nodes)):
            at = mistake.day * DAY_S + source.uniform(0, spread)
            if at < model.days * DAY_S:
                found.append(Befalls(at, node, mistake_name(number), real=False, kills=False))
    return sorted(found)
