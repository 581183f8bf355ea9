"""Keeping evidence before anything destroys it: what the kernel said, what the Node was, what the console shows."""

import json
import os
import re
from pathlib import Path
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.claim import claimed_node
from activities.cluster import Cluster
from contract.acts import Evidence, PreserveEvidence
from contract.names import ActivityName

_CONSOLE_MAX: Final = 256 * 1024
"""Characters of console output; EC2 keeps 64 KB of the newest."""


class PreserveActivity:
    """The act ``preserve_evidence``. What cannot be had is named and stops nothing."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling, record_dir: Path) -> None:
        self._cluster = cluster
        self._auto_scaling = auto_scaling
        self._record_dir = record_dir

    @activity.defn(name=ActivityName.PRESERVE_EVIDENCE, no_thread_cancel_exception=True)
    def preserve_evidence(self, argument: PreserveEvidence) -> Evidence:
        """Write each piece beside the incident's record.

        Raises:
            ApplicationError: the node is not this run's any more.
        """
        node, _ = claimed_node(self._cluster, argument.target)
        fence, identity = argument.target.fence, argument.target.identity
        folder = incident_dir(self._record_dir, fence.incident_id, fence.run_id) / "evidence"
        kept, missed = [], []
        lines = [
            f"{report.first_seen.isoformat()} {line}"
            for report in argument.reports
            for line in (*report.context, report.message)
        ]
        pieces = {"kernel-lines.txt": "\n".join(lines) + "\n", "node.json": json.dumps(node, indent=2)}
        if identity.instance_id:
            try:
                pieces["console.txt"] = self._auto_scaling.console_output(identity.instance_id)[-_CONSOLE_MAX:]
            except ApplicationError as error:
                missed.append(f"console output ({error.message})")
        for name, text in pieces.items():
            try:
                write_whole(folder / name, text)
                kept.append(name)
            except OSError as error:
                missed.append(f"{name} ({error.strerror} in {folder})")
        return Evidence(kept=tuple(kept), missed=tuple(missed))


def incident_dir(record_dir: Path, incident_id: str, run_id: str) -> Path:
    """The folder of one run of one incident. Its name cannot lead out of the record folder."""
    return record_dir / re.sub(r"[^A-Za-z0-9._-]", "_", incident_id) / run_id


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all, and survives a crash of the machine.

    Raises:
        OSError: it could not be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
