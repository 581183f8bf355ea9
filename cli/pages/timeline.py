"""The steps of an incident over time, as SVG: one bar each, and what humans pressed above them."""

from datetime import datetime, timedelta
from typing import Final

from cli.pages.html import duration, text
from contract.incident import IncidentReport, StepStatus
from contract.words import counted

_WIDTH: Final = 900
_NAMES: Final = 150
"""Width of the names on the left."""
_TIMES: Final = 140
"""Width of the durations on the right, and of the state where it is not the usual one: colour alone tells too few."""
_ROW: Final = 24
_TOP: Final = 34
_LEAST: Final = 3.0
"""Width of a step that took no time: it is there to be seen."""
_TICKS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800)
)


def timeline(report: IncidentReport, now: datetime) -> str:
    """The picture; empty where no step has begun. ``now``: until when what still runs is drawn."""
    if not report.steps:
        return ""
    start, end = report.opened_at, report.closed_at or now
    span = max((end - start).total_seconds(), 0.001)
    height = _TOP + _ROW * len(report.steps) + 8
    room = _WIDTH - _NAMES - _TIMES

    def place(moment: datetime) -> float:
        return _NAMES + room * min(1.0, max(0.0, (moment - start).total_seconds() / span))

    longest = max(report.steps, key=lambda step: (step.ended_at or end) - step.started_at)
    told = (
        f"{counted(len(report.steps), 'step')} in {duration(end - start)}. The longest is {longest.step} with "
        f"{duration((longest.ended_at or end) - longest.started_at)}. The table of the steps has the same in numbers."
    )
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="timeline-title timeline-words">',
        f'<title id="timeline-title">Timeline of {text(report.incident_id)}</title>',
        f'<desc id="timeline-words">{text(told)}</desc>',
    ]
    tick = next((tick for tick in _TICKS if span / tick.total_seconds() <= 8), _TICKS[-1])
    for number in range(int(span / tick.total_seconds()) + 1):
        x = place(start + number * tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP - 10}" x2="{x:.1f}" y2="{height - 6}"/>')
        label = "0" if number == 0 else _short(number * tick)
        parts.append(f'<text class="soft" x="{x:.1f}" y="{_TOP - 16}" text-anchor="middle">{label}</text>')
    for row, step in enumerate(report.steps):
        y = _TOP + row * _ROW
        took = (step.ended_at or end) - step.started_at
        left, right = place(step.started_at), place(step.ended_at or end)
        words = f"{step.step}: {step.status}, {duration(took)}. {step.summary}"
        beside = duration(took) if step.status is StepStatus.DONE else f"{step.status}, {duration(took)}"
        parts.append(
            f'<g class="{step.status}"><title>{text(words)}</title>'
            f'<text x="{_NAMES - 12}" y="{y + 14}" text-anchor="end">{text(step.step)}</text>'
            f'<rect class="bar" x="{left:.1f}" y="{y + 3}" width="{max(_LEAST, right - left):.1f}" height="{_ROW - 8}" '
            f'rx="2"/><text class="soft" x="{_WIDTH}" y="{y + 14}" text-anchor="end">{text(beside)}</text></g>'
        )
    for press in report.overrides:
        x, what = place(press.at), f"{press.by}: {press.name}{'' if press.accepted else ' (refused)'}, {press.reason}"
        parts.append(f'<path class="press" d="M{x:.1f} {_TOP - 2} l5 -7 h-10 z"><title>{text(what)}</title></path>')
    return "\n".join([*parts, "</svg>"])


def _short(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds // 60} min {seconds % 60} s" if seconds > 60 else f"{seconds} s"
