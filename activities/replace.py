"""The point of no return, and the look before it: would the group replace the instance, and is it still the one?"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from temporalio import activity

from activities.auto_scaling import AutoScaling
from activities.claim import annotations, claimed_node
from activities.cluster import Cluster
from activities.errors import failure
from contract.acts import GroupSurvey, MarkedUnhealthy, MarkUnhealthy, SurveyGroup
from contract.identity import NodeIdentity
from contract.names import SKIP_ANNOTATION, ActivityName, ErrorType
from contract.policy import Mode, Policy

_NEEDED: Final = {
    "ReplaceUnhealthy": "it would leave the unhealthy instance alone",
    "Terminate": "it would not terminate the instance",
    "Launch": "it would terminate the instance and launch none",
}
"""Processes without which no replacement comes (Amazon EC2 Auto Scaling user guide, Suspend and resume)."""

_ENDING: Final = ("Terminating", "Terminated", "Detaching", "Detached")
"""Prefixes of lifecycle states of an instance that is on its way out of its group."""


class ReplaceActivity:
    """The acts ``survey_group`` and ``mark_instance_unhealthy``."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling, policy: Callable[[], Policy]) -> None:
        self._cluster = cluster
        self._auto_scaling = auto_scaling
        self._policy = policy

    @activity.defn(name=ActivityName.SURVEY_GROUP, no_thread_cancel_exception=True)
    def survey_group(self, argument: SurveyGroup) -> GroupSurvey:
        """See what the group has and whether it would replace. Reads only.

        Raises:
            ApplicationError: ``InstanceNotInGroup`` when the instance left the group.
        """
        identity = argument.target.identity
        group_name, instance_id = _frozen(identity)
        claimed_node(self._cluster, argument.target)
        found = self._auto_scaling.groups([group_name])
        if not found:
            raise failure(
                ErrorType.INSTANCE_NOT_IN_GROUP,
                f"The Auto Scaling group {group_name} is gone. Replace {instance_id} by hand and press `abort`.",
            )
        (group,) = found
        instances = tuple(sorted(instance["InstanceId"] for instance in group.get("Instances", [])))
        suspended = {process["ProcessName"] for process in group.get("SuspendedProcesses", [])}
        obstacles = [f"its process {name} is suspended: {why}" for name, why in _NEEDED.items() if name in suspended]
        if instance_id not in instances:
            obstacles.append(f"{instance_id} is not in it any more")
        if group["DesiredCapacity"] < len(instances):
            obstacles.append(
                f"it has {len(instances)} instances and wants {group['DesiredCapacity']}: it would launch none"
            )
        return GroupSurvey(
            group=group_name, desired=group["DesiredCapacity"], instances=instances, obstacles=tuple(obstacles)
        )

    @activity.defn(name=ActivityName.MARK_INSTANCE_UNHEALTHY, no_thread_cancel_exception=True)
    def mark_instance_unhealthy(self, argument: MarkUnhealthy) -> MarkedUnhealthy:
        """Have the group replace the very instance that was identified; everything is checked again just before.

        Raises:
            ApplicationError: any reason not to, each with its type; then the call was not made.
        """
        identity = argument.target.identity
        group_name, instance_id = _frozen(identity)
        seen = self._auto_scaling.instance(instance_id)
        # First of all: an earlier try may have made the call, and the node may be gone for that very reason.
        if seen is None:
            if self._auto_scaling.state(instance_id) in ("terminated", "shutting-down"):
                return _already(instance_id, "terminated")
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
            return _already(instance_id, seen["LifecycleState"])
        if seen["HealthStatus"].casefold() == "unhealthy":
            return _already(instance_id, "Unhealthy")
        self._check_policy(identity, drill=argument.drill)
        node, _ = claimed_node(self._cluster, argument.target)
        if node["spec"].get("providerID", "") != identity.provider_id:
            raise failure(
                ErrorType.WRONG_INSTANCE,
                f"Node {identity.node} is {node['spec'].get('providerID')} now, and was {identity.provider_id}.",
            )
        if SKIP_ANNOTATION in annotations(node):
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"Node {identity.node} carries {SKIP_ANNOTATION} now. Remove it and press `resume`, or `release`.",
            )
        self._auto_scaling.mark_unhealthy(instance_id)
        return MarkedUnhealthy(instance_id=instance_id, at=datetime.now(UTC))

    def _check_policy(self, identity: NodeIdentity, *, drill: bool) -> None:
        policy = self._policy()
        rules = policy.for_node(identity.group, identity.nodegroup)
        mode = rules.mode_for(drill=drill)
        if mode is not Mode.ACT:
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"The policy ({policy.version}) says {mode} for {identity.group} by now: the instance is not marked. "
                "Change it back and press `resume`, or press `release`.",
            )


def _frozen(identity: NodeIdentity) -> tuple[str, str]:
    if identity.group is None or identity.instance_id is None:
        raise failure(
            ErrorType.INSTANCE_NOT_IN_GROUP,
            f"Node {identity.node} was identified without an instance in a group: nothing can replace it.",
        )
    return identity.group, identity.instance_id


def _already(instance_id: str, state: str) -> MarkedUnhealthy:
    return MarkedUnhealthy(instance_id=instance_id, already=state, at=datetime.now(UTC))
