"""The incidents of a period as a page: by cause, time per step, and what was saved."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median_low
from typing import Final

from cli.pages.html import clock, day, document, duration, facts, minute, section, table, text
from cli.views import SETTLED
from contract.incident import IncidentReport
from contract.names import Step
from contract.words import counted

_LISTED_MAX: Final = 500
_BAR: Final = 220


def fleet_page(reports: Sequence[IncidentReport], since: datetime | None, now: datetime, left_out: int = 0) -> str:
    """The page. ``left_out``: records that could not be read."""
    newest = sorted(reports, key=lambda report: report.opened_at, reverse=True)
    clusters = ", ".join(sorted({report.cluster for report in reports})) or "no cluster"
    period = f"since {day(since)}" if since else "of all times"
    return document(
        f"Incidents of {clusters}",
        [
            f"<header><h1>Incidents of {text(clusters)}</h1>"
            f"<p>{counted(len(reports), 'incident')} {period}.</p></header>",
            "<main>",
            section("At a glance", _glance(reports)),
            section("By cause", _groups(reports, _cause, "Cause")),
            section("By node group", _groups(reports, _group, "Node group")),
            section("Time per step", _steps(reports)),
            section("What was saved", _saved(reports)),
            section("Incidents", _list(newest)),
            "</main>",
            f"<footer>Made {day(now)}. All times are UTC."
            + (
                f" {counted(left_out, 'record')} could not be read, and {'is' if left_out == 1 else 'are'} not counted."
                if left_out
                else ""
            )
            + "</footer>",
        ],
    )


def _glance(reports: Sequence[IncidentReport]) -> str:
    outcomes = Counter(str(report.outcome or report.phase) for report in reports)
    pairs = [("Outcomes", text(", ".join(f"{count} {name}" for name, count in outcomes.most_common()) or "none"))]
    repaired = _times(report for report in reports if report.outcome in SETTLED)
    if repaired:
        pairs.append(("Median time to the end", duration(median_low(repaired))))
        pairs.append(("Longest", duration(max(repaired))))
    pressed = sum(one.accepted for report in reports for one in report.overrides)
    by_hand = sum(any(one.accepted for one in report.overrides) for report in reports)
    pairs.append(("Needed a human's hand", f"{counted(by_hand, 'incident')}, {counted(pressed, 'override')}"))
    return facts(pairs)


def _groups(reports: Sequence[IncidentReport], of: Callable[[IncidentReport], str], head: str) -> str:
    found: dict[str, list[IncidentReport]] = defaultdict(list)
    for report in reports:
        found[of(report)].append(report)
    most = max(map(len, found.values()), default=1)
    rows = []
    for name, members in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        times = _times(members)
        well = sum(report.outcome in SETTLED for report in members)
        nodes = len({report.node for report in members})
        rows.append(
            [text(name), _bar(len(members), most), str(len(members)), str(nodes), str(well),
             duration(median_low(times)) if times else ""]
        )  # fmt: skip
    heads = (head, "", "Incidents", "Nodes", "Ended well", "Median time")
    return table(head, heads, rows, frozenset({2, 3, 4, 5})) if rows else ""


def _steps(reports: Sequence[IncidentReport]) -> str:
    took: dict[Step, list[timedelta]] = defaultdict(list)
    for report in reports:
        for step in report.steps:
            if step.ended_at:
                took[step.step].append(step.ended_at - step.started_at)
    longest = max((median_low(spans) for spans in took.values()), default=timedelta(seconds=1))
    rows = [
        [text(step), _bar(median_low(spans).total_seconds(), longest.total_seconds()), str(len(spans)),
         duration(median_low(spans)), duration(_high(spans)), duration(max(spans))]
        for step, spans in ((step, took[step]) for step in Step if step in took)
    ]  # fmt: skip
    heads = ("Step", "", "Times", "Median", "95 of 100", "Longest")
    return table("Time per step", heads, rows, frozenset({2, 3, 4, 5})) if rows else ""


def _saved(reports: Sequence[IncidentReport]) -> str:
    jobs = [one for report in reports for one in report.saved]
    if not jobs:
        return "<p>No job on these nodes had a checkpoint to ask for.</p>"
    known = [one for one in jobs if one.saved_steps is not None]
    seconds = sum(one.saved_accelerator_seconds or 0 for one in jobs)
    return facts(
        [
            ("Jobs", f"{len(jobs)}, of which {len(known)} told enough to compute what was saved"),
            ("Steps saved", f"{sum(one.saved_steps or 0 for one in known):,}"),
            ("Accelerator-hours saved", f"{seconds / 3600:,.1f}"),
            ("Steps lost", f"{sum(one.lost_steps or 0 for one in known):,}"),
        ]
    )


def _list(newest: Sequence[IncidentReport]) -> str:
    rows = [
        [text(report.node), minute(report.opened_at), text(report.outcome or report.phase), text(_cause(report)),
         duration(report.closed_at - report.opened_at) if report.closed_at else f"runs since {clock(report.opened_at)}",
         text(report.summary)]
        for report in newest[:_LISTED_MAX]
    ]  # fmt: skip
    heads = ("Node", "Opened", "Outcome", "Cause", "Took", "How it ended")
    more = f"<p>And {counted(len(newest) - _LISTED_MAX, 'older one')}.</p>" if len(newest) > _LISTED_MAX else ""
    return table("Incidents", heads, rows, frozenset({4})) + more if rows else "<p>There was none.</p>"


def _cause(report: IncidentReport) -> str:
    return report.findings[0].reason if report.findings else "no finding"


def _group(report: IncidentReport) -> str:
    return (report.identity.group if report.identity else None) or "no group"


def _times(reports: Iterable[IncidentReport]) -> list[timedelta]:
    return [report.closed_at - report.opened_at for report in reports if report.closed_at]


def _high(spans: Sequence[timedelta]) -> timedelta:
    return sorted(spans)[min(len(spans) - 1, int(0.95 * len(spans)))]


def _bar(value: float, most: float) -> str:
    """A bar beside its number: decoration, so a screen reader passes it by."""
    width = max(2.0, _BAR * value / most) if most else 2.0
    return (
        f'<svg class="running" viewBox="0 0 {_BAR} 14" style="width:{_BAR}px;max-width:30vw" aria-hidden="true">'
        f'<rect class="bar" width="{width:.1f}" height="14" rx="2"/></svg>'
    )
