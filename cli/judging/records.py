"""Closing reports: from a worker's folder of records, or from Temporal for as long as it keeps them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from cli.errors import CommandError
from contract.incident import IncidentReport
from contract.names import ExitCode

_NAME = "report.json"


def from_folder(folder: Path) -> tuple[list[IncidentReport], list[str]]:
    """All reports below a folder, and the files that are none.

    Raises:
        CommandError: there is no such folder, or no report in it.
    """
    files = sorted(folder.rglob(_NAME)) if folder.is_dir() else []
    if not files:
        raise CommandError(
            f"There is no {_NAME} below {folder}.", "Name a worker's NODEMEND_RECORD_DIR.", ExitCode.NO_INPUT
        )
    found, wrong = [], []
    for file in files:
        try:
            found.append(IncidentReport.model_validate_json(file.read_bytes()))
        except (OSError, ValidationError):
            wrong.append(str(file))
    return found, wrong


def from_temporal() -> Iterator[IncidentReport]:
    """The results of the closed incidents that Temporal still has.

    Raises:
        CommandError: Temporal cannot be reached.
        RPCError: it refuses.
    """
    return iter(asyncio.run(_results()))


async def _results() -> list[IncidentReport]:
    from temporalio.client import WorkflowExecutionStatus

    from cli.connection import cluster, connect
    from cli.incidents import listed

    name = cluster()
    client = await connect()
    done = [
        incident.handle
        async for incident in listed(client, name, open_only=False)
        # The memo of a closed incident says less than its result, and which ones are worth reading.
        if incident.status is WorkflowExecutionStatus.COMPLETED
        and (incident.report is None or incident.report.mode == "shadow")
    ]
    return [await handle.result() for handle in done]
