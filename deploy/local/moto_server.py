"""Moto's server, with Auto Scaling's desired capacity kept as AWS keeps it: a wish, and not yet instances.

Moto launches and terminates within the call that changes the capacity, at once and in any zone, so a group would never
be short of an instance. Here the wish is only written down, and ``deploy.local.fleet`` acts on it, when and where it
likes. Everything else is moto as it is. Run as ``python -P -m deploy.local.moto_server`` with moto's own options.
"""

from typing import Any

from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup
from moto.server import main

_attach = AutoScalingBackend.attach_instances


def note_desired_capacity(group: FakeAutoScalingGroup, new_capacity: int | None) -> None:
    """Stands for ``FakeAutoScalingGroup.set_desired_capacity``, without the instances."""
    group.desired_capacity = group.min_size if new_capacity is None else new_capacity


def launch_nothing(group: FakeAutoScalingGroup, *arguments: Any, **options: Any) -> None:
    """Stands for ``FakeAutoScalingGroup.replace_autoscaling_group_instances``."""


def attach_as_launched(backend: AutoScalingBackend, group_name: str, instance_ids: list[str]) -> None:
    """Stands for ``AutoScalingBackend.attach_instances``: what fills a wish does not change it."""
    desired = backend.autoscaling_groups[group_name].desired_capacity or 0
    _attach(backend, group_name, instance_ids)
    group = backend.autoscaling_groups[group_name]
    group.desired_capacity = max(desired, len(group.instance_states))
    for state in group.instance_states:
        # Moto forgets this, and TerminateInstanceInAutoScalingGroup then fails for an attached instance.
        state.instance.autoscaling_group = group  # type: ignore[attr-defined]


if __name__ == "__main__":
    FakeAutoScalingGroup.set_desired_capacity = note_desired_capacity  # type: ignore[assignment]
    FakeAutoScalingGroup.replace_autoscaling_group_instances = launch_nothing  # type: ignore[assignment]
    AutoScalingBackend.attach_instances = attach_as_launched  # type: ignore[assignment]
    main()
