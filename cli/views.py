"""What people see on a terminal: tables and one live view. Pure functions from documents to what rich draws."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cli.incidents import LISTED_MAX, Listed
from contract import price
from contract.gates import GateRecord
from contract.incident import IncidentReport, StepStatus
from contract.names import Outcome, OverrideName, Phase, Step
from contract.permit import BudgetState
from contract.words import counted
from workflows.needs_human import command
from workflows.override_table import Stand, allowed

_MARKS: Final = {
    StepStatus.RUNNING: "[cyan]▶[/]",
    StepStatus.WAITING: "[yellow]⏸[/]",
    StepStatus.DONE: "[green]✓[/]",
    StepStatus.SHADOWED: "[blue]○[/]",
    StepStatus.SKIPPED: "[dim]–[/]",
    StepStatus.FAILED: "[red]✗[/]",
}

_COMMITTED: Final = (Step.AWAIT_REPLACEMENT, Step.VERIFY, Step.CLOSE)
_ROWS_MAX: Final = 100
"""More rows than this help nobody on a terminal."""
SETTLED: Final = frozenset(
    {
        Outcome.REPLACED,
        Outcome.REPAIRED,
        Outcome.OBSERVED,
        Outcome.SHADOWED,
        Outcome.STALE,
        Outcome.NODE_GONE,
        Outcome.RELEASED,
    }
)
"""Outcomes after which no broken node is left for a human."""


def elapsed(start: datetime, end: datetime | None = None) -> str:
    """A duration as people read it: ``7 s``, ``3 min 20 s``, ``2 h 5 min``."""
    seconds = max(0, int(((end or datetime.now(UTC)) - start) / timedelta(seconds=1)))
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def starting_view(incident_id: str, trouble: str = "", url: str = "") -> RenderableType:
    """An incident that no worker has looked at."""
    said = trouble or "No worker has looked at it yet. Start one with `nodemend work`."
    lines = [Text(said), *([_address(url)] if url else [])]
    return Panel(Group(*lines), title=escape(incident_id), border_style="red" if trouble else "yellow")


def incident_view(
    report: IncidentReport, waits: Sequence[str] = (), url: str = "", notes: Sequence[str] = ()
) -> RenderableType:
    """One incident: who, what it does, its steps, what it waits for, and what must be known about it."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(style="bold")
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold")
    for step in report.steps:
        table.add_row(
            _MARKS[step.status], str(step.step), elapsed(step.started_at, step.ended_at), escape(step.summary)
        )
    lines: list[RenderableType] = [Text.from_markup(_head(report)), table]
    if report.outcome is None and (cost := open_price(report)):
        lines.append(Text("\n".join(("What an approval costs:", *(f"  {line}" for line in cost))), style="yellow"))
    if waits and report.outcome is None:
        lines.append(Text("\n".join(f"  … {line}" for line in waits), style="cyan"))
    if report.phase is Phase.NEEDS_HUMAN and report.outcome is None:
        lines += [Text("You can type:", style="yellow"), _presses(report)]
    lines += [Text(note, style="red") for note in notes]
    if url:
        lines.append(_address(url))
    state = str(report.outcome or report.phase)
    title = f"{report.node} · {state} · {elapsed(report.opened_at, report.closed_at)}"
    return Panel(Group(*lines), title=title, border_style=_colour(report))


def _presses(report: IncidentReport) -> RenderableType:
    """Each command as it can be pasted, with what it does."""
    plan = report.gates[-1].plan if report.gates and report.gates[-1].passed_at is None else ""
    table = Table.grid(padding=(0, 2))
    # Whole, though it takes two lines: a command is there to be pasted.
    table.add_column(overflow="fold", style="yellow")
    table.add_column(overflow="fold", style="dim")
    for name, does in offered(report).items():
        table.add_row(f"  {escape(command(name, report.node, plan))}", does)
    return table


def offered(report: IncidentReport) -> dict[OverrideName, str]:
    """What an incident that waits for a human takes now and what it does, as far as its report tells."""
    step = report.steps[-1] if report.steps else None
    if report.gates and report.gates[-1].passed_at is None:
        stand = Stand.AT_GATE
    elif step and step.step in _COMMITTED:
        stand = Stand.COMMITTED_PARKED
    else:
        stand = Stand.PARKED_UNDECIDED if step and step.status is StepStatus.WAITING else Stand.PARKED
    return allowed(stand, step.step if step else None)


def open_price(report: IncidentReport) -> tuple[str, ...]:
    """The price of the approval that is waited for now; nothing where none is."""
    gate = report.gates[-1] if report.gates else None
    waits = gate is not None and gate.passed_at is None and report.phase is Phase.NEEDS_HUMAN
    return price.lines(gate.price) if gate and waits and gate.price else ()


def _gate(gate: GateRecord) -> str:
    people = f"{', '.join(gate.approved_by) or 'nobody'} ({len(gate.approved_by)} of {gate.approvals})"
    passed = f"passed {gate.passed_at:%H:%M:%S}" if gate.passed_at else "not passed"
    cost = f" {price.in_short(gate.price)}" if gate.price else ""
    return f"before {gate.before}, plan {gate.plan}: {people}, {passed}.{cost}"


def report_view(report: IncidentReport, url: str = "") -> RenderableType:
    """One screen about one incident: found, decided, done, by whom, when."""
    facts = Table.grid(padding=(0, 1))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    for finding in report.findings[:3]:
        times = f", {counted(finding.count, 'time')}" if finding.count > 1 else ""
        facts.add_row("found", escape(f"{finding.first_seen:%H:%M:%S} {finding.message}{times}"))
    if report.plan:
        plan = report.plan
        facts.add_row("decided", escape(f"{plan.rung} ({plan.confidence} confidence): {' '.join(plan.reasons)}"))
        weighed = (("for", plan.evidence_for), ("against", plan.evidence_against), ("unless", plan.would_change))
        for name, said in weighed:
            if said:
                facts.add_row(name, escape(" ".join(said)))
    for name, words in report.facts.items():
        facts.add_row(name, escape(words))
    for gate in report.gates:
        facts.add_row("approval", escape(_gate(gate)))
    for override in report.overrides:
        verdict = "" if override.accepted else f" (refused: {override.answer})"
        why = f", {override.reason}" if override.reason else ""
        facts.add_row("by hand", escape(f"{override.at:%H:%M:%S} {override.by}: {override.name}{why}{verdict}"))
    for note in report.notes:
        facts.add_row("note", escape(note))
    return Group(incident_view(report, url=url), facts)


def status_view(incidents: Sequence[Listed], budget: BudgetState | None) -> RenderableType:
    """Incidents and the budget; those that need a human come first."""
    by_need = sorted(incidents, key=lambda incident: _state(incident) != Phase.NEEDS_HUMAN)
    table = Table(box=None, header_style="bold")
    for title in ("Node", "Where", "State", "Since", "Step", "What it does"):
        # Whole, though it takes two lines: a name is there to be typed.
        table.add_column(title, overflow="fold")
    for incident in by_need[:_ROWS_MAX]:
        report = incident.report
        if report is None:
            said = "no worker has looked at it yet" if incident.is_open else "it left no report"
            table.add_row(incident.handle.id, "", _state(incident), "", "", said)
            continue
        table.add_row(
            report.node,
            escape(report.identity.place) if report.identity else "",
            f"[{_colour(report) if incident.is_open or report.outcome else 'red'}]{_state(incident)}[/]",
            elapsed(report.opened_at, report.closed_at),
            str(report.steps[-1].step) if report.steps else "",
            escape(report.summary),
        )
    lines: list[RenderableType] = [table if incidents else Text("No incidents.")]
    if len(incidents) > _ROWS_MAX:
        states = Counter(_state(incident) for incident in incidents).most_common()
        words = ", ".join(f"{count} {state}" for state, count in states)
        more = f"… and {len(incidents) - _ROWS_MAX} more ({words} in all). `--output json` has them."
        lines.append(Text(more, style="yellow"))
    if budget:
        waiting = "".join(f"\n  waits: {item.request.node}, {item.reason}" for item in budget.queue[:10])
        lines.append(Text(f"\nPermits: {len(budget.held)} out, {counted(len(budget.queue), 'waits', 'wait')}{waiting}"))
    else:
        lines.append(Text("\nPermits: unknown, for no worker answers or none was ever asked for.", style="dim"))
    if len(incidents) >= LISTED_MAX:
        lines.append(Text(f"The newest {LISTED_MAX} are shown; there are more.", style="yellow"))
    return Group(*lines)


def _state(incident: Listed) -> str:
    """In one word: how it stands, or how its workflow was ended from outside."""
    report = incident.report
    if report and report.outcome:
        return str(report.outcome)
    if not incident.is_open:
        return incident.status.name.lower() if incident.status else "ended"
    return str(report.phase) if report else "starting"


def _address(url: str) -> Text:
    """A page: whole, though it takes two lines, and one click where the terminal knows links."""
    return Text(url, style=f"dim link {url}", overflow="fold")


def _head(report: IncidentReport) -> str:
    identity = report.identity
    machine = (
        f"{identity.instance_id or identity.provider_id} in {identity.place}" if identity else "not identified yet"
    )
    return f"[bold]{escape(report.summary)}[/]\n[dim]{escape(machine)}[/]"


def _colour(report: IncidentReport) -> str:
    if report.outcome is None:
        return "yellow" if report.phase is Phase.NEEDS_HUMAN else "cyan"
    return "green" if report.outcome in SETTLED else "red"
