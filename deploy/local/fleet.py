"""Plays Auto Scaling, the machines and the cloud controller: moto keeps the books, but nothing happens in it by itself.

An instance marked Unhealthy is terminated; a group that is short of its desired capacity gets a new instance, in the
zone of the one that went; a new machine's Node registers after a boot delay, and its devices show after another; the
Node of an ended instance is removed. Suspended processes of a group are respected.
"""

import contextlib
import itertools
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kubernetes import client
from kubernetes.client import ApiException

from deploy.local.aws import AMI, Aws
from deploy.local.books import NO_CAPACITY, Books
from deploy.local.kubernetes import Kubernetes
from deploy.local.machine import TRN1, Machine, MachineShape, node_of

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import AutoScalingGroupTypeDef

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.25
_TICK_PER_MACHINE_S: Final = 0.002
"""Listing a thousand machines costs moto and this loop a quarter of a second of a core (measured): four times a second
that would be half of a small machine."""
_BACK_OFF_S: Final = 5.0
"""The longest pause after failures in a row."""


@dataclass
class FleetKnobs:
    """How this cloud behaves. Change them while it runs; all delays are in seconds."""

    boot_delay_s: float = 2.0
    """From launch to the Node."""
    device_delay_s: float = 1.0
    """From the Node to its devices."""
    terminate_delay_s: float = 0.5
    """From the mark to the end of the instance."""
    node_removal_delay_s: float = 1.0
    """From the end of an instance to the removal of its Node, as a cloud controller does it."""
    fail_launches: bool | int = False
    """No capacity: True while it lasts, or a number of attempts that fail (counted down here)."""
    launch_failure: str = NO_CAPACITY
    """What Auto Scaling says of a launch that fails."""
    reboot_delay_s: float = 0.5
    """From a reboot to the new boot of the kubelet."""
    devices_after_reboot: int | None = None
    """Devices that a rebooted machine shows; None for all of them."""
    register_nodes: bool = True
    """Whether launched machines ever join the cluster."""
    taint_at_registration: bool = True
    """Whether the launch template has new machines register with the startup taint."""
    devices_on_launch: int | None = None
    """Devices that a launched machine shows; None for all of them."""


@dataclass
class Fleet:
    """The loop, on a thread of its own. Use it as a context manager."""

    kubernetes: Kubernetes
    aws: Aws
    knobs: FleetKnobs = field(default_factory=FleetKnobs)
    launched: list[str] = field(default_factory=list)
    """Instance ids launched into running groups, in order."""
    terminated: list[str] = field(default_factory=list)
    """Instance ids that ended, in order."""
    error: str = ""
    """What went wrong in the last turn of the loop; empty when nothing did. It is tried again."""
    turns: int = 0
    """How often the loop has looked at the world: when two more have passed, it has seen what is there now."""

    def __post_init__(self) -> None:
        self._shapes: dict[str, MachineShape] = {}
        self._vacated: dict[str, list[str]] = {}
        self._machines: dict[str, Machine] = {}
        self._subnets: dict[str, tuple[str, Iterator[IPv4Address]]] = {}
        self._books = Books(self.aws)
        self._standing_by: set[str] = set()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self._open = ExitStack()

    def __enter__(self) -> "Fleet":
        api = self._open.enter_context(self.kubernetes.connected())
        self._core: Any = client.CoreV1Api(api)
        self._auto_scaling = self._open.enter_context(contextlib.closing(self.aws.client("autoscaling")))
        self._ec2 = self._open.enter_context(contextlib.closing(self.aws.client("ec2")))
        for subnet in self._ec2.describe_subnets()["Subnets"]:
            # AWS keeps the first four addresses of a subnet.
            addresses = itertools.islice(IPv4Network(subnet["CidrBlock"]).hosts(), 3, None)
            self._subnets[subnet["AvailabilityZone"]] = (subnet["SubnetId"], addresses)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._open.close()

    def create_group(self, name: str, size: int, shape: MachineShape = TRN1) -> list[str]:
        """An Auto Scaling group with machines that are in the cluster already. Returns their node names."""
        with self._lock:
            self._ec2.create_launch_template(
                LaunchTemplateName=_template(name),
                LaunchTemplateData={"ImageId": AMI, "InstanceType": shape.instance_type},  # type: ignore[typeddict-item]
            )
            self._auto_scaling.create_auto_scaling_group(
                AutoScalingGroupName=name,
                LaunchTemplate={"LaunchTemplateName": _template(name)},
                MinSize=0,
                MaxSize=size * 2 + 2,
                DesiredCapacity=size,
                VPCZoneIdentifier=",".join(self._subnets[zone][0] for zone in shape.zones),
            )
            self._shapes[name] = shape
            self._vacated[name] = []
            self._books.open(name, size)
            machines = [
                self._launch(name, shape.zones[number % len(shape.zones)], fresh=False) for number in range(size)
            ]
            for machine in machines:
                self._register(machine)
                self._show_devices(machine, shape.devices)
            return [machine.node for machine in machines]

    def remove_group(self, name: str) -> None:
        """Remove a group with its machines and their Nodes, at once."""
        with self._lock:
            self._shapes.pop(name, None)
            self._vacated.pop(name, None)
            machines = [machine for machine in self._machines.values() if machine.group == name]
            self._auto_scaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
            self._ec2.delete_launch_template(LaunchTemplateName=_template(name))
            if running := [machine.instance_id for machine in machines if machine.ended_at is None]:
                self._ec2.terminate_instances(InstanceIds=running)
            for machine in machines:
                self._remove_node(machine)
                del self._machines[machine.instance_id]

    def _run(self) -> None:
        failures = 0
        while not self._stop.wait(min(max(_TICK_S * 2**failures, self._pause_s), _BACK_OFF_S)):
            with self._lock:
                errors = self._tick()
            # Whatever went wrong, the cloud goes on; a test reads the reason here.
            self.error = "; ".join(errors)
            self.turns += 1
            failures = min(failures + 1, 10) if errors else 0
            for error in errors:
                _log.warning("fleet: %s", error)

    @property
    def _pause_s(self) -> float:
        return _TICK_PER_MACHINE_S * len(self._machines)

    def _tick(self) -> list[str]:
        errors: list[str] = []

        @contextlib.contextmanager
        def noted(what: str) -> Iterator[None]:
            try:
                yield
            except Exception as error:
                errors.append(f"{what}: {type(error).__name__}: {error}")

        now = time.monotonic()
        with noted("EC2"):
            self._play_reboots(now)
        if self._shapes:
            with noted("Auto Scaling"):
                answer = self._auto_scaling.describe_auto_scaling_groups(AutoScalingGroupNames=list(self._shapes))
                for group in answer["AutoScalingGroups"]:
                    with noted(group["AutoScalingGroupName"]):
                        self._play_group(group, now)
        for machine in list(self._machines.values()):
            with noted(machine.node):
                self._play_machine(machine, now)
        return errors

    def _play_group(self, group: "AutoScalingGroupTypeDef", now: float) -> None:
        name = group["AutoScalingGroupName"]
        suspended = {process["ProcessName"] for process in group["SuspendedProcesses"]}
        listed = {instance["InstanceId"]: instance for instance in group["Instances"]}
        self._notice_ended(name, set(listed), now)
        self._books.see_desired(name, group["DesiredCapacity"])
        at_work = [i for i in listed.values() if i["LifecycleState"] == "InService"]
        self._standing_by |= {i["InstanceId"] for i in listed.values() if i["LifecycleState"] == "Standby"}
        self._standing_by -= {i["InstanceId"] for i in at_work}
        unhealthy = [i for i in at_work if i["HealthStatus"] == "Unhealthy"]
        if _launches_first(group) and "Launch" not in suspended:
            # A maintenance policy that lets the group grow has it launch first (user guide, maintenance policies).
            spare = len(at_work) - group["DesiredCapacity"]
            for _ in range(len(unhealthy) - spare):
                self._fill(name, unhealthy=True)
            unhealthy = unhealthy[: max(0, self._grown(name, listed))]
        for instance in unhealthy:
            machine = self._machines.get(instance["InstanceId"])
            if machine is None:
                continue
            machine.marked_at = machine.marked_at or now
            due = now - machine.marked_at >= self.knobs.terminate_delay_s
            if due and not suspended & {"ReplaceUnhealthy", "Terminate"}:
                self._terminate(machine, now)
                at_work.remove(instance)
                self._books.owe(name)
        missing = group["DesiredCapacity"] - len(at_work)
        if "Launch" not in suspended:
            for _ in range(missing):
                if not self._fill(name):
                    break
        if "Terminate" not in suspended and missing < 0:
            unprotected = [i["InstanceId"] for i in at_work if not i["ProtectedFromScaleIn"]]
            for instance_id in unprotected[:-missing]:
                self._terminate(self._machines[instance_id], now)
                self._vacated[name].clear()

    def _fill(self, name: str, *, unhealthy: bool = False) -> bool:
        """Launch one instance into a group that is short of one. False when there is no capacity."""
        if self._refuses_launch():
            self._books.launch_failed(name, self.knobs.launch_failure)
            return False
        vacated = self._vacated[name]
        machine = self._launch(name, vacated[0] if vacated else self._emptiest_zone(name), fresh=True)
        self.launched.append(machine.instance_id)
        self._books.launched(name, machine.instance_id, unhealthy=unhealthy)
        del vacated[:1]
        return True

    def _grown(self, name: str, listed: dict[str, Any]) -> int:
        """Machines of a group beyond what it wants that have joined the cluster already."""
        joined = [m for m in self._machines.values() if m.instance_id in listed and m.registered_at]
        return len(joined) - self._books.desired[name]

    def _play_reboots(self, now: float) -> None:
        for instance_id in self._books.new_reboots():
            if machine := self._machines.get(instance_id):
                machine.reboots_at = now + self.knobs.reboot_delay_s
        for machine in self._machines.values():
            if machine.reboots_at is not None and now >= machine.reboots_at:
                machine.reboots_at = None
                wanted = self.knobs.devices_after_reboot
                with _absence_is_fine():
                    self._core.patch_node_status(machine.node, {"status": {"nodeInfo": {"bootID": str(uuid.uuid4())}}})
                self._show_devices(machine, machine.shape.devices if wanted is None else wanted)

    def _notice_ended(self, group: str, listed: set[str], now: float) -> None:
        """See what somebody else terminated, through EC2 or through Auto Scaling. A detached machine runs on."""
        for machine in self._machines.values():
            if machine.group == group and machine.ended_at is None and machine.instance_id not in listed:
                answer = self._ec2.describe_instances(InstanceIds=[machine.instance_id])
                state = answer["Reservations"][0]["Instances"][0]["State"]["Name"]
                if state in ("shutting-down", "terminated"):
                    self._note_end(machine, now)

    def _play_machine(self, machine: Machine, now: float) -> None:
        if machine.ended_at is not None:
            if now - machine.ended_at >= self.knobs.node_removal_delay_s:
                self._remove_node(machine)
                del self._machines[machine.instance_id]
        elif machine.registered_at is None:
            if self.knobs.register_nodes and now - machine.launched_at >= self.knobs.boot_delay_s:
                self._register(machine)
        elif not machine.devices_shown and now - machine.registered_at >= self.knobs.device_delay_s:
            wanted = self.knobs.devices_on_launch
            self._show_devices(machine, machine.shape.devices if wanted is None else wanted)

    def _refuses_launch(self) -> bool:
        failing = self.knobs.fail_launches
        if not isinstance(failing, bool) and failing > 0:
            self.knobs.fail_launches = failing - 1
        return bool(failing)

    def _emptiest_zone(self, group: str) -> str:
        # Zones are balanced over what is in service (user guide, Temporarily remove instances: a standby unbalances).
        mine = [m for m in self._machines.values() if m.group == group and m.ended_at is None]
        used = [m.zone for m in mine if m.instance_id not in self._standing_by]
        return min(self._shapes[group].zones, key=used.count)

    def _terminate(self, machine: Machine, now: float) -> None:
        self._auto_scaling.terminate_instance_in_auto_scaling_group(
            InstanceId=machine.instance_id, ShouldDecrementDesiredCapacity=False
        )
        self._note_end(machine, now)

    def _note_end(self, machine: Machine, now: float) -> None:
        machine.ended_at = now
        self._books.ended(machine.group, machine.instance_id)
        self.terminated.append(machine.instance_id)
        self._vacated[machine.group].append(machine.zone)

    def _launch(self, group: str, zone: str, *, fresh: bool) -> Machine:
        shape = self._shapes[group]
        subnet, addresses = self._subnets[zone]
        (instance,) = self._ec2.run_instances(
            ImageId=AMI,
            InstanceType=shape.instance_type,  # type: ignore[arg-type]
            MinCount=1,
            MaxCount=1,
            SubnetId=subnet,
            # Moto gives a freed address, and with it the node name, to the very next launch; EC2 takes its time.
            PrivateIpAddress=str(next(addresses)),
        )["Instances"]
        instance_id = instance["InstanceId"]
        try:
            self._auto_scaling.attach_instances(AutoScalingGroupName=group, InstanceIds=[instance_id])
        except BaseException:
            self._ec2.terminate_instances(InstanceIds=[instance_id])
            raise
        machine = Machine(
            instance_id=instance_id,
            node=instance["PrivateDnsName"],
            zone=zone,
            shape=shape,
            group=group,
            launched_at=time.monotonic(),
            fresh=fresh and self.knobs.taint_at_registration,
        )
        self._machines[instance_id] = machine
        return machine

    def _register(self, machine: Machine) -> None:
        try:
            node = self._core.create_node(node_of(machine))
        except ApiException as error:
            if error.status != 409:
                raise
            node = self._core.read_node(machine.node)
            if node.spec.provider_id != machine.provider_id:
                # The Node of an earlier machine of that name: it is tried again until that is removed.
                return
        machine.node_uid = node.metadata.uid
        machine.registered_at = time.monotonic()

    def _show_devices(self, machine: Machine, count: int) -> None:
        amount = {machine.shape.device_resource: str(count)}
        with _absence_is_fine():
            self._core.patch_node_status(
                machine.node,
                {"status": {"capacity": amount, "allocatable": amount}},
                _content_type="application/merge-patch+json",
            )
        machine.devices_shown = True

    def _remove_node(self, machine: Machine) -> None:
        if machine.node_uid:
            with _absence_is_fine():
                # By UID: the name may be another machine's by now.
                self._core.delete_node(machine.node, body={"preconditions": {"uid": machine.node_uid}})


def _launches_first(group: "AutoScalingGroupTypeDef") -> bool:
    policy = group.get("InstanceMaintenancePolicy") or {}
    return policy.get("MinHealthyPercentage", 0) == 100 and policy.get("MaxHealthyPercentage", 0) > 100


def _template(group: str) -> str:
    return f"{group}-template"


@contextlib.contextmanager
def _absence_is_fine() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        # 409: the UID precondition, so ours is gone and another has its name.
        if error.status not in (404, 409):
            raise
