"""Following one incident: redrawn in place on a terminal, line by line elsewhere."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from cli.errors import CommandError
from cli.incidents import Handle
from cli.looking import Look, look
from cli.views import incident_view, starting_view
from contract.names import ExitCode, Phase

_LOOK_EVERY_S: Final = 0.4
_AWAY_FOR_S: Final = 60.0
"""How long Temporal may be away before following gives up."""
_AWAY: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        # What a connection that is cut looks like: "operation was canceled", "transport error".
        RPCStatusCode.CANCELLED,
        RPCStatusCode.UNKNOWN,
    }
)


async def follow_incident(
    handle: Handle,
    *,
    url: str = "",
    quiet: bool = False,
    until_parked: bool = False,
    alive: Callable[[], bool] = lambda: True,
) -> Look:
    """Show an incident until it is over, and return the last look at it.

    Args:
        handle: the incident. Where it is reset meanwhile, the run that goes on is followed.
        url: its page in the Temporal UI, shown under it.
        quiet: show nothing.
        until_parked: return as well when it waits for a human.
        alive: return as well when this says no.

    Raises:
        CommandError: Temporal was away for a minute.
        RPCError: Temporal refuses, or does not have it any more.
    """
    console = Console(quiet=quiet)
    seen_at, away = time.monotonic(), False
    with Live(console=console, auto_refresh=False) if console.is_terminal else _Lines(console) as shown:
        while True:
            try:
                now = await look(handle)
            except RPCError as error:
                if error.status not in _AWAY:
                    raise
                if time.monotonic() - seen_at > _AWAY_FOR_S:
                    raise CommandError(
                        f"Temporal has not answered for {_AWAY_FOR_S:.0f} s: {error.message}.",
                        f"The incident does not depend on it being watched. Later: `nodemend watch {handle.id}`.",
                        ExitCode.UNAVAILABLE,
                    ) from error
                if not away:
                    away = True
                    console.print(f"Temporal does not answer. Looking again, for {_AWAY_FOR_S:.0f} s at most.")
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            seen_at, away = time.monotonic(), False
            if now.over and (next_run := await _next_run(handle, now)):
                handle = next_run
                continue
            shown.update(_view(now, url), refresh=True)
            if isinstance(shown, _Lines):
                shown.tell(now)
            parked = until_parked and now.report is not None and now.report.phase is Phase.NEEDS_HUMAN
            if now.over or parked or not alive():
                return now
            await asyncio.sleep(_LOOK_EVERY_S)


async def _next_run(handle: Handle, now: Look) -> Handle | None:
    """The run that goes on after a *Reset*, which terminates the one before."""
    if now.status is not WorkflowExecutionStatus.TERMINATED:
        return None
    latest = await handle._client.get_workflow_handle(handle.id).describe()
    if latest.run_id == handle.run_id or latest.status is not WorkflowExecutionStatus.RUNNING:
        return None
    return handle._client.get_workflow_handle(handle.id, run_id=latest.run_id, result_type=handle._result_type)


def _view(now: Look, url: str) -> RenderableType:
    if now.report is None:
        return starting_view(now.incident_id, now.trouble, url)
    notes = [now.trouble] if now.trouble else []
    if not now.answered and not now.over:
        notes.append("No worker answers; this was noted last. Start one with `nodemend work`.")
    return incident_view(now.report, now.waits, url, notes)


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

    def tell(self, now: Look) -> None:
        """Print what is new."""
        age, line = "", "start: no worker has looked at it yet; start one with `nodemend work`."
        if now.report:
            step = now.report.steps[-1].step if now.report.steps else "start"
            line = f"{step}: {now.report.summary}"
            moments = [step.ended_at or step.started_at for step in now.report.steps]
            age = f"{((max(moments) if moments else now.report.opened_at) - now.report.opened_at).total_seconds():6.1f}"
        if now.trouble:
            line = now.trouble
        if line != self._told:
            self._told = line
            self._console.print(f"{age or '   0.0'} s  {escape(line)}", soft_wrap=True, highlight=False)
