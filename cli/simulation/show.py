"""What a simulation shows: a table, a line of the nodes at work, and a chart as plain SVG."""

from collections import deque
from collections.abc import Mapping
from html import escape
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.simulation.events import DAY_S
from cli.simulation.model import FleetModel
from cli.simulation.run import Result

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _MARGIN = 960, 320, 48
_COLOURS: Final = ("#c0392b", "#1f6fb2")


def table(model: FleetModel, results: Mapping[str, Result]) -> RenderableType:
    """One column for each way."""
    shown = Table(box=None, header_style="bold")
    shown.add_column("")
    for name in results:
        shown.add_column(name, justify="right")
    rows = {
        "effective training time": [f"{result.effective_training_time:.2%}" for result in results.values()],
        "interruptions of jobs": [str(result.interruptions) for result in results.values()],
        "nodes taken": [str(result.evictions) for result in results.values()],
        "of them healthy": [str(result.false_evictions) for result in results.values()],
        "most nodes out of work at once": [str(result.worst_loss) for result in results.values()],
    }
    for name, values in rows.items():
        shown.add_row(name, *values)
    least, width = min(map(_fewest, results.values())), max(map(len, results))
    lines = [
        Text(f"{name:>{width}} {_sparkline(result, model, least)}", overflow="crop", no_wrap=True)
        for name, result in results.items()
    ]
    return Group(shown, Text("\nNodes at work, the fewest of each stretch of time", style="bold"), *lines)


def chart(model: FleetModel, results: Mapping[str, Result]) -> str:
    """Nodes at work over the days, as SVG."""
    bins = _WIDTH - 2 * _MARGIN
    least = min(map(_fewest, results.values()))
    span = max(1, model.nodes - least)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_MARGIN}" y="20">Nodes at work ({model.nodes} in all, {model.days:g} days)</text>',
        f'<text x="4" y="{_MARGIN + 5}">{model.nodes}</text>',
        f'<text x="4" y="{_HEIGHT - _MARGIN}">{model.nodes - span}</text>',
    ]
    for index, (name, result) in enumerate(results.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        points = " ".join(
            f"{_MARGIN + place},{_MARGIN + (model.nodes - number) / span * (_HEIGHT - 2 * _MARGIN):.1f}"
            for place, number in enumerate(_binned(result, model, bins))
        )
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        words = f"{name}: {result.effective_training_time:.2%} effective, {result.false_evictions} healthy nodes taken"
        parts.append(f'<text x="{_MARGIN + index * 440}" y="{_HEIGHT - 12}" fill="{colour}">{escape(words)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _sparkline(result: Result, model: FleetModel, least: int, width: int = 60) -> str:
    span = max(1, model.nodes - least)
    bars = (_BARS[round((number - least) / span * (len(_BARS) - 1))] for number in _binned(result, model, width))
    return f"{''.join(bars)} at least {_fewest(result)}"


def _fewest(result: Result) -> int:
    return min(number for _, number in result.at_work)


def _binned(result: Result, model: FleetModel, bins: int) -> list[int]:
    """The fewest nodes at work in each of so many equal stretches, what it began with counted too."""
    width = model.days * DAY_S / bins
    shown: list[int] = []
    last, changes = model.nodes, deque(result.at_work)
    for place in range(bins):
        fewest = last
        while changes and changes[0][0] < (place + 1) * width:
            last = changes.popleft()[1]
            fewest = min(fewest, last)
        shown.append(fewest)
    return shown
