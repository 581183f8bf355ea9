"""A replayed capture for people: what was read, what was found, what would have been decided, and when. Pure."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cli.judging.decisions import Decision, Finding, When
from cli.judging.replay import Replayed
from contract.policy import Mode
from contract.words import counted

_ROWS_MAX: Final = 60
"""More rows than this help nobody on a terminal."""


def replay_view(played: Replayed) -> RenderableType:
    """The whole answer."""
    tally = played.tally
    others = "".join(
        f", {number} {name}"
        for number, name in (
            (tally.not_kernel, "by other programs"),
            (tally.unparsable, "unparsable"),
            (tally.truncated, "cut short"),
        )
        if number
    )
    head = (
        f"{counted(tally.lines, 'line')}, {counted(tally.records, 'kernel record')}{others}; "
        f"{tally.matched} taken for a fault by a rule. "
        f"{counted(played.boots, 'boot')}."
    )
    parts: list[RenderableType] = [Text(head, style="bold"), *(Text(f"· {note}") for note in played.notes), Text()]
    if not played.findings:
        return Group(*parts, Text("Nothing was found: no incident would have begun."))
    found = _table("found", "rule", "verdict", "times", "first", "last")
    for finding in islice(played.findings, _ROWS_MAX):
        found.add_row(*map(escape, _finding(finding)))
    parts += [found, *_more(len(played.findings)), Text()]
    for number, decision in enumerate(islice(played.decisions, _ROWS_MAX), start=1):
        parts.append(Text(f"Incident {number}: {_decision(decision)}"))
    parts += [*_more(len(played.decisions)), Text()]
    line = _table("when", "line", "what", "")
    for event in islice(played.timeline, _ROWS_MAX):
        line.add_row(moment(event.when), str(event.when.line), event.what, escape(event.says))
    return Group(*parts, line, *_more(len(played.timeline)))


def moment(when: When) -> str:
    """On the wall where the capture says so, else since boot."""
    if when.at is not None:
        return f"{when.at:%Y-%m-%d %H:%M:%S}"
    return f"boot {when.boot} +{when.since_boot_s:.1f} s"


def _finding(finding: Finding) -> tuple[str, ...]:
    drill = " (a drill)" if finding.drill else ""
    return (
        f"{finding.reason}{drill}",
        finding.rule,
        str(finding.verdict),
        str(finding.count),
        moment(finding.first),
        moment(finding.last),
    )


def _decision(decision: Decision) -> str:
    would = "" if decision.mode is Mode.ACT else f" in mode act (it is {decision.mode})"
    waits = "".join(
        f" The {permit.kind} would have waited: {permit.says}" for permit in decision.permits if not permit.granted
    )
    late = (
        f" {counted(decision.findings_after_replacement, 'finding')} after that would not have come."
        if decision.findings_after_replacement
        else ""
    )
    changed = (
        f", changed {'once' if decision.changed == 1 else f'{decision.changed} times'}" if decision.changed else ""
    )
    gate = f" {decision.gate}" if decision.gate else ""
    return (
        f"from {moment(decision.opened)}: {decision.plan.rung}{would}{changed}. {' '.join(decision.plan.reasons)}"
        f"{gate}{waits}{late} {decision.says}"
    )


def _more(number: int) -> Iterable[RenderableType]:
    if number > _ROWS_MAX:
        yield Text(f"… and {number - _ROWS_MAX} more. `--output json` has them.", style="yellow")


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
