"""Records of closed incidents, from the folder of a worker or from S3: reports, and audit logs."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from cli.errors import CommandError
from contract.incident import IncidentReport
from contract.names import ExitCode

S3 = "s3://"


def documents(place: str, name: str) -> Iterator[tuple[str, str]]:
    """Where each document of a name is, and its text.

    Raises:
        CommandError: there is no such folder, or S3 does not let us read.
    """
    if place.startswith(S3):
        yield from _in_s3(place, name)
        return
    path = Path(place)
    if not path.exists():
        raise CommandError(
            f"There is nothing at {place}.",
            "Name a worker's NODEMEND_RECORD_DIR, or s3://bucket/prefix.",
            ExitCode.NO_INPUT,
        )
    for file in [path] if path.is_file() else sorted(path.rglob(name)):
        yield str(file), file.read_text(encoding="utf-8", errors="replace")


def reports(place: str, since: datetime | None) -> tuple[list[IncidentReport], int]:
    """The reports of incidents that were opened since then, and how many records cannot be read."""
    found, unreadable = [], 0
    for _, text in documents(place, "report.json"):
        try:
            report = IncidentReport.model_validate_json(text)
        except ValidationError:
            unreadable += 1
            continue
        if since is None or report.opened_at >= since:
            found.append(report)
    return found, unreadable


def _in_s3(place: str, name: str) -> Iterator[tuple[str, str]]:
    # Here and not above: the SDK of AWS costs every other command half a second.
    from temporalio.exceptions import ApplicationError

    from worker.clients import archive_client

    try:
        archive = archive_client(place)
        assert archive
        for key in archive.keys(name):
            yield f"{S3}{archive.bucket}/{key}", archive.read(key) or ""
    except ApplicationError as error:
        raise CommandError(error.message, "Check the address and your credentials.", ExitCode.UNAVAILABLE) from error
