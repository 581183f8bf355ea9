"""`nodemend audit`: who did what, when and why, from records and Temporal; and whether anybody changed it since."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from pydantic import ValidationError

from cli.errors import CommandError
from cli.lazily import Listing
from cli.output import Output, OutputOption, plain, print_document
from cli.process import run
from cli.records import documents
from contract.audit import AuditEntry, audit_log, broken
from contract.incident import IncidentReport
from contract.names import ExitCode
from contract.words import counted

app = typer.Typer(
    cls=Listing, add_completion=False, help="Who did what, when and why; and whether the logs are as written."
)

_LOG = "audit.jsonl"
_DIGEST = "#sha256="

PLACE = "An audit.jsonl, a folder of records, or s3://bucket/prefix."


@app.command()
def verify(
    place: Annotated[str, typer.Argument(help=PLACE)],
    temporal: Annotated[
        bool, typer.Option("--temporal", help="Compare each log's end with what its workflow in Temporal says, too.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check the chain of every log. 0: all hold. 65: one was changed since it was written."""
    logs = list(_logs(place))
    told = run(_told_to_temporal()) if temporal else {}
    found = [_checked(where, text, told) for where, text in logs]
    problems = [(where, problem) for (where, _), (wrong, _) in zip(logs, found, strict=True) for problem in wrong]
    if output is not Output.TABLE:
        print_document(
            {"logs": len(logs), "problems": [{"log": log, "problem": problem} for log, problem in problems]}, output
        )
    else:
        for log, problem in problems:
            typer.echo(f"{log}: {problem}.")
    if problems:
        raise typer.Exit(ExitCode.DATA)
    if output is not Output.TABLE:
        return
    typer.echo(f"{len(logs)} audit logs hold.")
    if temporal and (unknown := sum(not compared for _, compared in found)):
        typer.echo(f"Of {unknown} of them Temporal knows nothing (any more): their ends are compared with nothing.")
    if not temporal:
        typer.echo("Whether an end was cut off together with the report beside it, --temporal tells: the results of")
        typer.echo("the workflows have the digest of each log's last entry.")


@app.command(name="list")
def list_entries(
    place: Annotated[str, typer.Argument(help=f"{PLACE} Left out: what Temporal keeps.")] = "",
    since: Annotated[datetime | None, typer.Option("--since", help="Not before this time, in UTC.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Of this person alone.")] = None,
    node: Annotated[str | None, typer.Option("--node", help="About this node alone.")] = None,
    running: Annotated[
        bool, typer.Option("--open", help="Beside the records, the incidents that still run (from Temporal).")
    ] = False,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="table, json or yaml; left out: JSON lines.")
    ] = None,
) -> None:
    """Print entries, in the order of time: as JSON lines, which tools for logs read, or as one document."""
    entries = [entry for where, text in _logs(place) for entry in _entries(where, text)] if place else []
    if running or not place:
        entries += [entry for report in run(_in_temporal(open_only=bool(place))) for entry in audit_log(report)]
    moment = since.replace(tzinfo=since.tzinfo or UTC) if since else None
    chosen = [
        entry
        for entry in sorted(entries, key=lambda entry: entry.at)
        if (moment is None or entry.at >= moment) and by in (None, entry.by) and node in (None, entry.node)
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


def _checked(where: str, text: str, told: dict[tuple[str, str], str]) -> tuple[list[str], bool]:
    """What does not hold in a log, and whether Temporal was told its end."""
    problems = list(broken(text))
    entry = _last(text)
    said = told.get((entry.incident_id, entry.run_id)) if entry else None
    if entry and not problems:
        problems += _cut_off(text, _report_beside(where))
        if said and said != entry.digest:
            problems.append("its end is not the one that the workflow was told: lines were cut off or added")
    return problems, said is not None


def _logs(place: str) -> Iterator[tuple[str, str]]:
    found = list(documents(place, _LOG))
    if not found:
        raise CommandError(
            f"There is no audit log at {place}.",
            "Name an audit.jsonl, a worker's NODEMEND_RECORD_DIR or s3://bucket/prefix.",
            ExitCode.NO_INPUT,
        )
    yield from found


def _entries(where: str, text: str) -> Iterator[AuditEntry]:
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield AuditEntry.model_validate_json(line)
        except ValidationError as error:
            raise CommandError(
                f"{where}, line {number}, is no audit entry.",
                "`nodemend audit verify` says what is wrong with each log.",
                ExitCode.DATA,
            ) from error


def _last(text: str) -> AuditEntry | None:
    try:
        return AuditEntry.model_validate_json(text.splitlines()[-1])
    except (IndexError, ValidationError):
        return None


def _report_beside(where: str) -> IncidentReport | None:
    """The report that was written with a log; None where it is not there."""
    try:
        ((_, text),) = documents(where.removesuffix(_LOG) + "report.json", "report.json")
        return IncidentReport.model_validate_json(text)
    except (CommandError, ValueError):
        return None


def _cut_off(text: str, report: IncidentReport | None) -> list[str]:
    """Cutting off the end breaks no chain; but each step and each override of the report has a line."""
    wanted = len(audit_log(report)) if report else None
    lines = len(text.splitlines())
    if wanted is None or wanted == lines:
        return []
    return [f"it has {counted(lines, 'line')}, and its report tells of {wanted}: its end was cut off or added"]


async def _told_to_temporal() -> dict[tuple[str, str], str]:
    """The digest of each closed incident's last entry, as its workflow has it."""
    return {
        (report.incident_id, report.run_id): record.rpartition(_DIGEST)[2]
        for report in await _in_temporal(open_only=False)
        if _DIGEST in (record := report.facts.get("record", ""))
    }


async def _in_temporal(*, open_only: bool) -> list[IncidentReport]:
    """What Temporal keeps of incidents. Open ones are asked: their memo is as old as their phase."""
    from cli.connection import cluster, connect
    from cli.incidents import listed
    from cli.looking import look

    client, name = await connect(), cluster()
    found = [incident async for incident in listed(client, name, open_only=open_only)]
    looks = await asyncio.gather(*(look(incident.handle) for incident in found if incident.is_open))
    closed = [incident.report for incident in found if not incident.is_open]
    return [report for report in [*closed, *(one.report for one in looks)] if report]
