"""From a spooled finding to the report that travels: identity of the machine, evidence, versions."""

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from contract.fault import FaultReport
from detector.evidence import gather, is_evidence
from detector.spool import Entry

_DEVICE_FIELDS: Final = ("nd-id", "device")


def to_report(entry: Entry, cluster: str, node: str, instance_id: str | None) -> FaultReport:
    """The report of a spooled finding, with the evidence of this moment.

    Raises:
        ValidationError: the entry is damaged.
    """
    known = {name: value for name, value in entry.items() if name in FaultReport.model_fields}
    fields = known.get("fields")
    if isinstance(fields, dict):
        device = next((str(fields[name]) for name in _DEVICE_FIELDS if name in fields), None)
        # What the line says is not hidden by evidence, and cannot pass for it.
        said = {name: value for name, value in fields.items() if not is_evidence(str(name))}
        known["fields"] = {**gather(str(entry.get("component")), device), **said}
    return FaultReport.model_validate(
        {
            **known,
            "cluster": cluster,
            "node": node,
            "instance_id": instance_id,
            "kernel_version": os.uname().release,
            "detector_version": _version(),
        }
    )


def _version() -> str:
    try:
        return version("nodemend")
    except PackageNotFoundError:
        return ""
