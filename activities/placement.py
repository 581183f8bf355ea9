"""Where a machine is, as far as a job that spans machines cares: what its replacement has to share (V2). Pure."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import InstanceTypeDef

PLACEMENT_GROUP: Final = "placement group"
RESERVATION: Final = "capacity reservation"
BLOCK: Final = "capacity block"


def placement_of(instance: "InstanceTypeDef") -> dict[str, str]:
    """Placement group and held capacity of an instance, those that it has."""
    placement = instance.get("Placement", {})
    found = {
        PLACEMENT_GROUP: placement.get("GroupName", ""),
        RESERVATION: instance.get("CapacityReservationId", ""),
        BLOCK: instance.get("CapacityBlockId", ""),
    }
    return {what: str(name) for what, name in found.items() if name}
