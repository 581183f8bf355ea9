"""``nodemend local``: the embedded stack, built, started, looked at and stopped by hand.

What it prints on standard output is for machines (JSON, or lines that a shell evaluates); what it says to people goes
to standard error.
"""

import dataclasses
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.output import as_yaml
from contract.names import ExitCode
from deploy.local import build as building
from deploy.local import daemon
from deploy.local.errors import StackError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="The embedded stack: Temporal, Kubernetes and AWS on this machine. "
    f"Exit codes: {ExitCode.OK} done, {ExitCode.UNAVAILABLE} a part could not be had or nothing runs, "
    f"{ExitCode.CONFIG} this machine or its settings do not allow it.",
)


class Output(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="text for people and shells; json or yaml for programs.")
]
StateDirOption = Annotated[
    Path | None,
    typer.Option("--state-dir", help="Folder of the stack; each folder is a stack of its own.", show_default=False),
]


@app.command()
def build(output: OutputOption = Output.TEXT) -> None:
    """Build the Kubernetes control plane and Helm into the user's cache: about six minutes on two cores, once."""
    with _errors_told():
        programs = building.build(_say)
        helm = building.build_helm(_say)
    paths = {name: str(path) for name, path in dataclasses.asdict(programs).items()} | {"helm": str(helm)}
    if output is not Output.TEXT:
        _print(paths, output)
    else:
        _say(f"The control plane is in {programs.etcd.parent}.")


@app.command()
def up(
    state_dir: StateDirOption = None,
    scene: Annotated[
        bool, typer.Option("--scene", help="Put the demo's six nodes and the work on them into it.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Start the stack, leave it running, and print its environment: `eval "$(nodemend local up)"`."""
    with _errors_told():
        running = daemon.start(state_dir or daemon.default_state_dir(), scene=scene, progress=_say)
    if output is not Output.TEXT:
        _print(dataclasses.asdict(running), output)
        return
    for name, value in running.environment.items():
        typer.echo(f"export {name}={shlex.quote(value)}")
    _say(f"Temporal UI: {running.ui_url}")
    _say(f"Stop it with: nodemend local down{_option(state_dir)}")


@app.command()
def status(state_dir: StateDirOption = None, output: OutputOption = Output.TEXT) -> None:
    """Say whether the stack runs and which parts answer. Exit code 0 only if all do."""
    running = daemon.find((state_dir or daemon.default_state_dir()).absolute())
    if running is None:
        if output is not Output.TEXT:
            _print({"running": False}, output)
        else:
            _say(f"No stack runs here. Start one with: nodemend local up{_option(state_dir)}")
        raise typer.Exit(ExitCode.UNAVAILABLE)
    parts = running.parts()
    if output is not Output.TEXT:
        _print({"running": True, "parts": parts, **dataclasses.asdict(running)}, output)
    else:
        for part, well in parts.items():
            typer.echo(f"{part:12}{'answers' if well else f'does not answer: see {running.state_dir}/logs'}")
        typer.echo(f"{'UI':12}{running.ui_url}")
        typer.echo(f"{'folder':12}{running.state_dir}")
        typer.echo(f"{'since':12}{running.started_at}, process {running.pid}")
    if not all(parts.values()):
        raise typer.Exit(ExitCode.UNAVAILABLE)


@app.command()
def down(state_dir: StateDirOption = None, output: OutputOption = Output.TEXT) -> None:
    """Stop the stack. Its logs stay in its folder until the next start."""
    with _errors_told():
        stopped = daemon.stop(state_dir or daemon.default_state_dir())
    if output is not Output.TEXT:
        _print({"stopped": stopped}, output)
    else:
        _say("Stopped." if stopped else "No stack runs here.")


def _print(value: object, output: Output) -> None:
    """One line of JSON, as shells' programs read it, or YAML."""
    typer.echo(as_yaml(value).rstrip() if output is Output.YAML else json.dumps(value))


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except StackError as error:
        _say(str(error))
        raise typer.Exit(error.exit_code) from None


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _option(state_dir: Path | None) -> str:
    return f" --state-dir {shlex.quote(str(state_dir))}" if state_dir else ""
