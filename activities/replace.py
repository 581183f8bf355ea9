"""The point of no return, the look before it, and the spare that may be raised first: is it still the one?"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.claim import claimed_node
from activities.cluster import Cluster
from activities.last_look import LastLook
from activities.machines.all import Machines
from activities.machines.group import frozen
from activities.memory import Memory, failed_repairs
from activities.preflight import passes_by_itself
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import (
    GroupSurvey,
    MarkedUnhealthy,
    MarkUnhealthy,
    RaiseSpare,
    SpareRaised,
    SurveyGroup,
)
from contract.memory import FailedMachine, Failure
from contract.names import ActivityName
from contract.policy import Policy

_LOOK_EVERY_S: Final = 5.0


class ReplaceActivity:
    """The acts ``survey_group``, ``raise_spare``, ``lower_spare`` and ``mark_instance_unhealthy``."""

    def __init__(
        self,
        cluster: Cluster,
        auto_scaling: AutoScaling,
        machines: Machines,
        memory: Memory,
        policy: Callable[[], Policy],
    ) -> None:
        self._cluster = cluster
        self._auto_scaling = auto_scaling
        self._machines = machines
        self._memory = memory
        self._last_look = LastLook(cluster, policy)

    @activity.defn(name=ActivityName.SURVEY_GROUP, no_thread_cancel_exception=True)
    def survey_group(self, argument: SurveyGroup) -> GroupSurvey:
        """See what the group has and whether it would replace; wait for what passes by itself. Reads only.

        Raises:
            ApplicationError: the node is not this run's any more, or as the APIs.
        """
        identity = argument.target.identity
        replacer = self._machines.of(identity)
        end = deadline(argument.patience) if argument.patience else None
        while True:
            go_on()
            claimed_node(self._cluster, argument.target)
            now = datetime.now(UTC)
            found = replacer.survey(argument, failed_repairs(self._memory.all(), identity.group or "", now))
            if end is None or overdue(end) or not passes_by_itself(found):
                return found
            report_progress({"waits_for": found.obstacles})
            pause(_LOOK_EVERY_S)

    @activity.defn(name=ActivityName.RAISE_SPARE, no_thread_cancel_exception=True)
    def raise_spare(self, argument: RaiseSpare) -> SpareRaised:
        """Have the group launch a machine beside the failing one, which stays and goes on working meanwhile.

        Raises:
            ApplicationError: any reason not to, each with its type; then the call was not made.
        """
        _, instance_id = frozen(argument.target.identity)
        already = self._machines.groups.on_standby(argument)
        if not already:
            self._last_look(argument.target, drill=argument.drill)
            self._machines.groups.raise_spare(argument)
        return SpareRaised(instance_id=instance_id, already=already, at=datetime.now(UTC))

    @activity.defn(name=ActivityName.LOWER_SPARE, no_thread_cancel_exception=True)
    def lower_spare(self, argument: RaiseSpare) -> SpareRaised:
        """Put the machine back into service beside its spare, for it is given back. Doing it twice is harmless."""
        group, instance_id = frozen(argument.target.identity)
        seen = self._auto_scaling.instance(instance_id)
        state = seen["LifecycleState"] if seen else "in no group"
        if state != "Standby":
            return SpareRaised(instance_id=instance_id, already=state, at=datetime.now(UTC))
        self._auto_scaling.exit_standby(group, instance_id)
        return SpareRaised(instance_id=instance_id, at=datetime.now(UTC))

    @activity.defn(name=ActivityName.MARK_INSTANCE_UNHEALTHY, no_thread_cancel_exception=True)
    def mark_instance_unhealthy(self, argument: MarkUnhealthy) -> MarkedUnhealthy:
        """Have the very machine that was identified replaced; everything is checked again just before.

        Raises:
            ApplicationError: any reason not to, each with its type; then the call was not made.
        """
        identity = argument.target.identity
        named = identity.instance_id or identity.node
        replacer = self._machines.of(identity)
        # First of all: an earlier try may have made the call, and the node may be gone for that very reason (A9).
        if already := replacer.over(argument):
            return MarkedUnhealthy(instance_id=named, already=already, at=datetime.now(UTC))
        version = self._last_look(argument.target, drill=argument.drill)
        self._memory.remember(_failed(argument))
        reported = argument.report_to_ec2 and self._report(identity.instance_id, argument.reason)
        replacer.replace(argument)
        return MarkedUnhealthy(instance_id=named, at=datetime.now(UTC), reported=reported, policy_version=version)

    def _report(self, instance_id: str | None, reason: str) -> bool:
        """Tell EC2, which takes reports about running instances alone (A22). That it cannot be told stops nothing."""
        if instance_id is None or self._auto_scaling.state(instance_id) != "running":
            return False
        try:
            self._auto_scaling.ec2.report_bad(instance_id, reason)
        except ApplicationError as error:
            activity.logger.warning("EC2 was not told about %s: %s", instance_id, error.message)
            return False
        return True


def _failed(argument: MarkUnhealthy) -> FailedMachine:
    """What is remembered of the machine, before it is given up: the call's answer may get lost."""
    identity = argument.target.identity
    return FailedMachine(
        at=datetime.now(UTC),
        failure=Failure.GIVEN_UP,
        node=identity.node,
        instance_id=identity.instance_id or "",
        group=identity.group or "",
        zone=identity.zone,
        host=identity.host,
        network_node=identity.network_node,
        serials=argument.serials,
        job=argument.job,
        reason=argument.reason,
        incident=argument.target.fence.incident_id,
    )
