"""A scorecard for people. Pure."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cli.judging.scoring import Scorecard
from cli.output import as_yaml
from contract.words import counted


def scorecard_view(card: Scorecard) -> RenderableType:
    """Rows by group and rule, then what they would allow."""
    head = f"{counted(card.reports, 'incident')}, {card.shadow} decided in shadow, {card.followed} of them followed."
    parts: list[RenderableType] = [Text(head, style="bold")]
    if card.rows:
        parts += [Text(), _rows(card), Text(), Text(card.threshold)]
    for proposal in card.proposals:
        entry = as_yaml({"groups": {proposal.group: proposal.change}}).rstrip()
        parts += [Text(), Text(f"{proposal.group}: {proposal.why}", style="green"), Text(entry)]
    parts += [Text(), *(Text(f"· {note}") for note in card.notes)]
    return Group(*parts)


def _rows(card: Scorecard) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("group", "rule"):
        table.add_column(title, overflow="fold")
    for title in ("decided", "followed", "agreed", "false kills", "avoided", "mild", "harsh", "hours saved"):
        table.add_column(title, justify="right")
    table.add_column("act?", overflow="fold")
    for row in card.rows:
        numbers = (
            row.decisions,
            row.followed,
            row.agreed,
            row.false_kills,
            row.false_kills_avoided,
            row.mild,
            row.harsh,
        )
        table.add_row(
            escape(row.group or "no group"),
            escape(row.rule),
            *map(str, numbers),
            f"{row.hours_saved:.1f}",
            f"{'earned' if row.earned else 'not yet'}: {escape(row.why)}",
        )
    return table
