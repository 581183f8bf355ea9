"""What the machines of the embedded stack are: their shape, and the Node that such a machine registers.

Nothing here talks to anybody; ``deploy.local.fleet`` does.
"""

import uuid
from dataclasses import dataclass
from typing import Any, Final

from contract.names import INSTANCE_TYPE_LABEL, NODEGROUP_LABEL, STARTUP_TAINT, ZONE_LABEL
from deploy.local.aws import AMI, REGION


@dataclass(frozen=True)
class MachineShape:
    """What the machines of a group are."""

    instance_type: str = "trn1.32xlarge"
    device_resource: str = "aws.amazon.com/neuron"
    devices: int = 16
    cpu: str = "128"
    memory: str = "512Gi"
    zones: tuple[str, ...] = (f"{REGION}a", f"{REGION}b")
    """Instances are spread over them; a replacement comes in the zone of what it replaces."""


TRN1: Final = MachineShape()
"""The shape of the demo: sixteen Neuron devices."""


@dataclass
class Machine:
    """One instance on its way into or out of the cluster. Times are monotonic, None until it has happened."""

    instance_id: str
    node: str
    """The name that its Node has or will have: its private DNS name."""
    zone: str
    shape: MachineShape
    group: str
    launched_at: float
    fresh: bool
    """Registers with the startup taint, which it keeps until somebody has verified it."""
    node_uid: str = ""
    """Empty until it has registered."""
    registered_at: float | None = None
    devices_shown: bool = False
    marked_at: float | None = None
    """When its group was first seen to call it unhealthy."""
    ended_at: float | None = None
    reboots_at: float | None = None
    """When a reboot that somebody asked for is over."""

    @property
    def provider_id(self) -> str:
        """What its Node says, as on EKS."""
        return f"aws:///{self.zone}/{self.instance_id}"


def node_of(machine: Machine) -> dict[str, Any]:
    """The Node that a machine registers: without devices, which a device plugin reports later."""
    capacity = {"cpu": machine.shape.cpu, "memory": machine.shape.memory, "pods": "250"}
    hardware = machine.instance_id.replace("i-", "ec2")
    return {
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
                "eks.amazonaws.com/nodegroup-image": AMI,
            },
        },
        "spec": {
            "providerID": machine.provider_id,
            # As the launch template's user data sets it: no work before the machine is verified.
            "taints": [{"key": STARTUP_TAINT, "value": "unverified", "effect": "NoSchedule"}] if machine.fresh else [],
        },
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
                "machineID": hardware,
                "operatingSystem": "linux",
                "osImage": "Amazon Linux 2023",
                "systemUUID": hardware,
            },
        },
    }
