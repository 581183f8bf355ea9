"""`nodemend audit`: who did what, when and why, from the folder of records; and whether anybody changed it since."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.errors import CommandError
from contract.audit import AuditEntry, broken
from contract.names import ExitCode

app = typer.Typer(no_args_is_help=True, help="Who did what, when and why; and whether the logs are as written.")

PathArgument = Annotated[Path, typer.Argument(help="An audit.jsonl, or a folder of records.")]


@app.command()
def verify(path: PathArgument) -> None:
    """Check the chain of every log. 0: all hold. 65: one was changed since it was written."""
    wrong = 0
    logs = list(_logs(path))
    for log in logs:
        for problem in broken(log.read_text(encoding="utf-8")):
            wrong += 1
            typer.echo(f"{log}: {problem}.")
    if wrong:
        raise typer.Exit(ExitCode.DATA)
    typer.echo(f"{len(logs)} audit logs hold. Whether an end was cut off, the result of the workflow tells: it has the")
    typer.echo("digest of each log's last entry.")


@app.command(name="list")
def list_entries(
    path: PathArgument,
    since: Annotated[datetime | None, typer.Option("--since", help="Not before this time, in UTC.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Of this person alone.")] = None,
    node: Annotated[str | None, typer.Option("--node", help="About this node alone.")] = None,
) -> None:
    """Print entries as JSON lines, in the order of time."""
    entries = [
        AuditEntry.model_validate_json(line)
        for log in _logs(path)
        for line in log.read_text(encoding="utf-8").splitlines()
    ]
    for entry in sorted(entries, key=lambda entry: entry.at):
        late_enough = since is None or entry.at.replace(tzinfo=None) >= since
        if late_enough and by in (None, entry.by) and node in (None, entry.node):
            typer.echo(entry.model_dump_json())


def _logs(path: Path) -> Iterator[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("audit.jsonl"))
    if not found:
        raise CommandError(
            f"There is no audit log at {path}.",
            "Name an audit.jsonl or a worker's NODEMEND_RECORD_DIR.",
            ExitCode.NO_INPUT,
        )
    yield from found
