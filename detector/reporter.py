"""Delivery of spooled findings to Temporal, one at a time."""

import asyncio
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from contract.fault import FaultReport
from contract.names import KERNEL_LOG
from detector.aftermath import lines_after
from detector.instance import known_instance_id, learn_instance_id
from detector.reports import to_report
from detector.spool import STATE, Entry, read_json, write_json
from detector.state import boot_id
from detector.temporal_side import TemporalSide
from detector.trouble import Hopeless, Trouble

REJECTED: Final = "rejected.json"
"""The newest entry that could not be reported, for whoever looks into it."""


class Reporter:
    """Delivers findings to Temporal, one at a time."""

    def __init__(self, folder: str, cluster: str, node: str) -> None:
        self._folder = folder
        self._cluster = cluster
        self._node = node
        self._temporal = TemporalSide()
        self._loop = asyncio.new_event_loop()
        self._instance_id: str | None = None

    def deliver(self, entry: Entry) -> None:
        """Report it.

        Raises:
            Trouble: Temporal cannot be reached or refuses.
            Hopeless: the entry is no finding that could be reported.
        """
        if self._instance_id is None:
            self._instance_id = known_instance_id(self._folder) or self._ask_the_node()
        try:
            report = to_report(entry, self._cluster, self._node, self._instance_id)
            report = report.model_copy(update={"context_after": self._aftermath(report)})
        except ValidationError as error:
            path = str(Path(self._folder) / REJECTED)
            write_json(path, entry)
            raise Hopeless(f"it is damaged ({error.error_count()} fields); kept in {path}.") from error
        self._loop.run_until_complete(self._temporal.deliver(report))

    def _aftermath(self, report: FaultReport) -> tuple[str, ...]:
        if report.source != KERNEL_LOG:
            return ()
        state = read_json(str(Path(self._folder) / STATE))
        log = state.get("log")
        # The numbers of another boot's records mean nothing in this one's log.
        return lines_after(log, report.seq) if isinstance(log, str) and report.boot_id == boot_id() else ()

    def _ask_the_node(self) -> str | None:
        from detector.node_side import NodeSide  # half a second to import, which a report need not wait for

        try:
            found = NodeSide(self._folder, self._cluster, self._node).instance_id()
        except Trouble as trouble:
            print(f"courier: {trouble} The report goes out without an instance id.", flush=True)
            return None
        if found:
            learn_instance_id(self._folder, found)
        return found
