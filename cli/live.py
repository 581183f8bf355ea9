"""Following one incident: redrawn in place on a terminal, line by line elsewhere."""

import asyncio
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from cli.incidents import Handle, pending, read_report
from cli.views import incident_view
from contract.incident import IncidentReport

_LOOK_EVERY_S: Final = 0.4


async def follow_incident(
    handle: Handle, *, url: str = "", quiet: bool = False, until_parked: bool = False
) -> IncidentReport:
    """Show an incident until it is closed, and return its last report.

    Args:
        handle: the incident.
        url: its page in the Temporal UI, shown under it.
        quiet: show nothing.
        until_parked: return as well when it waits for a human.
    """
    console = Console(quiet=quiet)
    with Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else _Lines(console) as live:
        while True:
            report = await read_report(handle)
            if report is not None:
                live.update(incident_view(report, await pending(handle), url), refresh=True)
                if isinstance(live, _Lines):
                    live.tell(report)
                if report.outcome or (until_parked and report.phase == "needs-human"):
                    return report
            await asyncio.sleep(_LOOK_EVERY_S)


class _Lines:
    """Where nothing can be redrawn: one line whenever the incident says something new."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = ""

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to give back."""

    def update(self, _view: object, *, refresh: bool) -> None:
        """A picture is of no use here."""

    def tell(self, report: IncidentReport) -> None:
        """Print what is new."""
        step = report.steps[-1].step if report.steps else "start"
        line = f"{step}: {report.summary}"
        if line != self._told:
            self._told = line
            age = (max(s.ended_at or s.started_at for s in report.steps) - report.opened_at) if report.steps else None
            seconds = f"{age.total_seconds():6.1f} s" if age else "   0.0 s"
            self._console.print(f"{seconds}  {escape(line)}", soft_wrap=True)
