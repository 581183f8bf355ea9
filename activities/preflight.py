"""The look at a group before the point of no return: AWS's answers in, findings with the policy's answers out. Pure.

Each finding is one rule of the field (A4 to A23) that has cost somebody a machine, with its source.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from activities.scaling_activities import explain, launches
from contract.acts import GroupSurvey
from contract.identity import NodeIdentity
from contract.replacement import Answer, Found, GroupFinding, ReplaceCall, ReplacementPolicy

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import (
        ActivityTypeDef,
        AutoScalingGroupTypeDef,
        InstanceRefreshTypeDef,
        LifecycleHookTypeDef,
    )
    from mypy_boto3_ec2.type_defs import (
        CapacityReservationTypeDef,
        ImageTypeDef,
        InstanceTypeDef,
        ResponseLaunchTemplateDataTypeDef,
    )

_SUSPENDED: Final = {
    "ReplaceUnhealthy": (
        GroupFinding.REPLACE_UNHEALTHY_SUSPENDED,
        "its process ReplaceUnhealthy is suspended: it would leave the unhealthy instance alone",
    ),
    "Terminate": (
        GroupFinding.TERMINATE_SUSPENDED,
        "its process Terminate is suspended: it would not terminate the instance, until it is resumed and ends all "
        "that gathered at once",
    ),
    "Launch": (
        GroupFinding.LAUNCH_SUSPENDED,
        "its process Launch is suspended: it would terminate the instance and launch none",
    ),
    "HealthCheck": (
        GroupFinding.HEALTH_CHECK_SUSPENDED,
        "its process HealthCheck is suspended: it marks nothing itself, and still takes our mark",
    ),
}
"""Amazon EC2 Auto Scaling user guide, Suspend and resume processes (A4)."""

_USER_SUSPENDED: Final = "User suspended"
"""How the reason of a suspension by a user begins; AWS's own has another (A11)."""
_REFRESH_RUNS: Final = frozenset({"Pending", "InProgress", "Cancelling", "RollbackInProgress", "Baking"})
_RESERVATION_MARGIN: Final = timedelta(minutes=60)
"""EC2 takes the instances of a Capacity Block back 30 minutes before its end, EKS 40 (A16)."""
LAUNCHES_LATELY: Final = timedelta(hours=1)


@dataclass(frozen=True)
class GroupFacts:
    """What AWS says about a group and one of its instances."""

    identity: NodeIdentity
    now: datetime
    group: "AutoScalingGroupTypeDef | None" = None
    hooks: list["LifecycleHookTypeDef"] = field(default_factory=list)
    refreshes: list["InstanceRefreshTypeDef"] = field(default_factory=list)
    activities: list["ActivityTypeDef"] = field(default_factory=list)
    """The newest first."""
    has_template: bool = False
    template: "ResponseLaunchTemplateDataTypeDef | None" = None
    image: "ImageTypeDef | None" = None
    instance: "InstanceTypeDef | None" = None
    reservation_id: str = ""
    reservation: "CapacityReservationTypeDef | None" = None
    nodegroup: dict[str, Any] | None = None
    """EKS's description of the managed node group, where the group belongs to one."""
    failed_repairs: int = 0
    """Replacements of the group that failed within the last day."""


def survey(facts: GroupFacts, rules: ReplacementPolicy) -> GroupSurvey:
    """The group as it is, what was found, and what follows from it under the policy."""
    found = findings(facts, rules)
    answers = {one.answer for one in found}
    present = {one.finding for one in found}
    group = facts.group
    terminates = present & {GroupFinding.REPLACE_UNHEALTHY_SUSPENDED, GroupFinding.STANDBY}
    wants_spare = rules.spare_first or Answer.SPARE_FIRST in answers
    return GroupSurvey(
        group=facts.identity.group or "",
        desired=group["DesiredCapacity"] if group else 0,
        instances=tuple(sorted(i["InstanceId"] for i in group.get("Instances", []))) if group else (),
        obstacles=tuple(one.explanation for one in found if one.answer in (Answer.WAIT, Answer.ASK)),
        findings=tuple(found),
        # The group's own replacing is off, or does not look at this instance: ending it through the group still works.
        call=ReplaceCall.TERMINATE if terminates else ReplaceCall.SET_HEALTH,
        # Held capacity that is full has room for the next machine only when this one is gone (A16).
        spare_first=wants_spare and GroupFinding.RESERVATION_FULL not in present,
        reboot_first=Answer.REBOOT_FIRST in answers,
        image=_launches(facts),
        at=facts.now,
    )


def _launches(facts: GroupFacts) -> str:
    """The image of whatever the group launches; empty where a launch may be of another template, or names none."""
    mixed = facts.group.get("MixedInstancesPolicy", {}) if facts.group else {}
    overrides = mixed.get("LaunchTemplate", {}).get("Overrides", [])
    image_id = facts.template.get("ImageId", "") if facts.template else ""
    own = any("LaunchTemplateSpecification" in override for override in overrides)
    return image_id if image_id.startswith("ami-") and not own else ""


def passes_by_itself(survey: GroupSurvey) -> bool:
    """Whether nothing but time is needed."""
    in_the_way = [one for one in survey.findings if one.answer in (Answer.WAIT, Answer.ASK)]
    return bool(in_the_way) and all(one.answer is Answer.WAIT for one in in_the_way)


def findings(facts: GroupFacts, rules: ReplacementPolicy) -> list[Found]:
    """Everything that is to be known before the instance is given up."""
    return [
        Found(finding=finding, answer=rules.answer(finding), explanation=explanation)
        for look in _LOOKS
        for finding, explanation in look(facts, rules)
    ]


def _existence(facts: GroupFacts, _rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    group, instance_id = facts.group, facts.identity.instance_id
    if group is None:
        yield GroupFinding.GROUP_GONE, f"it is gone. Replace {instance_id} by hand and press `abort`"
        return
    member = next((i for i in group.get("Instances", []) if i["InstanceId"] == instance_id), None)
    if member is None:
        yield GroupFinding.INSTANCE_GONE, f"{instance_id} is not in it any more"
        return
    if member["LifecycleState"] == "Standby":
        yield (
            GroupFinding.STANDBY,
            f"somebody put {instance_id} on standby: the group does not look at its health, and launched another "
            "already, or wants fewer",
        )
    if member.get("ProtectedFromScaleIn"):
        yield (
            GroupFinding.SCALE_IN_PROTECTED,
            f"{instance_id} is protected from scale-in, which does not keep it from being replaced (A6)",
        )


def _processes(facts: GroupFacts, _rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    if facts.group is None:
        return
    suspended = {p["ProcessName"]: p.get("SuspensionReason", "") for p in facts.group.get("SuspendedProcesses", [])}
    for name, (finding, explanation) in _SUSPENDED.items():
        if name in suspended:
            yield finding, explanation
    by_aws = [name for name, why in suspended.items() if why and not why.startswith(_USER_SUSPENDED)]
    if by_aws:
        yield (
            GroupFinding.ADMINISTRATIVELY_SUSPENDED,
            f"AWS itself suspended {', '.join(sorted(by_aws))}, as it does after a day of failed launches (A11)",
        )
    zones = facts.group.get("AvailabilityZones", [])
    if len(zones) > 1 and "AZRebalance" not in suspended:
        yield (
            GroupFinding.AZ_REBALANCE,
            "it balances its zones: a replacement in another zone may make it end a healthy instance (A18)",
        )


def _size(facts: GroupFacts, _rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    group = facts.group
    if group is None:
        return
    counted = [
        i
        for i in group.get("Instances", [])
        if i["LifecycleState"] in ("InService", "Pending", "Pending:Wait", "Pending:Proceed")
        and (i["HealthStatus"].casefold() == "healthy" or i["InstanceId"] == facts.identity.instance_id)
    ]
    desired = group["DesiredCapacity"]
    if desired < len(counted):
        yield GroupFinding.WANTS_FEWER, f"it has {len(counted)} and wants {desired}: it would launch none"
    if desired >= group["MaxSize"]:
        yield GroupFinding.AT_MAX, f"it is at its maximum of {desired}: only a replacement can be launched"
    if desired <= group["MinSize"]:
        yield GroupFinding.AT_MIN, f"it is at its minimum of {desired}: it is below it until the replacement is there"
    policy = group.get("InstanceMaintenancePolicy") or {}
    if policy.get("MinHealthyPercentage", 0) == 100 and policy.get("MaxHealthyPercentage", 0) > 100:
        yield (
            GroupFinding.MAINTENANCE_POLICY,
            "its maintenance policy has it launch before it terminates: the old instance stays until then (A5)",
        )
    if group.get("WarmPoolConfiguration"):
        yield GroupFinding.WARM_POOL, "it has a warm pool: the replacement comes out of that, not from a launch (A20)"


def _hooks(facts: GroupFacts, _rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    for hook in facts.hooks:
        ends = hook.get("LifecycleTransition", "").endswith("EC2_INSTANCE_TERMINATING")
        finding = GroupFinding.TERMINATION_HOOK if ends else GroupFinding.LAUNCH_HOOK
        # At most 48 hours or a hundred times the heartbeat (API reference, PutLifecycleHook; A12). EKS's own hooks of
        # a managed node group take 5 to 10 minutes even for an empty node (A13).
        yield (
            finding,
            f"its hook {hook.get('LifecycleHookName')} holds {'the old' if ends else 'the new'} instance up for "
            f"{hook.get('HeartbeatTimeout', 0)} s or more",
        )


def _source(facts: GroupFacts, _rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    if not facts.has_template:
        return
    if facts.template is None:
        yield GroupFinding.TEMPLATE_MISSING, "its launch template, or that version of it, is gone: no launch works"
        return
    image_id = facts.template.get("ImageId", "")
    if not image_id.startswith("ami-"):
        return
    if facts.image is None or facts.image.get("State") not in (None, "available"):
        yield GroupFinding.IMAGE_MISSING, f"its image {image_id} is gone or switched off: no launch works"
    elif facts.identity.image and image_id != facts.identity.image:
        yield (
            GroupFinding.IMAGE_CHANGED,
            f"it launches {image_id} by now, and this machine runs {facts.identity.image}",
        )


def _rollouts(facts: GroupFacts, _rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    for refresh in facts.refreshes:
        if refresh.get("Status") in _REFRESH_RUNS:
            yield (
                GroupFinding.INSTANCE_REFRESH,
                f"an instance refresh ({refresh.get('InstanceRefreshId')}) runs, and would count the replacement (A19)",
            )
    if facts.identity.fuse:
        yield GroupFinding.OTHER_REPAIRER, f"it is not alone with the machine: {facts.identity.fuse.says} (A23)"
    yield from of_managed_group(facts.nodegroup)


def of_managed_group(nodegroup: dict[str, Any] | None) -> Iterator[tuple[GroupFinding, str]]:
    """What EKS itself does with a managed node group; nothing where it is none."""
    if nodegroup is None:
        return
    name = nodegroup.get("nodegroupName")
    if nodegroup.get("status") == "UPDATING":
        yield GroupFinding.NODEGROUP_UPDATING, f"EKS is updating its node group {name}, and drains nodes itself (A19)"
    if (nodegroup.get("nodeRepairConfig") or {}).get("enabled"):
        yield (
            GroupFinding.OTHER_REPAIRER,
            f"EKS repairs nodes of {name} too, and may reboot or replace this one on its own (A23)",
        )


def _capacity(facts: GroupFacts, _rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    if not facts.reservation_id:
        return
    held, called = facts.reservation, f"the capacity reservation {facts.reservation_id}"
    if held is None or held.get("State") != "active":
        state = held.get("State") if held else "gone"
        yield GroupFinding.RESERVATION_GONE, f"{called} that this machine runs in is {state}: no other may be had (A17)"
        return
    ends = held.get("EndDate")
    if ends and ends - facts.now < _RESERVATION_MARGIN:
        yield (
            GroupFinding.RESERVATION_ENDING,
            f"{called} ends at {ends:%Y-%m-%d %H:%M} UTC: a replacement would be taken back at once (A16)",
        )
    if held.get("AvailableInstanceCount", 0) == 0:
        yield (
            GroupFinding.RESERVATION_FULL,
            f"{called} is full: the replacement launches minutes after this instance is gone, and not before (A16)",
        )


def _the_past(facts: GroupFacts, rules: ReplacementPolicy) -> Iterator[tuple[GroupFinding, str]]:
    newest = next(iter(launches(facts.activities)), None)
    if newest and newest["StatusCode"] in ("Failed", "Cancelled"):
        at = newest.get("StartTime")
        if at and facts.now - at < LAUNCHES_LATELY:
            told = explain(newest)
            finding = GroupFinding.NO_CAPACITY if told.passes else GroupFinding.LAUNCHES_FAIL
            yield finding, f"its newest launch failed: {told.says}"
    if facts.failed_repairs >= rules.failed_repairs_max:
        yield (
            GroupFinding.FAILED_REPAIRS,
            f"{facts.failed_repairs} of its replacements failed within a day: another may well fail too (V11)",
        )


_LOOKS: Final = (_existence, _processes, _size, _hooks, _source, _rollouts, _capacity, _the_past)
