"""What the demo shows at its end, on one screen: what was detected, decided and done, by whom, when, and the proof."""

import re
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cli.demo_faults import Fault
from cli.demo_proof import Claim
from cli.views import SETTLED, elapsed
from contract.incident import IncidentReport
from contract.names import Step

_BY: Final = {
    Step.ASSESS: "policy",
    Step.DISRUPT: "fleet budget",
    Step.AWAIT_REPLACEMENT: "Auto Scaling",
}
"""Whose doing a step is, where it is not the worker's own."""

_FOLDER: Final = re.compile(r"file://\S*/(?=[^/\s]+)")


def final_screen(report: IncidentReport, claims: Sequence[Claim]) -> RenderableType:
    """Everything about the incident, and every claim with what was read back."""
    done = Table.grid(padding=(0, 1))
    for style in ("dim", "cyan", "bold"):
        done.add_column(style=style, no_wrap=True)
    done.add_column(overflow="fold")
    for finding in report.findings[:2]:
        words = f"{finding.reason} by rule {finding.rule}, {finding.verdict}, data {finding.data}"
        done.add_row(f"{finding.first_seen:%H:%M:%S}", "detector", "detected", escape(words))
    for step in report.steps:
        what = escape(_short(step.summary, report))
        done.add_row(f"{step.started_at:%H:%M:%S}", _BY.get(step.step, "worker"), str(step.step), what)
    for override in report.overrides:
        done.add_row(f"{override.at:%H:%M:%S}", escape(override.by), override.name, escape(override.reason))
    proof = Table.grid(padding=(0, 1))
    proof.add_column(no_wrap=True)
    proof.add_column(overflow="fold")
    for claim in claims:
        mark = "[green]✓[/]" if claim.proven else "[red]✗[/]"
        proof.add_row(mark, f"{escape(claim.text)} [dim]({escape(_short(claim.read, report))})[/]")
    proven = all(claim.proven for claim in claims)
    good = proven and report.outcome in SETTLED
    lines = [Text(f"node     = {report.node}\ninstance = {report.instance_id}", style="dim")]
    if report.replacement_node:
        lines.append(Text(f"new node = {report.replacement_node} ({report.replacement_instance_id})", style="dim"))
    title = f"{report.outcome} after {elapsed(report.opened_at, report.closed_at)} (times in UTC)"
    heading = Text("Read back from Temporal, EC2, Auto Scaling, the API server and the disk:", style="bold")
    return Panel(Group(*lines, done, heading, proof), title=title, border_style="green" if good else "red")


def fault_list(known: Sequence[Fault]) -> Table:
    """The faults that can be played."""
    table = Table("Fault", "Verdict", "Ends as", "Line", box=None, header_style="bold")
    for fault in known:
        table.add_row(fault.rule, str(fault.verdict), str(fault.outcome), escape(fault.line))
    return table


def _short(text: str, report: IncidentReport) -> str:
    """Nodes by their host's name alone and files by theirs: the long ones, at the top, make two lines of each."""
    for name in (report.node, report.replacement_node):
        if name:
            text = text.replace(name, name.partition(".")[0])
    return _FOLDER.sub("…/", text)
