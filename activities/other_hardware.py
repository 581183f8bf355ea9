"""A stop and a start instead of a reboot: the machine then runs on other hardware, where it may be stopped at all.

An instance that is started runs on other hardware in nearly all cases (EC2 user guide, Stop and start your instance).
Once it was stopped for this it is started again, whatever else happens: it must not be left off.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.waiting import insist, overdue, report_progress
from contract.identity import MachineKind, NodeIdentity

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import AutoScalingInstanceDetailsTypeDef
    from mypy_boto3_ec2.type_defs import InstanceTypeDef

_LOOK_EVERY_S: Final = 1.0
_NOT_LOOKED_AT: Final = "HealthCheck"
"""The process of a group whose suspension makes it overlook that an instance is stopped. With ``ReplaceUnhealthy``
alone suspended it would mark the instance, and replace it as soon as that is resumed (A4)."""


class OtherHardware:
    """Moves an instance to other hardware."""

    def __init__(self, auto_scaling: AutoScaling) -> None:
        self._auto_scaling = auto_scaling
        self._ec2 = auto_scaling.ec2

    def why_not(self, identity: NodeIdentity) -> str:
        """Why this machine must not be stopped, as a clause; empty where it may be."""
        assert identity.instance_id is not None
        instance = self._ec2.instance(identity.instance_id)
        member = self._auto_scaling.instance(identity.instance_id)
        group = self._auto_scaling.group(member["AutoScalingGroupName"]) if member else None
        suspended = {process["ProcessName"] for process in group["SuspendedProcesses"]} if group else set()
        has_disks = instance is not None and self._ec2.has_instance_store(instance.get("InstanceType", ""))
        return why_not_stopped(identity, instance, member, suspended, has_disks=has_disks)

    def begun(self, identity: NodeIdentity) -> bool:
        """Whether the instance is being stopped, is stopped, or was started since it was identified."""
        assert identity.instance_id is not None
        instance = self._ec2.instance(identity.instance_id)
        return instance is not None and (_state(instance) in ("stopping", "stopped") or _started(instance, identity))

    def move(self, identity: NodeIdentity, end: datetime) -> str:
        """Stop the instance, once, and start it; returns why that did not come off in time, or nothing.

        Raises:
            ApplicationError: ``Unreachable`` when the worker stops or AWS does not answer: a retry goes on with it.
        """
        instance_id, asked, trouble = identity.instance_id, False, ""
        assert instance_id is not None
        while True:
            instance = self._ec2.instance(instance_id)
            state = _state(instance) if instance else "terminated"
            if instance is None or state in ("shutting-down", "terminated"):
                return f"{instance_id} is {state}: somebody ended it while it was to be stopped and started"
            if state == "running" and _started(instance, identity):
                return ""
            if state == "running" and not asked:
                self._ec2.stop(instance_id)
                asked = True
            elif state == "stopped":
                trouble = self._try_to_start(instance_id)
            if overdue(end):
                return f"{instance_id} is still {state} after it was stopped to be started{trouble}"
            report_progress({"instance": state, "trouble": trouble})
            insist(_LOOK_EVERY_S)

    def _try_to_start(self, instance_id: str) -> str:
        """EC2 may have no room for it now: then it is tried again until there is no time left."""
        try:
            self._ec2.start(instance_id)
        except ApplicationError as error:
            return f" ({error.message})"
        return ""


def why_not_stopped(
    identity: NodeIdentity,
    instance: "InstanceTypeDef | None",
    member: "AutoScalingInstanceDetailsTypeDef | None",
    suspended: set[str],
    *,
    has_disks: bool,
) -> str:
    """Why a machine must not be stopped, as a clause; empty where it may be. Pure.

    Args:
        identity: as it was frozen.
        instance: what EC2 says of it.
        member: how its Auto Scaling group sees it, where it is in one.
        suspended: processes of that group that are suspended.
        has_disks: whether its type has instance-store disks.
    """
    if instance is None or identity.launched_at is None:
        return "EC2 does not say when it was launched, by which a start is told"
    if instance.get("RootDeviceType") != "ebs":
        return "its root is no EBS volume: EC2 cannot stop it"
    if has_disks:
        return f"stopping it erases the instance-store disks of a {instance.get('InstanceType')}"
    if (market := instance.get("InstanceLifecycle")) is not None:
        return f"it is a {market} instance: EC2 may not start it again"
    if instance.get("Placement", {}).get("Affinity") == "host":
        return "it is bound to its dedicated host, and would start there again"
    if identity.kind in (MachineKind.KARPENTER, MachineKind.CLUSTER_API):
        return f"{identity.kind} keeps it, and takes a machine that is off for one that failed"
    if member and member["LifecycleState"] != "Standby" and _NOT_LOOKED_AT not in suspended:
        return (
            f"{member['AutoScalingGroupName']} would replace it while it is off: put it on standby, or suspend the "
            f"group's process {_NOT_LOOKED_AT}, to have it stopped"
        )
    return ""


def _state(instance: "InstanceTypeDef") -> str:
    return str(instance["State"]["Name"])


def _started(instance: "InstanceTypeDef", identity: NodeIdentity) -> bool:
    """EC2's launch time of an instance is that of its last start (EC2 API reference, Instance)."""
    return identity.launched_at is not None and instance["LaunchTime"] > identity.launched_at
