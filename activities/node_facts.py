"""What a Node object, and EC2's description of its instance, say about a machine. Pure."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from activities.claim import annotations
from activities.cluster import Json
from contract.names import TRIED_ANNOTATION

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import InstanceTypeDef

REMEMBERED: Final = timedelta(days=7)
"""A fault that comes back within this time was not mended by what was tried."""


def host_of(instance: "InstanceTypeDef | None") -> str:
    """The dedicated host that an instance runs on; EC2 names no other kind of host."""
    return instance.get("Placement", {}).get("HostId", "") if instance else ""


def boot_id(node: Json) -> str:
    """Which boot of the machine its kubelet reports."""
    return str(node["status"].get("nodeInfo", {}).get("bootID", ""))


def read_tried(node: Json, now: datetime) -> dict[str, datetime]:
    """What was tried on a machine lately, and when. Whatever cannot be read counts for nothing."""
    tried = {}
    for entry in annotations(node).get(TRIED_ANNOTATION, "").split(","):
        name, _, written = entry.partition("@")
        try:
            at = datetime.fromisoformat(written)
        except ValueError:
            continue
        if at.tzinfo and now - at < REMEMBERED:
            tried[name] = at
    return tried
