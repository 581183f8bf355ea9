"""What Auto Scaling writes down about a group: the scaling activities that ``DescribeScalingActivities`` answers with.

The words are AWS's own (Amazon EC2 Auto Scaling user guide, Verify a scaling activity; Troubleshoot), for they are
what a follower of a replacement has to read. Moto keeps none of it, so the pages are sent to ``moto_server``.
"""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from deploy.local.aws import Aws

NO_CAPACITY: Final = (
    "We currently do not have sufficient trn1.32xlarge capacity in the Availability Zone you requested (us-west-2a). "
    "Our system will be working on provisioning additional capacity. Launching EC2 instance failed."
)
_KEPT: Final = 500
"""AWS keeps six weeks of them."""


class Books:
    """The pages of every group."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._pages: dict[str, list[dict[str, Any]]] = {}
        self._owed: dict[str, int] = {}
        self._causes: dict[str, str] = {}
        self._numbers: Iterator[int] = itertools.count(1)
        self._boots_seen = {"reboots": 0, "starts": 0}
        self.desired: dict[str, int] = {}

    def open(self, group: str, desired: int) -> None:
        """A group begins with empty pages."""
        self._pages[group], self._owed[group], self.desired[group] = [], 0, desired
        self._causes.pop(group, None)

    def see_desired(self, group: str, desired: int) -> None:
        """Somebody changed what the group wants: what is launched for that has this cause."""
        before = self.desired[group]
        if desired > before:
            self._causes[group] = (
                f"At {_now()} a user request explicitly set group desired capacity changing the desired capacity "
                f"from {before} to {desired}.  "
            )
        self.desired[group] = desired

    def owe(self, group: str) -> None:
        """The group ended an unhealthy instance: the next launch is in its place."""
        self._owed[group] += 1

    def launched(self, group: str, instance_id: str, *, unhealthy: bool) -> None:
        """An instance was launched."""
        self._write(group, f"Launching a new EC2 instance: {instance_id}", self._cause(group, unhealthy=unhealthy))

    def launch_failed(self, group: str, message: str) -> None:
        """A launch failed; it is tried again."""
        cause = f"At {_now()} an instance was launched in response to an unhealthy instance needing to be replaced."
        self._write(group, f"Launching a new EC2 instance.  Status Reason: {message}", cause, "Failed", message)

    def ended(self, group: str, instance_id: str) -> None:
        """An instance was terminated."""
        cause = f"At {_now()} an instance was taken out of service in response to a user health-check."
        self._write(group, f"Terminating EC2 instance: {instance_id}", cause)

    def new_reboots(self) -> list[str]:
        """Instances that somebody rebooted through EC2, or started again, since the last look."""
        told = self._aws.note()
        new: list[str] = []
        for page, seen in self._boots_seen.items():
            new += told[page][seen:]
            self._boots_seen[page] = len(told[page])
        return new

    def _cause(self, group: str, *, unhealthy: bool) -> str:
        if unhealthy or self._owed[group]:
            self._owed[group] = max(0, self._owed[group] - 1)
            return f"At {_now()} an instance was launched in response to an unhealthy instance needing to be replaced."
        return (
            f"{self._causes.pop(group, '')}At {_now()} an instance was started in response to a difference between "
            "desired and actual capacity, increasing the capacity."
        )

    def _write(self, group: str, description: str, cause: str, status: str = "Successful", message: str = "") -> None:
        now = datetime.now(UTC).isoformat()
        activity = {
            "ActivityId": f"activity-{next(self._numbers)}",
            "AutoScalingGroupName": group,
            "Description": description,
            "Cause": cause,
            "StartTime": now,
            "EndTime": now,
            "StatusCode": status,
            "Progress": 100,
            "Details": "{}",
            **({"StatusMessage": message} if message else {}),
        }
        self._pages[group] = [*self._pages[group], activity][-_KEPT:]
        self._aws.note(activities={group: self._pages[group]})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
