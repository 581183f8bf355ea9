"""`nodemend report --html`: where the pages get what they show."""

from collections.abc import Callable
from datetime import UTC, datetime

from cli.connection import cluster, connect
from cli.incidents import listed
from cli.pages.fleet import fleet_page
from cli.pages.incident import incident_page
from cli.records import reports
from contract.incident import IncidentReport


def incident_page_now(report: IncidentReport) -> str:
    """The page of one incident, as of now."""
    return incident_page(report, datetime.now(UTC))


async def write_fleet_page(records: str, since: datetime | None, write: Callable[[str], None]) -> None:
    """The page of the incidents of a period, from records or from what Temporal keeps."""
    # What typer reads has no zone; the option says that it is UTC.
    moment = since.replace(tzinfo=since.tzinfo or UTC) if since else None
    if records:
        found, unreadable = reports(records, moment)
    else:
        found, unreadable = await _in_temporal(moment)
    write(fleet_page(found, moment, datetime.now(UTC), unreadable))


async def _in_temporal(since: datetime | None) -> tuple[list[IncidentReport], int]:
    """As the memos have them, which needs no worker."""
    name = cluster()
    client = await connect()
    found, unreadable = [], 0
    async for incident in listed(client, name, open_only=False):
        if incident.report is None:
            unreadable += 1
        elif since is None or incident.report.opened_at >= since:
            found.append(incident.report)
    return found, unreadable
