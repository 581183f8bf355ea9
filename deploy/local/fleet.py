"""Plays Auto Scaling, the machines and the cloud controller: moto keeps the books, but nothing happens in it by itself.

An instance marked Unhealthy is terminated and another launched in its zone; the new machine's Node registers after a
boot delay and its devices after another; the Node of a terminated instance is removed. Suspended processes are
respected. Moto would launch at once and in any zone, so instances are launched here and attached.
"""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kubernetes import client
from kubernetes.client import ApiException

from contract.names import INSTANCE_TYPE_LABEL, NODEGROUP_LABEL, STARTUP_TAINT, ZONE_LABEL
from deploy.local.aws import REGION, Aws
from deploy.local.kubernetes import Kubernetes

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import AutoScalingGroupTypeDef

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.25
_AMI: Final = "ami-12c6146b"
"""Any id: moto does not look it up."""


@dataclass
class FleetKnobs:
    """How this cloud behaves; change them while it runs."""

    boot_delay_s: float = 2.0
    """From launch to the Node."""
    device_delay_s: float = 1.0
    """From the Node to its devices."""
    terminate_delay_s: float = 0.5
    """From the mark to the end of the instance."""
    node_removal_delay_s: float = 1.0
    """From the end of an instance to the removal of its Node, as a cloud controller does it."""
    launches_fail: bool = False
    """No capacity: nothing is launched while this holds. (Moto's desired capacity reads one less meanwhile.)"""
    nodes_register: bool = True
    """Whether launched machines ever join the cluster."""
    devices_on_launch: int | None = None
    """Devices of each kind that a launched machine shows; None for all of them."""


@dataclass(frozen=True)
class MachineShape:
    """What the machines of a group are."""

    instance_type: str = "trn1.32xlarge"
    device_resource: str = "aws.amazon.com/neuron"
    devices: int = 16
    cpu: str = "128"
    memory: str = "512Gi"
    zones: tuple[str, ...] = (f"{REGION}a", f"{REGION}b")


@dataclass
class _Machine:
    """One instance on its way into or out of the cluster."""

    instance_id: str
    node: str
    zone: str
    shape: MachineShape
    group: str
    launched_at: float
    fresh: bool
    """Launched as a replacement, so it keeps the startup taint until somebody has verified it."""
    registered_at: float | None = None
    whole: bool = False
    ended_at: float | None = None
    marked_at: float | None = None


@dataclass
class Fleet:
    """The loop, on a thread of its own. Use it as a context manager."""

    kubernetes: Kubernetes
    aws: Aws
    knobs: FleetKnobs = field(default_factory=FleetKnobs)
    launched: list[str] = field(default_factory=list)
    """Instance ids launched as replacements, in order."""
    terminated: list[str] = field(default_factory=list)
    """Instance ids that ended, in order."""
    error: str = ""
    """The last thing that went wrong; it is tried again."""

    def __post_init__(self) -> None:
        self._groups: dict[str, MachineShape] = {}
        self._owed: dict[str, list[str]] = {}
        self._machines: dict[str, _Machine] = {}
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self._connection = self.kubernetes.connected()
        self._core: Any = client.CoreV1Api(self._connection.__enter__())
        self._auto_scaling = self.aws.auto_scaling()
        self._ec2 = self.aws.ec2()

    def __enter__(self) -> "Fleet":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.__exit__(None, None, None)

    def create_group(self, name: str, size: int, shape: MachineShape = MachineShape()) -> list[str]:
        """An Auto Scaling group with machines that are in the cluster already. Returns their node names."""
        with self._lock:
            configuration = f"{name}-template"
            self._ec2.create_launch_template(
                LaunchTemplateName=configuration,
                LaunchTemplateData={"ImageId": _AMI, "InstanceType": shape.instance_type},  # type: ignore[typeddict-item]
            )
            self._auto_scaling.create_auto_scaling_group(
                AutoScalingGroupName=name,
                LaunchTemplate={"LaunchTemplateName": configuration},
                MinSize=0,
                MaxSize=size * 2,
                DesiredCapacity=0,
                AvailabilityZones=list(shape.zones),
            )
            self._groups[name] = shape
            self._owed[name] = []
            nodes = []
            for number in range(size):
                machine = self._launch(name, shape.zones[number % len(shape.zones)], fresh=False)
                self._register(machine)
                self._give_devices(machine, shape.devices)
                nodes.append(machine.node)
            return nodes

    def remove_group(self, name: str) -> None:
        """Forget a group and remove its machines and Nodes."""
        with self._lock:
            self._groups.pop(name, None)
            self._owed.pop(name, None)
            machines = [machine for machine in self._machines.values() if machine.group == name]
            self._auto_scaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
            self._ec2.delete_launch_template(LaunchTemplateName=f"{name}-template")
            for machine in machines:
                self._remove_node(machine)
                del self._machines[machine.instance_id]

    def _run(self) -> None:
        while not self._stop.wait(_TICK_S):
            try:
                with self._lock:
                    self._tick()
            except Exception as error:
                # Whatever it was, the cloud goes on; a test reads the reason here.
                self.error = f"{type(error).__name__}: {error}"
                _log.warning("fleet: %s", self.error)

    def _tick(self) -> None:
        if not self._groups:
            return
        now = time.monotonic()
        answer = self._auto_scaling.describe_auto_scaling_groups(AutoScalingGroupNames=list(self._groups))
        for group in answer["AutoScalingGroups"]:
            self._play_group(group, now)
        for machine in list(self._machines.values()):
            self._play_machine(machine, now)

    def _play_group(self, group: "AutoScalingGroupTypeDef", now: float) -> None:
        name = group["AutoScalingGroupName"]
        suspended = {process["ProcessName"] for process in group.get("SuspendedProcesses", [])}
        for instance in group.get("Instances", []):
            machine = self._machines.get(instance["InstanceId"])
            if machine is None or instance["HealthStatus"] != "Unhealthy":
                continue
            machine.marked_at = machine.marked_at or now
            due = now - machine.marked_at >= self.knobs.terminate_delay_s
            if due and not suspended & {"ReplaceUnhealthy", "Terminate"}:
                self._terminate(machine, now)
                self._owed[name].append(machine.zone)
        if "Launch" not in suspended and not self.knobs.launches_fail:
            while self._owed[name]:
                self.launched.append(self._launch(name, self._owed[name][0], fresh=True).instance_id)
                self._owed[name].pop(0)

    def _play_machine(self, machine: _Machine, now: float) -> None:
        if machine.ended_at is not None:
            if now - machine.ended_at >= self.knobs.node_removal_delay_s:
                self._remove_node(machine)
                del self._machines[machine.instance_id]
        elif machine.registered_at is None:
            if self.knobs.nodes_register and now - machine.launched_at >= self.knobs.boot_delay_s:
                self._register(machine)
        elif not machine.whole and now - machine.registered_at >= self.knobs.device_delay_s:
            wanted = self.knobs.devices_on_launch
            self._give_devices(machine, machine.shape.devices if wanted is None else wanted)

    def _terminate(self, machine: _Machine, now: float) -> None:
        self._auto_scaling.terminate_instance_in_auto_scaling_group(
            InstanceId=machine.instance_id, ShouldDecrementDesiredCapacity=True
        )
        machine.ended_at = now
        self.terminated.append(machine.instance_id)

    def _launch(self, group: str, zone: str, *, fresh: bool) -> _Machine:
        shape = self._groups[group]
        (instance,) = self._ec2.run_instances(
            ImageId=_AMI,
            InstanceType=shape.instance_type,  # type: ignore[arg-type]
            MinCount=1,
            MaxCount=1,
            Placement={"AvailabilityZone": zone},
        )["Instances"]
        instance_id = instance["InstanceId"]
        self._auto_scaling.attach_instances(AutoScalingGroupName=group, InstanceIds=[instance_id])
        machine = _Machine(
            instance_id=instance_id,
            node=instance["PrivateDnsName"],
            zone=zone,
            shape=shape,
            group=group,
            launched_at=time.monotonic(),
            fresh=fresh,
        )
        self._machines[instance_id] = machine
        return machine

    def _register(self, machine: _Machine) -> None:
        capacity = {"cpu": machine.shape.cpu, "memory": machine.shape.memory, "pods": "250"}
        taints = [{"key": STARTUP_TAINT, "value": "unverified", "effect": "NoSchedule"}] if machine.fresh else []
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": machine.node,
                "labels": {
                    "kubernetes.io/hostname": machine.node,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    INSTANCE_TYPE_LABEL: machine.shape.instance_type,
                    ZONE_LABEL: machine.zone,
                    "topology.kubernetes.io/region": REGION,
                    NODEGROUP_LABEL: machine.group,
                    "eks.amazonaws.com/nodegroup-image": _AMI,
                },
            },
            "spec": {"providerID": f"aws:///{machine.zone}/{machine.instance_id}", "taints": taints},
            "status": {
                "capacity": capacity,
                "allocatable": capacity,
                "nodeInfo": {
                    "architecture": "amd64",
                    "bootID": str(uuid.uuid4()),
                    "containerRuntimeVersion": "containerd://2.1.4",
                    "kernelVersion": "6.12.58-85.118.amzn2023.x86_64",
                    "kubeProxyVersion": "",
                    "kubeletVersion": "v1.36.3-eks",
                    "machineID": machine.instance_id.replace("i-", "ec2"),
                    "operatingSystem": "linux",
                    "osImage": "Amazon Linux 2023",
                    "systemUUID": machine.instance_id.replace("i-", "ec2"),
                },
            },
        }
        with _tolerating(409):
            self._core.create_node(body)
        machine.registered_at = time.monotonic()

    def _give_devices(self, machine: _Machine, count: int) -> None:
        amount = {machine.shape.device_resource: str(count)}
        with _tolerating(404):
            self._core.patch_node_status(
                machine.node,
                {"status": {"capacity": amount, "allocatable": amount}},
                _content_type="application/merge-patch+json",
            )
        machine.whole = True

    def _remove_node(self, machine: _Machine) -> None:
        with _tolerating(404):
            self._core.delete_node(machine.node)


@contextlib.contextmanager
def _tolerating(status: int) -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        if error.status != status:
            raise
