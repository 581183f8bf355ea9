"""Auto Scaling as the acts use it: groups, their instances, what they did lately and what they are about to do."""

import itertools
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import boto3

from activities.aws_calls import CALL, calling
from activities.ec2 import Ec2
from activities.eks import Eks
from activities.gathering import Gathering
from activities.scaling_activities import reaches_back
from activities.written import note_aws

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import (
        ActivityTypeDef,
        AutoScalingGroupTypeDef,
        AutoScalingInstanceDetailsTypeDef,
        InstanceRefreshTypeDef,
        LifecycleHookTypeDef,
    )

_INSTANCES_MAX: Final = 50
"""Ids of one DescribeAutoScalingInstances (API reference)."""
_GROUPS_MAX: Final = 100
_ASKERS_MAX: Final = 1000
"""Incidents whose questions about activities one read answers: each asks back to a moment of its own."""
_ACTIVITIES_PAGES: Final = 30
"""Pages of a hundred activities that are read at most: three thousand reach back days, and nobody loops for ever."""


class AutoScaling:
    """One region's groups and instances. Safe to use from several threads."""

    def __init__(self, session: boto3.Session) -> None:
        """Region, credentials and endpoint come from the session and the environment.

        Raises:
            NoRegionError: no region is set.
        """
        note_aws(session)
        self._groups = session.client("autoscaling", config=CALL)
        self.ec2 = Ec2(session)
        self.eks = Eks(session)
        self._instances: Gathering[str, AutoScalingInstanceDetailsTypeDef] = Gathering(
            self._describe_instances, _INSTANCES_MAX
        )
        self._by_name: Gathering[str, AutoScalingGroupTypeDef] = Gathering(self._describe_groups, _GROUPS_MAX)
        self._activities: Gathering[tuple[str, datetime], list[ActivityTypeDef]] = Gathering(
            self._describe_activities, _ASKERS_MAX
        )
        self._hooks: Gathering[str, list[LifecycleHookTypeDef]] = Gathering(
            lambda names: {name: self._describe_hooks(name) for name in names}, _GROUPS_MAX
        )
        self._refreshes: Gathering[str, list[InstanceRefreshTypeDef]] = Gathering(
            lambda names: {name: self._describe_refreshes(name) for name in names}, _GROUPS_MAX
        )

    def instance(self, instance_id: str) -> "AutoScalingInstanceDetailsTypeDef | None":
        """How its group sees an instance; None when no group has it."""
        return self._instances.get(instance_id)

    def group(self, name: str) -> "AutoScalingGroupTypeDef | None":
        """A group, or None."""
        return self._by_name.get(name)

    def nodegroup(self, group: "AutoScalingGroupTypeDef | None") -> dict[str, Any] | None:
        """EKS's description of the managed node group that a group belongs to; None where EKS does not manage it."""
        return self.eks.nodegroup(tags_of(group)) if group else None

    def groups(self, names: list[str]) -> list["AutoScalingGroupTypeDef"]:
        """Groups by name; those that do not exist are left out."""
        return list(self._describe_groups(names).values()) if names else []

    def grouped(self) -> set[str]:
        """The instances of all groups of the region: far fewer calls than to ask after each instance."""
        with calling("autoscaling:DescribeAutoScalingGroups"):
            pages = self._groups.get_paginator("describe_auto_scaling_groups").paginate(
                PaginationConfig={"PageSize": _GROUPS_MAX}
            )
            groups = [group for page in pages for group in page["AutoScalingGroups"]]
        return {instance["InstanceId"] for group in groups for instance in group.get("Instances", [])}

    def activities(self, group: str, since: datetime) -> list["ActivityTypeDef"]:
        """The group's scaling activities back to a moment, and a few more, the newest first.

        However many there were: a hundred machines replaced at once are two hundred, and a page holds a hundred.
        """
        return self._activities.get((group, since)) or []

    def hooks(self, group: str) -> list["LifecycleHookTypeDef"]:
        """What holds the group's instances up on their way in and out."""
        return self._hooks.get(group) or []

    def refreshes(self, group: str) -> list["InstanceRefreshTypeDef"]:
        """The newest instance refreshes of a group."""
        return self._refreshes.get(group) or []

    def mark_unhealthy(self, instance_id: str) -> None:
        """Have the group replace an instance.

        ``ShouldRespectGracePeriod`` is true by default, which ignores the mark for instances younger than the group's
        grace period (API reference, SetInstanceHealth; A2).
        """
        with calling("autoscaling:SetInstanceHealth"):
            self._groups.set_instance_health(
                InstanceId=instance_id, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
            )

    def terminate(self, instance_id: str) -> None:
        """Have the group end an instance and keep its size; decrementing it would take another's place (A7)."""
        with calling("autoscaling:TerminateInstanceInAutoScalingGroup"):
            self._groups.terminate_instance_in_auto_scaling_group(
                InstanceId=instance_id, ShouldDecrementDesiredCapacity=False
            )

    def enter_standby(self, group: str, instance_id: str) -> None:
        """Take an instance out of service and have the group launch another beside it (EnterStandby)."""
        with calling("autoscaling:EnterStandby"):
            self._groups.enter_standby(
                AutoScalingGroupName=group, InstanceIds=[instance_id], ShouldDecrementDesiredCapacity=False
            )

    def exit_standby(self, group: str, instance_id: str) -> None:
        """Put an instance back into service; the group wants one more from then on (ExitStandby)."""
        with calling("autoscaling:ExitStandby"):
            self._groups.exit_standby(AutoScalingGroupName=group, InstanceIds=[instance_id])

    def state(self, instance_id: str) -> str:
        """EC2's state of an instance; ``terminated`` too when EC2 has forgotten it."""
        return self.ec2.state(instance_id)

    def console_output(self, instance_id: str) -> str:
        """What EC2 kept of the machine's serial console."""
        return self.ec2.console_output(instance_id)

    def _describe_instances(self, ids: list[str]) -> "dict[str, AutoScalingInstanceDetailsTypeDef]":
        with calling("autoscaling:DescribeAutoScalingInstances"):
            found = self._groups.describe_auto_scaling_instances(InstanceIds=ids)["AutoScalingInstances"]
        return {instance["InstanceId"]: instance for instance in found}

    def _describe_groups(self, names: list[str]) -> "dict[str, AutoScalingGroupTypeDef]":
        with calling("autoscaling:DescribeAutoScalingGroups"):
            pages = self._groups.get_paginator("describe_auto_scaling_groups").paginate(AutoScalingGroupNames=names)
            return {group["AutoScalingGroupName"]: group for page in pages for group in page["AutoScalingGroups"]}

    def _describe_activities(
        self, keys: list[tuple[str, datetime]]
    ) -> "dict[tuple[str, datetime], list[ActivityTypeDef]]":
        """One read of a group serves everybody who asks about it, back to the earliest moment asked for."""
        earliest: dict[str, datetime] = {}
        for name, since in keys:
            earliest[name] = min(since, earliest.get(name, since))
        found = {name: self._describe_activities_of(name, since) for name, since in earliest.items()}
        return {(name, since): found[name] for name, since in keys}

    def _describe_activities_of(self, group: str, since: datetime) -> list["ActivityTypeDef"]:
        found: list[ActivityTypeDef] = []
        with calling("autoscaling:DescribeScalingActivities"):
            pages = self._groups.get_paginator("describe_scaling_activities").paginate(
                AutoScalingGroupName=group, PaginationConfig={"PageSize": 100}
            )
            for page in itertools.islice(pages, _ACTIVITIES_PAGES):
                found += page["Activities"]
                if reaches_back(page["Activities"], since):
                    break
        return found

    def _describe_hooks(self, group: str) -> list["LifecycleHookTypeDef"]:
        with calling("autoscaling:DescribeLifecycleHooks"):
            return self._groups.describe_lifecycle_hooks(AutoScalingGroupName=group)["LifecycleHooks"]

    def _describe_refreshes(self, group: str) -> list["InstanceRefreshTypeDef"]:
        with calling("autoscaling:DescribeInstanceRefreshes"):
            answer = self._groups.describe_instance_refreshes(AutoScalingGroupName=group, MaxRecords=5)
        return answer["InstanceRefreshes"]


def tags_of(group: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a group, by key."""
    return {tag["Key"]: tag["Value"] for tag in group.get("Tags", [])}
