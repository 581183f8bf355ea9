"""The probe's command where the policy names none: does the container see every device that it was given?"""

from collections.abc import Mapping
from typing import Final

_FILES: Final = {
    "aws.amazon.com/neuron": "/dev/neuron[0-9]*",
    "aws.amazon.com/neurondevice": "/dev/neuron[0-9]*",
    "nvidia.com/gpu": "/dev/nvidia[0-9]*",
    "vpc.amazonaws.com/efa": "/dev/infiniband/uverbs[0-9]*",
}
"""What the device plugins put into a container, one file for each device. Cores and slices of a device have none."""


def counting(devices: Mapping[str, int]) -> list[str]:
    """A command that fails, and says why, unless the devices are there. Pure."""
    checks = [
        f'set -- {_FILES[name]}; [ -e "$1" ] || set --; '
        f'[ $# -eq {count} ] || {{ echo "$# of {count} {name} in the container"; exit 1; }}'
        for name, count in sorted(devices.items())
        if name in _FILES
    ]
    return ["/bin/sh", "-c", "; ".join([*checks, "exit 0"])]
