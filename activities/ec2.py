"""EC2 as the acts use it: instances, what they were launched from, and the capacity that is held for them."""

import logging
from typing import TYPE_CHECKING, Any, Final

import boto3
from temporalio.exceptions import ApplicationError

from activities.aws_calls import CALL, AbsentError, calling
from activities.gathering import Gathering

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import (
        CapacityReservationTypeDef,
        ImageTypeDef,
        InstanceTypeDef,
        ResponseLaunchTemplateDataTypeDef,
    )

_log: Final = logging.getLogger(__name__)
_FILTER_MAX: Final = 200
"""Values of one filter (EC2 API reference, DescribeInstances)."""
_TOPOLOGY_MAX: Final = 100
"""Ids of one DescribeInstanceTopology (EC2 API reference)."""


class Ec2:
    """One region's instances. Safe to use from several threads."""

    def __init__(self, session: boto3.Session) -> None:
        """Region, credentials and endpoint come from the session and the environment."""
        self._ec2 = session.client("ec2", config=CALL)
        self._instances: Gathering[str, InstanceTypeDef] = Gathering(self._describe, _FILTER_MAX)
        self._network_nodes: Gathering[str, str] = Gathering(self._describe_network_nodes, _TOPOLOGY_MAX)
        self._reservations: Gathering[str, CapacityReservationTypeDef] = Gathering(self._describe_reservations, 100)
        # A hundred incidents of one group ask about one template and one image.
        self._images: Gathering[str, ImageTypeDef | None] = Gathering(
            lambda ids: {image_id: self._describe_image(image_id) for image_id in ids}, 100
        )
        self._templates: Gathering[tuple[str, str], ResponseLaunchTemplateDataTypeDef | None] = Gathering(
            lambda keys: {key: self._describe_template(*key) for key in keys}, 100
        )

    def instance(self, instance_id: str) -> "InstanceTypeDef | None":
        """An instance; None when EC2 does not know it (any more)."""
        return self._instances.get(instance_id)

    def state(self, instance_id: str) -> str:
        """EC2's state of an instance; ``terminated`` too when EC2 has forgotten it."""
        found = self.instance(instance_id)
        return str(found["State"]["Name"]) if found else "terminated"

    def network_node(self, instance_id: str) -> str:
        """The network node that an instance hangs on: EC2 names no closer place of a machine that is not dedicated.

        Empty where EC2 names none (it does for accelerated types, while they run) or does not tell: a machine is
        repaired whether that is known or not.
        """
        try:
            return self._network_nodes.get(instance_id) or ""
        except ApplicationError as error:
            _log.info("The network node of %s is not known: %s", instance_id, error.message)
            return ""

    def complaints(self, instance_id: str) -> tuple[str, ...]:
        """What EC2 says against an instance: events that are due, status checks that fail. Clauses for people.

        An event that is over is listed for a week more, with its end in its description (EC2 user guide).
        """
        with calling("ec2:DescribeInstanceStatus"):
            found = self._ec2.describe_instance_status(InstanceIds=[instance_id])["InstanceStatuses"]
        said: list[str] = []
        for status in found:
            for event in status.get("Events", []):
                if not event.get("Description", "").startswith(("[Completed]", "[Canceled]")):
                    said.append(f"EC2 has scheduled {event.get('Code', 'an event')} for {instance_id}")
            checks = {"system": status.get("SystemStatus"), "instance": status.get("InstanceStatus")}
            said += [
                f"EC2's {name} status check of {instance_id} fails"
                for name, check in checks.items()
                if check and check.get("Status") == "impaired"
            ]
        return tuple(said)

    def console_output(self, instance_id: str) -> str:
        """What EC2 kept of the machine's serial console."""
        with calling("ec2:GetConsoleOutput"):
            return self._ec2.get_console_output(InstanceId=instance_id).get("Output", "")

    def reboot(self, instance_id: str) -> None:
        """Ask the machine to reboot; EC2 powers it off and on when it does not within minutes (RebootInstances)."""
        with calling("ec2:RebootInstances"):
            self._ec2.reboot_instances(InstanceIds=[instance_id])

    def stop(self, instance_id: str) -> None:
        """Switch the machine off; its EBS volumes and addresses stay (StopInstances)."""
        with calling("ec2:StopInstances"):
            self._ec2.stop_instances(InstanceIds=[instance_id])

    def start(self, instance_id: str) -> None:
        """Switch a stopped machine on, on whatever hardware EC2 has for it (StartInstances)."""
        with calling("ec2:StartInstances"):
            self._ec2.start_instances(InstanceIds=[instance_id])

    def has_instance_store(self, instance_type: str) -> bool:
        """Whether machines of a type have disks that a stop erases."""
        with calling("ec2:DescribeInstanceTypes"):
            found = self._ec2.describe_instance_types(InstanceTypes=[instance_type])["InstanceTypes"]  # type: ignore[list-item]
        return any(one.get("InstanceStorageSupported") for one in found)

    def report_bad(self, instance_id: str, reason: str) -> None:
        """Tell EC2 that the hardware is bad. It must still run; nothing else changes (ReportInstanceStatus, A22)."""
        with calling("ec2:ReportInstanceStatus"):
            self._ec2.report_instance_status(
                Instances=[instance_id], Status="impaired", ReasonCodes=["other"], Description=reason[:500]
            )

    def reservation(self, reservation_id: str) -> "CapacityReservationTypeDef | None":
        """A capacity reservation, or None."""
        return self._reservations.get(reservation_id)

    def template(self, template_id: str, version: str) -> "ResponseLaunchTemplateDataTypeDef | None":
        """What a launch template launches; None when it or that version is gone."""
        return self._templates.get((template_id, version))

    def image(self, image_id: str) -> "ImageTypeDef | None":
        """An image; None when it is gone or not ours to use."""
        return self._images.get(image_id)

    def _describe_template(self, template_id: str, version: str) -> "ResponseLaunchTemplateDataTypeDef | None":
        try:
            with calling("ec2:DescribeLaunchTemplateVersions", absent=_NO_TEMPLATE):
                found = self._ec2.describe_launch_template_versions(LaunchTemplateId=template_id, Versions=[version])
        except AbsentError:
            return None
        versions = found["LaunchTemplateVersions"]
        return versions[0]["LaunchTemplateData"] if versions else None

    def _describe_image(self, image_id: str) -> "ImageTypeDef | None":
        # By id: a filter leaves out deprecated images, which can be launched all the same (DescribeImages).
        try:
            with calling("ec2:DescribeImages", absent=("InvalidAMIID.NotFound", "InvalidAMIID.Unavailable")):
                found = self._ec2.describe_images(ImageIds=[image_id])["Images"]
        except AbsentError:
            return None
        return found[0] if found else None

    def _describe(self, ids: list[str]) -> "dict[str, InstanceTypeDef]":
        # By filter: one id that EC2 has forgotten would fail the call for all the others.
        with calling("ec2:DescribeInstances"):
            pages = self._ec2.get_paginator("describe_instances").paginate(
                Filters=[{"Name": "instance-id", "Values": ids}]
            )
            found = [i for page in pages for reservation in page["Reservations"] for i in reservation["Instances"]]
        return {instance["InstanceId"]: instance for instance in found}

    def _describe_network_nodes(self, ids: list[str]) -> dict[str, str]:
        try:
            with calling("ec2:DescribeInstanceTopology", absent=_NO_TOPOLOGY):
                found = self._ec2.describe_instance_topology(InstanceIds=ids)["Instances"]
        except AbsentError:
            # It has no filter by id: one that EC2 has forgotten fails the call for all the others.
            if len(ids) == 1:
                return {}
            return {id_: name for one in ids for id_, name in self._describe_network_nodes([one]).items()}
        # From the top of the network down: the last one is the nearest (EC2 user guide, Instance topology).
        return {instance["InstanceId"]: (instance.get("NetworkNodes") or [""])[-1] for instance in found}

    def _describe_reservations(self, ids: list[str]) -> "dict[str, CapacityReservationTypeDef]":
        by_id: Any = [{"Name": "capacity-reservation-id", "Values": ids}]
        with calling("ec2:DescribeCapacityReservations"):
            found = self._ec2.describe_capacity_reservations(Filters=by_id)["CapacityReservations"]
        return {reservation["CapacityReservationId"]: reservation for reservation in found}


_NO_TOPOLOGY: Final = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "UnsupportedOperation")
_NO_TEMPLATE: Final = (
    "InvalidLaunchTemplateId.NotFound",
    "InvalidLaunchTemplateId.VersionNotFound",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFoundException",
)
