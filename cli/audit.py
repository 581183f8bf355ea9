"""`nodemend audit`: who did what, when and why, from the folder of records; and whether anybody changed it since."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.errors import CommandError
from cli.output import Output, OutputOption, plain, print_document
from contract.audit import AuditEntry, broken
from contract.names import ExitCode

app = typer.Typer(no_args_is_help=True, help="Who did what, when and why; and whether the logs are as written.")

PathArgument = Annotated[Path, typer.Argument(help="An audit.jsonl, or a folder of records.")]


@app.command()
def verify(path: PathArgument, output: OutputOption = Output.TABLE) -> None:
    """Check the chain of every log. 0: all hold. 65: one was changed since it was written."""
    logs = list(_logs(path))
    problems = [(str(log), problem) for log in logs for problem in broken(log.read_text(encoding="utf-8"))]
    if output is not Output.TABLE:
        named = [{"log": log, "problem": problem} for log, problem in problems]
        print_document({"logs": len(logs), "problems": named}, output)
    for log, problem in problems if output is Output.TABLE else ():
        typer.echo(f"{log}: {problem}.")
    if problems:
        raise typer.Exit(ExitCode.DATA)
    if output is not Output.TABLE:
        return
    typer.echo(f"{len(logs)} audit logs hold. Whether an end was cut off, the result of the workflow tells: it has the")
    typer.echo("digest of each log's last entry.")


@app.command(name="list")
def list_entries(
    path: PathArgument,
    since: Annotated[datetime | None, typer.Option("--since", help="Not before this time, in UTC.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Of this person alone.")] = None,
    node: Annotated[str | None, typer.Option("--node", help="About this node alone.")] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="table, json or yaml; left out: JSON lines.")
    ] = None,
) -> None:
    """Print entries, in the order of time: as JSON lines, which tools for logs read, or as one document."""
    entries = [
        AuditEntry.model_validate_json(line)
        for log in _logs(path)
        for line in log.read_text(encoding="utf-8").splitlines()
    ]
    chosen = [
        entry
        for entry in sorted(entries, key=lambda entry: entry.at)
        if (since is None or entry.at.replace(tzinfo=None) >= since)
        and by in (None, entry.by)
        and node in (None, entry.node)
    ]
    if output is None:
        for entry in chosen:
            typer.echo(entry.model_dump_json())
    elif output is Output.TABLE:
        _table(chosen)
    else:
        print_document([plain(entry) for entry in chosen], output)


def _table(entries: list[AuditEntry]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("when", "node", "who", "what", "why"):
        table.add_column(title, overflow="fold")
    for entry in entries:
        table.add_row(*map(escape, (f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.node, entry.by, entry.what, entry.why)))
    Console().print(table)


def _logs(path: Path) -> Iterator[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("audit.jsonl"))
    if not found:
        raise CommandError(
            f"There is no audit log at {path}.",
            "Name an audit.jsonl or a worker's NODEMEND_RECORD_DIR.",
            ExitCode.NO_INPUT,
        )
    yield from found
