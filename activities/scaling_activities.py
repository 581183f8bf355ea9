"""What Auto Scaling says that it did: which launch is in place of which instance, and why a launch failed. Pure.

The words are AWS's own (Amazon EC2 Auto Scaling user guide, Verify a scaling activity; Troubleshoot instance launch
failures), for the API has no field that says what a launch is for.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import ActivityTypeDef

_INSTANCE: Final = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_FOR_SOMETHING_ELSE: Final = (
    "changing the desired capacity",
    "monitor alarm",
    "scheduled action",
    "instance refresh",
    "was launched to aid in balancing",
    "to rebalance the group's zones",
)
"""Parts of the causes of launches that are in no instance's place."""
_FOR_UNHEALTHY: Final = "in response to an unhealthy instance needing to be replaced"
_ENDED: Final = frozenset({"Successful", "Failed", "Cancelled"})
_FOR_DIFFERENCE: Final = "in response to a difference between desired and actual capacity"


@dataclass(frozen=True)
class Explained:
    """A failed launch in words."""

    says: str
    passes: bool
    """Whether waiting may help."""


_CAUSES: Final = (
    (
        re.compile(r"InsufficientInstanceCapacity|do not have sufficient .* capacity|insufficient capacity", re.I),
        "EC2 has no capacity of this type in the zone; it goes on trying",
        True,
    ),
    (
        re.compile(
            r"VcpuLimitExceeded|InstanceLimitExceeded|vCPU capacity than your current|MaxSpotInstanceCount", re.I
        ),
        "the account's quota for this type is used up: have it raised, or end something else",
        False,
    ),
    (
        re.compile(r"InvalidAMI|image id .* does not exist|AMI .* (not found|is disabled|is pending)", re.I),
        "the machine image of the launch template does not exist or may not be used: mend the template",
        False,
    ),
    (
        re.compile(r"ReservationCapacityExceeded|requested reservation does not have sufficient", re.I),
        "the capacity reservation is full; it has room when the old instance is gone",
        True,
    ),
    (
        re.compile(r"CapacityReservation|capacity reservation|InvalidCapacityReservation", re.I),
        "the capacity reservation cannot be used: see whether it is active and of this type and zone",
        False,
    ),
    (
        re.compile(
            r"launch template|InvalidLaunchTemplate|security group .* does not exist|subnet .* does not exist", re.I
        ),
        "what the launch template names does not exist: mend the template",
        False,
    ),
    (
        re.compile(r"UnauthorizedOperation|not authorized|AccessDenied|InvalidKMSKey|Client\.InternalError", re.I),
        "Auto Scaling may not do what the launch needs (its role, or the key of the volumes)",
        False,
    ),
)


def reaches_back(page: Sequence["ActivityTypeDef"], since: datetime) -> bool:
    """Whether what follows a page is older than a moment: the newest come first, those in progress before them all.

    (Auto Scaling API reference, DescribeScalingActivities.)
    """
    ended = [activity for activity in page if activity["StatusCode"] in _ENDED]
    return bool(ended) and ended[-1]["StartTime"] < since


def launches(activities: Iterable["ActivityTypeDef"]) -> Iterator["ActivityTypeDef"]:
    """Those that are about launching, in the order given."""
    return (activity for activity in activities if activity["Description"].startswith("Launching"))


def launched_instance(activity: "ActivityTypeDef") -> str:
    """The instance that an activity launched; empty where it names none."""
    found = _INSTANCE.search(activity["Description"])
    return found[0] if found else ""


def may_replace(activity: "ActivityTypeDef") -> bool:
    """Whether a launch is in some instance's place, and not for a group that somebody wanted larger (A10)."""
    cause = activity["Cause"]
    if any(words in cause for words in _FOR_SOMETHING_ELSE):
        return False
    return _FOR_UNHEALTHY in cause or _FOR_DIFFERENCE in cause


def replacements(activities: Iterable["ActivityTypeDef"], ids: Iterable[str]) -> list[str]:
    """Which of the instances were launched in another's place, those for an unhealthy one first, then the oldest."""
    wanted = set(ids)
    found = {launched_instance(a): a for a in launches(activities) if may_replace(a)}
    mine = [instance_id for instance_id in found if instance_id in wanted]
    return sorted(mine, key=lambda i: (_FOR_UNHEALTHY not in found[i]["Cause"], found[i]["StartTime"], i))


def failed_since(activities: Iterable["ActivityTypeDef"], since: datetime) -> "ActivityTypeDef | None":
    """The newest failed launch after a moment, unless a launch worked after it."""
    for activity in launches(activities):
        if activity["StatusCode"] == "Successful":
            return None
        if activity["StatusCode"] in ("Failed", "Cancelled") and activity["StartTime"] >= since:
            return activity
    return None


def explain(activity: "ActivityTypeDef") -> Explained:
    """Why a launch failed, what it means, and whether it passes."""
    message = activity.get("StatusMessage") or activity["Description"]
    for pattern, says, passes in _CAUSES:
        if pattern.search(message):
            return Explained(f"{says} (AWS: {message})", passes)
    return Explained(f"AWS says: {message}", passes=True)
