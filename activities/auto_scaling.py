"""Auto Scaling and EC2 as the acts use them, with errors that say which permission or setting is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from activities.errors import failure
from contract.names import ErrorType

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import (
        ActivityTypeDef,
        AutoScalingGroupTypeDef,
        AutoScalingInstanceDetailsTypeDef,
    )

_CALL: Final = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "max_attempts": 4},
    max_pool_connections=50,
)
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "UnauthorizedOperation",
        "AuthFailure",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "ExpiredToken",
        "ExpiredTokenException",
        "SignatureDoesNotMatch",
    }
)
_GONE: Final = "InvalidInstanceID.NotFound"


class AutoScaling:
    """One region's groups and instances. Safe to use from several threads."""

    def __init__(self, session: boto3.Session) -> None:
        """Region, credentials and endpoint come from the session and the environment.

        Raises:
            NoRegionError: no region is set.
        """
        self._groups = session.client("autoscaling", config=_CALL)
        self._ec2 = session.client("ec2", config=_CALL)

    def instance(self, instance_id: str) -> "AutoScalingInstanceDetailsTypeDef | None":
        """How its group sees an instance; None when no group has it."""
        with _calling("autoscaling:DescribeAutoScalingInstances"):
            found = self._groups.describe_auto_scaling_instances(InstanceIds=[instance_id])["AutoScalingInstances"]
        return found[0] if found else None

    def groups(self, names: list[str]) -> list["AutoScalingGroupTypeDef"]:
        """Groups by name; those that do not exist are left out."""
        if not names:
            return []
        with _calling("autoscaling:DescribeAutoScalingGroups"):
            pages = self._groups.get_paginator("describe_auto_scaling_groups").paginate(AutoScalingGroupNames=names)
            return [group for page in pages for group in page["AutoScalingGroups"]]

    def latest_activity(self, group: str) -> "ActivityTypeDef | None":
        """The group's newest scaling activity that is told, e.g. a launch that failed for want of capacity."""
        with _calling("autoscaling:DescribeScalingActivities"):
            found = self._groups.describe_scaling_activities(AutoScalingGroupName=group, MaxRecords=1)["Activities"]
        return found[0] if found else None

    def mark_unhealthy(self, instance_id: str) -> None:
        """Have the group replace an instance.

        ``ShouldRespectGracePeriod`` is true by default, which ignores the mark for instances younger than the group's
        grace period (API reference, SetInstanceHealth).
        """
        with _calling("autoscaling:SetInstanceHealth"):
            self._groups.set_instance_health(
                InstanceId=instance_id, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
            )

    def state(self, instance_id: str) -> str:
        """EC2's state of an instance; ``terminated`` too when EC2 has forgotten it."""
        try:
            with _calling("ec2:DescribeInstances"):
                answer = self._ec2.describe_instances(InstanceIds=[instance_id])
        except _UnknownInstanceError:
            return "terminated"
        found = [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]
        return str(found[0]["State"]["Name"]) if found else "terminated"

    def console_output(self, instance_id: str) -> str:
        """What EC2 kept of the machine's serial console."""
        with _calling("ec2:GetConsoleOutput"):
            return self._ec2.get_console_output(InstanceId=instance_id).get("Output", "")


class _UnknownInstanceError(Exception):
    """EC2 knows no such instance."""


@contextmanager
def _calling(action: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if code == _GONE:
            raise _UnknownInstanceError(message) from error
        if code in _DENIED:
            raise failure(
                ErrorType.ACCESS_DENIED,
                f"AWS refuses `{action}` ({code}: {message}). Grant it to the worker's role, or mend its credentials, "
                "and press `resume`.",
            ) from error
        raise failure(
            ErrorType.UNREACHABLE, f"AWS answered {code} to `{action}`: {message}. It is tried again."
        ) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise failure(
            ErrorType.ACCESS_DENIED,
            f"There are no AWS credentials for `{action}`: {error}. Give the worker a role and press `resume`.",
        ) from error
    except BotoCoreError as error:
        raise failure(
            ErrorType.UNREACHABLE,
            f"AWS cannot be reached for `{action}`: {error}. It is tried again; check the network and AWS_REGION.",
        ) from error
