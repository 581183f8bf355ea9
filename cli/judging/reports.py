"""From what the detector's count says to the report that an incident gets, without the machine that it came from."""

from typing import Any

from contract.fault import FaultReport
from contract.identity import NodeIdentity


def report_of(counted: dict[str, Any], identity: NodeIdentity, boot_id: str) -> FaultReport:
    """The report. No counters are read beside it: this is not the machine that wrote the line."""
    known = {name: value for name, value in counted.items() if name in FaultReport.model_fields}
    return FaultReport.model_validate(
        {
            **known,
            "cluster": identity.cluster,
            "node": identity.node,
            "instance_id": identity.instance_id,
            "boot_id": boot_id,
        }
    )
