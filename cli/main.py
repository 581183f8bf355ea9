"""`nodemend`: one command for operators and developers.

Heavy modules are imported by the command that needs them, so that ``--help`` answers at once.
"""

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from cli.errors import CommandError
from cli.local import app as local_app
from contract.names import ExitCode, OverrideName

EXIT_CODES: Final = f"""Exit codes: {ExitCode.OK} done · {ExitCode.FAILED} refused, or ended without a healthy node ·
{ExitCode.USAGE} wrong usage · {ExitCode.DATA} a file is not valid · {ExitCode.NO_INPUT} not found ·
{ExitCode.UNAVAILABLE} Temporal cannot be reached · {ExitCode.SOFTWARE} a fault of ours · {ExitCode.NO_PERMISSION}
refused credentials · {ExitCode.CONFIG} a setting is missing or wrong."""

app = typer.Typer(
    no_args_is_help=True,
    help="Repairs failing nodes of Kubernetes training fleets: durable, checkpoint-aware, with a complete record.",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(local_app, name="local", help="The embedded stack: Temporal, Kubernetes and AWS on this machine.")

T = TypeVar("T")


class Output(StrEnum):
    """Who reads it."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]
TargetArgument = Annotated[str, typer.Argument(help="A node's name, or an incident's id.")]


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up for looking around, until Ctrl-C.")] = False,
    fault: Annotated[str, typer.Option("--fault", help="Rule whose line is played; `list` names them.")] = "demo",
    real_kmsg: Annotated[
        bool, typer.Option("--real-kmsg", help="Write the line into /dev/kmsg (root); it is a drill then.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play one incident on the embedded stack, from a kernel line to a verified replacement."""
    from cli.demo import play

    _end(play(keep=keep, fault=fault, real_kmsg=real_kmsg, as_json=output is Output.JSON))


@app.command()
def work() -> None:
    """Run a worker until told to stop. Settings: NODEMEND_* and TEMPORAL_* (docs/operating.md)."""
    from worker.main import main as worker_main

    _end(worker_main())


@app.command()
def detect() -> None:
    """Run the detector of this node. Settings: NODEMEND_*, NODE_NAME and TEMPORAL_* (docs/detector.md)."""
    from detector.main import main as detector_main

    _end(detector_main())


@app.command()
def status(
    everything: Annotated[bool, typer.Option("--all", help="Closed incidents too.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List open incidents, and who waits for a permit."""

    async def ask() -> None:
        from cli.connection import cluster, connect
        from cli.incidents import newest, read_budget
        from cli.views import status_view

        client = await connect()
        found = [(handle.id, report) async for handle, report in newest(client, open_only=not everything)]
        budget = await read_budget(client, cluster())
        if output is Output.JSON:
            incidents = [{"incident_id": name, "report": _plain(report)} for name, report in found]
            _print_json({"incidents": incidents, "budget": _plain(budget)})
        else:
            _console().print(status_view(found, budget))

    _run(ask())


@app.command()
def watch(target: TargetArgument, output: OutputOption = Output.TABLE) -> None:
    """Follow an incident until it is closed. Ends with 0 when no broken node is left for a human, else with 1."""

    async def follow() -> int:
        from cli.connection import cluster, connect
        from cli.incidents import find
        from cli.live import follow_incident
        from cli.views import SETTLED

        client = await connect()
        handle = await find(client, cluster(), target)
        report = await follow_incident(handle, quiet=output is Output.JSON)
        if output is Output.JSON:
            _print_json(_plain(report))
        return ExitCode.OK if report.outcome in SETTLED else ExitCode.FAILED

    _end(_run(follow()))


@app.command()
def report(
    target: TargetArgument,
    file: Annotated[Path | None, typer.Option("--file", help="Write the report as JSON here.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the report of an incident, running or closed."""

    async def show() -> None:
        from cli.connection import cluster, connect
        from cli.incidents import find, read_report
        from cli.views import report_view

        client = await connect()
        handle = await find(client, cluster(), target)
        found = await read_report(handle)
        if found is None:
            raise CommandError(
                f"{handle.id} has no report yet: no worker has looked at it.",
                "Start a worker (`nodemend work`) and try again.",
                ExitCode.UNAVAILABLE,
            )
        if file:
            file.write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if output is Output.JSON:
            _print_json(_plain(found))
        else:
            _console().print(report_view(found))

    _run(show())


def _override(name: OverrideName, words: str) -> None:
    def command(
        target: TargetArgument,
        reason: Annotated[str, typer.Option("--reason", "-r", help="Why; it is in the record.")],
        by: Annotated[str, typer.Option("--by", help="Who; it is in the record.")] = os.environ.get("USER", ""),
        act: Annotated[str, typer.Option("--id", help="Identity of this act; the same id applies once.")] = "",
        output: OutputOption = Output.TABLE,
    ) -> None:
        async def press() -> None:
            from cli.connection import cluster, connect
            from cli.incidents import find
            from cli.pressing import press_override

            client = await connect()
            handle = await find(client, cluster(), target, open_only=True)
            answer = await press_override(handle, name, by=by, reason=reason, act=act)
            if output is Output.JSON:
                _print_json({"incident_id": handle.id, "override": name, "answer": answer})
            else:
                typer.echo(answer)

        _run(press())

    command.__doc__ = words
    app.command(name=str(name))(command)


_override(OverrideName.APPROVE, "Let an incident go past the approval it waits for.")
_override(OverrideName.HOLD, "Stop an incident before its next step.")
_override(OverrideName.RESUME, "Go on after a hold, or try a failed step again.")
_override(OverrideName.ABORT, "End an incident and leave the node quarantined.")
_override(OverrideName.RELEASE, "End an incident and give the node back as it was.")


def main() -> None:
    """Entry point. Whatever goes wrong ends in a sentence and an exit code."""
    try:
        app(standalone_mode=True)
    except CommandError as error:
        typer.echo(str(error), err=True)
        _end(error.code)


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except CommandError as error:
        typer.echo(str(error), err=True)
        _end(error.code)


def _end(code: int) -> NoReturn:
    """Leave without the interpreter's own tear-down, which the SDK's runtime may crash (temporalio #300)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _console() -> Any:
    from rich.console import Console

    return Console()


def _plain(document: Any) -> Any:
    return None if document is None else document.model_dump(mode="json")


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
