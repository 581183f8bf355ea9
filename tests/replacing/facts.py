"""What AWS says about a group in which nothing stands in the way, to be changed one thing at a time."""

from datetime import UTC, datetime, timedelta
from typing import Any

from activities.preflight import GroupFacts
from tests.runbook.world import identity

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
OLD = "i-0123456789abcdef0"


def group(**changes: Any) -> dict[str, Any]:
    usual = {
        "AutoScalingGroupName": "trn1",
        "MinSize": 0,
        "MaxSize": 10,
        "DesiredCapacity": 2,
        "AvailabilityZones": ["us-west-2a"],
        "Instances": [member(OLD), member("i-0aaaaaaaaaaaaaaaa")],
        "SuspendedProcesses": [],
    }
    return {**usual, **changes}


def member(instance_id: str, **changes: Any) -> dict[str, Any]:
    usual = {
        "InstanceId": instance_id,
        "LifecycleState": "InService",
        "HealthStatus": "Healthy",
        "ProtectedFromScaleIn": False,
    }
    return {**usual, **changes}


def facts(**changes: Any) -> GroupFacts:
    usual: dict[str, Any] = {
        "identity": identity(image="ami-1"),
        "now": NOW,
        "group": group(),
        "has_template": True,
        "template": {"ImageId": "ami-1"},
        "image": {"ImageId": "ami-1", "State": "available"},
    }
    return GroupFacts(**{**usual, **changes})


def reservation(**changes: Any) -> dict[str, Any]:
    usual = {"State": "active", "AvailableInstanceCount": 1, "EndDate": NOW + timedelta(days=9)}
    return {**usual, **changes}


def activity(description: str, cause: str, **changes: Any) -> dict[str, Any]:
    usual = {
        "Description": description,
        "Cause": cause,
        "StatusCode": "Successful",
        "StartTime": NOW - timedelta(minutes=5),
    }
    return {**usual, **changes}


IN_PLACE_OF_UNHEALTHY = (
    "At 2026-12-01T12:00:00Z an instance was launched in response to an unhealthy instance needing to be replaced."
)
SHORT_OF_DESIRED = (
    "At 2026-12-01T12:00:00Z an instance was started in response to a difference between desired and actual capacity, "
    "increasing the capacity from 1 to 2."
)
WANTED_LARGER = (
    "At 2026-12-01T11:59:50Z a user request explicitly set group desired capacity changing the desired capacity from "
    f"2 to 3.  {SHORT_OF_DESIRED}"
)
