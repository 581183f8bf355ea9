"""Machines of an Auto Scaling group, self-managed or of an EKS managed node group: the group replaces them.

EC2's own ``TerminateInstances`` is never used on a member: its lifecycle hooks would run too late (A8).
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from activities import preflight
from activities.auto_scaling import AutoScaling
from activities.errors import failure
from activities.machines.kind import Launches
from activities.preflight import GroupFacts
from activities.scaling_activities import explain, failed_since, replacements
from contract.acts import AwaitReplacement, GroupSurvey, MarkUnhealthy, RaiseSpare, SurveyGroup
from contract.identity import NodeIdentity
from contract.names import ErrorType
from contract.replacement import ReplaceCall

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import ActivityTypeDef, AutoScalingGroupTypeDef
    from mypy_boto3_ec2.type_defs import InstanceTypeDef, ResponseLaunchTemplateDataTypeDef

_ENDING: Final = ("Terminating", "Terminated", "Detaching", "Detached")
"""Prefixes of lifecycle states of an instance that is on its way out of its group."""
_NEIGHBOUR_WAITS: Final = timedelta(hours=2)
"""How old a launch may be and still be the one that an incident beside this one waited for."""


class GroupReplacer:
    """What ``activities.machines.kind.Replacer`` asks for, by Auto Scaling."""

    def __init__(self, auto_scaling: AutoScaling) -> None:
        self._auto_scaling = auto_scaling

    def survey(self, argument: SurveyGroup, failed_repairs: int) -> GroupSurvey:
        """Everything that AWS says about the group, under the policy."""
        return preflight.survey(self._facts(argument, failed_repairs), argument.rules)

    def over(self, argument: MarkUnhealthy) -> str:
        """Whether an earlier try, or somebody else, has ended the instance already."""
        group_name, instance_id = frozen(argument.target.identity)
        seen = self._auto_scaling.instance(instance_id)
        if seen is None:
            if self._auto_scaling.state(instance_id) in ("terminated", "shutting-down"):
                return "terminated"
            raise failure(
                ErrorType.INSTANCE_NOT_IN_GROUP,
                f"{instance_id} left {group_name}: terminating it would bring none back. Attach it again and press "
                "`resume`, or replace it by hand and press `abort`.",
            )
        if seen["AutoScalingGroupName"] != group_name:
            raise failure(
                ErrorType.WRONG_INSTANCE,
                f"{instance_id} is in {seen['AutoScalingGroupName']} now, and was identified in {group_name}.",
            )
        if seen["LifecycleState"].startswith(_ENDING):
            return seen["LifecycleState"]
        if argument.call is ReplaceCall.SET_HEALTH and not argument.spare_is_up:
            return "Unhealthy" if seen["HealthStatus"].casefold() == "unhealthy" else ""
        return ""

    def replace(self, argument: MarkUnhealthy) -> None:
        """Tell the group. On standby its health is not looked at, so that the group has to end it by name (A7)."""
        _, instance_id = frozen(argument.target.identity)
        if argument.spare_is_up or argument.call is ReplaceCall.TERMINATE:
            self._auto_scaling.terminate(instance_id)
        else:
            self._auto_scaling.mark_unhealthy(instance_id)

    def on_standby(self, argument: RaiseSpare) -> str:
        """The state that makes raising a spare needless or impossible; empty when the instance is in service."""
        _, instance_id = frozen(argument.target.identity)
        seen = self._auto_scaling.instance(instance_id)
        if seen is None or seen["LifecycleState"].startswith(_ENDING):
            raise failure(
                ErrorType.INSTANCE_NOT_IN_GROUP,
                f"{instance_id} is {seen['LifecycleState'] if seen else 'in no group'}: it is being replaced already. "
                "Press `abort`, or `release` to give the node back.",
            )
        state = seen["LifecycleState"]
        return state if state.startswith(("Standby", "EnteringStandby")) else ""

    def raise_spare(self, argument: RaiseSpare) -> None:
        """Put the instance on standby; a second call for the same instance cannot launch a second spare."""
        self._auto_scaling.enter_standby(*frozen(argument.target.identity))

    def launched(self, argument: AwaitReplacement) -> Launches:
        """Instances that came since the survey, and what their scaling activities say they are for (A10)."""
        name = argument.survey.group
        group = self._auto_scaling.group(name)
        if group is None:
            return Launches(waits_for=f"{name} to launch an instance", obstacles=(f"the group {name} is gone",))
        since = argument.survey.at or datetime.now(UTC)
        activities = self._auto_scaling.activities(name, since - _NEIGHBOUR_WAITS)
        mine, left_over = launched_for(group, activities, argument)
        old = argument.target.identity.instance_id
        obstacles = [f"process {process['ProcessName']} is suspended" for process in group["SuspendedProcesses"]]
        hopeless = ""
        failed = failed_since(activities, argument.survey.at) if argument.survey.at and not mine else None
        if failed:
            told = explain(failed)
            obstacles.append(f"a launch failed: {told.says}")
            hopeless = "" if told.passes else told.says
        waits_for = "" if mine else f"{name} to launch an instance"
        return Launches(mine, waits_for, tuple(obstacles), hopeless, left_over, complete(group, old))

    def state(self, identity: NodeIdentity) -> str:
        """EC2's word for the old instance."""
        assert identity.instance_id is not None
        return self._auto_scaling.state(identity.instance_id)

    def _facts(self, argument: SurveyGroup, failed_repairs: int) -> GroupFacts:
        group_name, instance_id = frozen(argument.target.identity)
        group = self._auto_scaling.group(group_name)
        instance = self._auto_scaling.ec2.instance(instance_id)
        has_template, template = self._template(group)
        image_id = template.get("ImageId", "") if template else ""
        reservation_id = reservation_of(instance, template)
        ec2, now = self._auto_scaling.ec2, datetime.now(UTC)
        return GroupFacts(
            identity=argument.target.identity,
            now=now,
            group=group,
            hooks=self._auto_scaling.hooks(group_name) if group else [],
            refreshes=self._auto_scaling.refreshes(group_name) if group else [],
            activities=self._auto_scaling.activities(group_name, now - preflight.LAUNCHES_LATELY) if group else [],
            has_template=has_template,
            template=template,
            image=ec2.image(image_id) if image_id.startswith("ami-") else None,
            instance=instance,
            reservation_id=reservation_id,
            reservation=ec2.reservation(reservation_id) if reservation_id else None,
            nodegroup=self._auto_scaling.nodegroup(group),
            failed_repairs=failed_repairs,
        )

    def _template(
        self, group: "AutoScalingGroupTypeDef | None"
    ) -> "tuple[bool, ResponseLaunchTemplateDataTypeDef | None]":
        if group is None:
            return False, None
        named = group.get("LaunchTemplate")
        if named is None:
            mixed = group.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {})
            named = mixed.get("LaunchTemplateSpecification")
        template_id = named.get("LaunchTemplateId") if named else None
        if named is None or template_id is None:
            return False, None
        return True, self._auto_scaling.ec2.template(template_id, named.get("Version") or "$Default")


def frozen(identity: NodeIdentity) -> tuple[str, str]:
    """Group and instance as they were identified.

    Raises:
        ApplicationError: ``InstanceNotInGroup`` when there is none.
    """
    if identity.group is None or identity.instance_id is None:
        raise failure(
            ErrorType.INSTANCE_NOT_IN_GROUP,
            f"Node {identity.node} was identified without an instance in a group: nothing can replace it.",
        )
    return identity.group, identity.instance_id


def frozen_instance(identity: NodeIdentity) -> str:
    """The instance as it was identified.

    Raises:
        ApplicationError: ``WrongInstance`` when the Node named none.
    """
    if identity.instance_id is None:
        raise failure(
            ErrorType.WRONG_INSTANCE,
            f"Node {identity.node} was identified without an EC2 instance: nothing reboots it.",
        )
    return identity.instance_id


def reservation_of(instance: "InstanceTypeDef | None", template: "ResponseLaunchTemplateDataTypeDef | None") -> str:
    """The capacity reservation that a machine runs in, else the one that its template asks for; empty for none."""
    if instance and (held := instance.get("CapacityReservationId")):
        return held
    specified = template.get("CapacityReservationSpecification", {}) if template else {}
    return specified.get("CapacityReservationTarget", {}).get("CapacityReservationId", "")


def launched_for(
    group: "AutoScalingGroupTypeDef", activities: "list[ActivityTypeDef]", argument: AwaitReplacement
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Instances that may be an incident's replacement, and those that a neighbour may have left to it. Pure.

    Of two incidents at once the earlier one may take the launch that came for both, and then the later one would wait
    for ever: what is left, the launch that came for the earlier one, was in the group when the later one looked.
    """
    old, before, at = argument.target.identity.instance_id, set(argument.survey.instances), argument.survey.at
    there = {
        instance["InstanceId"]
        for instance in group.get("Instances", [])
        if instance["HealthStatus"].casefold() == "healthy" and not instance["LifecycleState"].startswith("Terminat")
    } - {old}
    mine = replacements(activities, there - before)
    if complete(group, old):
        # A launch for a larger group can serve as well when the group has all it wants: no other will come.
        mine += sorted(there - before - set(mine))
    lately = [a for a in activities if at and a["StartTime"] >= at - _NEIGHBOUR_WAITS]
    return tuple(mine), tuple(replacements(lately, there & before))


def complete(group: "AutoScalingGroupTypeDef", old: str | None) -> bool:
    """Whether a group has as many machines in service as it wants, without the old one. Pure."""
    serving = [
        instance
        for instance in group.get("Instances", [])
        if instance["LifecycleState"] == "InService"
        and instance["HealthStatus"].casefold() == "healthy"
        and instance["InstanceId"] != old
    ]
    return len(serving) >= group["DesiredCapacity"]
