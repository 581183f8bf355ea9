"""`nodemend`: one command for operators and developers.

Heavy modules are imported by the command that needs them, so that ``--help`` answers at once.
"""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from cli.errors import INTERRUPTED, CommandError
from contract.names import ExitCode, OverrideName

EXIT_CODES: Final = f"""Exit codes: {ExitCode.OK} done · {ExitCode.FAILED} refused, or ended without a healthy node ·
{ExitCode.USAGE} wrong usage, or it fits several incidents · {ExitCode.DATA} a file is not valid ·
{ExitCode.NO_INPUT} not found · {ExitCode.UNAVAILABLE} Temporal cannot be reached · {ExitCode.SOFTWARE} a fault of
ours · {ExitCode.NO_PERMISSION} refused credentials · {ExitCode.CONFIG} a setting is missing or wrong · {INTERRUPTED}
stopped by Ctrl-C."""

app = typer.Typer(
    no_args_is_help=True,
    help="Repairs failing nodes of Kubernetes training fleets: durable, checkpoint-aware, with a complete record.",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PASS_ON: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
"""What follows is somebody else's to read, `--help` too."""

T = TypeVar("T")


class Output(StrEnum):
    """Who reads it."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]
TargetArgument = Annotated[str, typer.Argument(help="A node's name, or an incident's id.")]


@app.command(epilog=EXIT_CODES)
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up for looking around, until Ctrl-C.")] = False,
    fault: Annotated[str, typer.Option("--fault", help="Rule whose line is played; `list` shows them.")] = "demo",
    real_kmsg: Annotated[
        bool, typer.Option("--real-kmsg", help="Write the line into /dev/kmsg (root); it is a drill then.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play one incident on the embedded stack, from a kernel line to a verified replacement."""
    from cli.demo import play

    _end(play(keep=keep, fault=fault, real_kmsg=real_kmsg, as_json=output is Output.JSON))


@app.command(epilog=EXIT_CODES)
def work() -> None:
    """Run a worker until told to stop. Settings: NODEMEND_* and TEMPORAL_* (docs/operating.md)."""
    from worker.main import main as worker_main

    _end(worker_main())


@app.command(epilog=EXIT_CODES)
def detect() -> None:
    """Run the detector of this node. Settings: NODEMEND_*, NODE_NAME and TEMPORAL_* (docs/detector.md)."""
    from detector.main import main as detector_main

    _end(detector_main())


@app.command(epilog=EXIT_CODES)
def status(
    everything: Annotated[bool, typer.Option("--all", help="Closed incidents too.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List open incidents, and who waits for a permit."""

    async def ask() -> None:
        from cli.connection import cluster, connect
        from cli.incidents import listed, read_budget
        from cli.views import status_view

        name = cluster()
        client = await connect()
        # Side by side: without workers the budget takes seconds not to answer.
        asking = asyncio.create_task(read_budget(client, name), name="ask-budget")
        found = [incident async for incident in listed(client, name, open_only=not everything)]
        budget = await asking
        if output is Output.JSON:
            incidents = [
                {
                    "incident_id": incident.handle.id,
                    "run_id": incident.handle.run_id,
                    "status": incident.status.name.lower() if incident.status else None,
                    "report": _plain(incident.report),
                }
                for incident in found
            ]
            _print_json({"incidents": incidents, "budget": _plain(budget)})
        else:
            _console().print(status_view(found, budget))

    _run(ask())


@app.command(epilog=EXIT_CODES)
def watch(target: TargetArgument, output: OutputOption = Output.TABLE) -> None:
    """Follow an incident until it is over. Ends with 0 when no broken node is left for a human, else with 1.

    0: replaced, observed, shadowed, stale, node-gone, released. 1: replaced-unverified, refused, vetoed, aborted, or
    the workflow was ended from outside. 130 after Ctrl-C, which stops the looking and not the incident.
    """

    async def follow() -> int:
        from cli.connection import cluster, connect, page_of
        from cli.incidents import find
        from cli.live import follow_incident
        from cli.views import SETTLED

        name = cluster()
        client = await connect()
        handle = await find(client, name, target)
        last = await follow_incident(handle, url=page_of(client, handle.id), quiet=output is Output.JSON)
        if output is Output.JSON:
            _print_json(_plain(last.report))
        if last.trouble:
            typer.echo(last.trouble, err=True)
        settled = last.report is not None and last.report.outcome in SETTLED
        return ExitCode.OK if settled else ExitCode.FAILED

    _end(_run(follow()))


@app.command(epilog=EXIT_CODES)
def report(
    target: TargetArgument,
    file: Annotated[Path | None, typer.Option("--file", help="Write the report as JSON here.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the report of an incident, running or closed."""

    async def show() -> None:
        from cli.connection import cluster, connect, page_of
        from cli.incidents import find
        from cli.looking import look
        from cli.views import report_view

        name = cluster()
        client = await connect()
        handle = await find(client, name, target)
        seen = await look(handle)
        if seen.report is None:
            raise CommandError(
                f"{handle.id} has no report: {seen.trouble or 'no worker has looked at it yet.'}",
                "Its history is in the Temporal UI."
                if seen.over
                else "Start a worker (`nodemend work`) and try again.",
                ExitCode.FAILED if seen.over else ExitCode.UNAVAILABLE,
            )
        if file:
            _write(file, seen.report.model_dump_json(indent=2) + "\n")
        if output is Output.JSON:
            _print_json(_plain(seen.report))
        else:
            _console().print(report_view(seen.report, page_of(client, handle.id)))
        if seen.trouble:
            typer.echo(seen.trouble, err=True)

    _run(show())


@app.command(epilog=EXIT_CODES)
def history(
    key: Annotated[str, typer.Argument(help="A node, an instance, a host or a serial number; all without.")] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Of the workers.", envvar="NODEMEND_NAMESPACE")
    ] = "default",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show machines that failed, as the cluster remembers them across incidents. Needs the cluster (KUBECONFIG)."""
    from temporalio.exceptions import ApplicationError

    from cli.history import history_view, remembered
    from contract.names import ErrorType
    from worker.errors import StartError

    try:
        machines = remembered(key, namespace)
    except StartError as error:
        raise CommandError(str(error), "", error.code) from error
    except ApplicationError as error:
        denied = error.type == ErrorType.ACCESS_DENIED
        code = ExitCode.NO_PERMISSION if denied else ExitCode.UNAVAILABLE
        raise CommandError(error.message, "Check KUBECONFIG and your rights on ConfigMaps.", code) from error
    if output is Output.JSON:
        _print_json([_plain(machine) for machine in machines])
    else:
        _console().print(history_view(machines, key, namespace))


@app.command(add_help_option=False, context_settings=_PASS_ON)
def local(context: typer.Context) -> None:
    """The embedded stack: Temporal, Kubernetes and AWS on this machine."""
    # Mounted only here: it brings the SDKs of Kubernetes and AWS, which cost every other command half a second.
    from cli.local import app as local_app

    local_app(args=context.args, prog_name="nodemend local")


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

            cluster_name = cluster()
            client = await connect()
            handle = await find(client, cluster_name, target, open_only=True)
            pressed = await press_override(handle, name, by=by, reason=reason, act=act)
            if output is Output.JSON:
                _print_json(
                    {
                        "incident_id": handle.id,
                        "override": name,
                        "answer": pressed.answer,
                        "applied": pressed.applied,
                    }
                )
            else:
                typer.echo(f"{handle.id}: {pressed.answer}")

        _run(press())

    command.__doc__ = words
    app.command(name=str(name), epilog=EXIT_CODES)(command)


_override(OverrideName.APPROVE, "Let an incident go past the approval it waits for.")
_override(OverrideName.HOLD, "Stop an incident before its next step.")
_override(OverrideName.RESUME, "Go on after a hold, or try a failed step again.")
_override(OverrideName.ABORT, "End an incident and leave the node quarantined.")
_override(OverrideName.RELEASE, "End an incident and give the node back as it was.")


def main() -> None:
    """Entry point. Whatever goes wrong ends in a sentence and an exit code."""
    code: int = ExitCode.SOFTWARE
    try:
        app(standalone_mode=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else ExitCode.OK if end.code is None else ExitCode.FAILED
    except CommandError as error:
        typer.echo(str(error), err=True)
        code = error.code
    except Exception as error:
        typer.echo(
            f"A fault of ours stopped the command: {type(error).__name__}: {error}\n"
            "Please report it, with what NODEMEND_DEBUG=1 shows in addition.",
            err=True,
        )
        if os.environ.get("NODEMEND_DEBUG"):
            traceback.print_exc()
    # Every way out, for the SDK's runtime may crash in the interpreter's own tear-down.
    _end(code)


def _run(work: Coroutine[Any, Any, T]) -> T:
    from temporalio.service import RPCError

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        typer.echo("Stopped looking. Incidents go on.", err=True)
        _end(INTERRUPTED)
    except RPCError as error:
        from cli.connection import explained

        raise explained(error) from error


def _end(code: int) -> NoReturn:
    """Leave without the interpreter's own tear-down, which the SDK's runtime may crash (temporalio #300)."""
    for stream in (sys.stdout, sys.stderr):
        # The reader of a pipe may have left, as `head` does.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"--file: {file} cannot be written: {error.strerror}.",
            "Name a file in a folder of yours.",
            ExitCode.NO_INPUT,
        ) from error


def _console() -> Any:
    from rich.console import Console

    return Console()


def _plain(document: Any) -> Any:
    return None if document is None else document.model_dump(mode="json")


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
