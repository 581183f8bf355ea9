"""Following the group's launch to its Node, and claiming it, so that two incidents never count the same one."""

from typing import TYPE_CHECKING, Final

from temporalio import activity

from activities.auto_scaling import AutoScaling
from activities.claim import annotations, conditional, labels
from activities.cluster import Cluster, ConflictError, Json
from activities.errors import failure
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import AwaitReplacement, Replacement
from contract.names import (
    INSTANCE_TYPE_LABEL,
    REPLACES_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    ZONE_LABEL,
    ActivityName,
    ErrorType,
)

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.type_defs import InstanceTypeDef

_LOOK_EVERY_S: Final = 1.0


class AwaitReplacementActivity:
    """The act ``await_replacement``."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling) -> None:
        self._cluster = cluster
        self._auto_scaling = auto_scaling

    @activity.defn(name=ActivityName.AWAIT_REPLACEMENT, no_thread_cancel_exception=True)
    def await_replacement(self, argument: AwaitReplacement) -> Replacement:
        """Wait for an instance that the group launched since the survey, and for its Node, and claim that Node.

        Raises:
            ApplicationError: ``NoReplacement`` past the deadline, with what stood in the way.
        """
        end = deadline(argument.deadline)
        while True:
            go_on()
            launched, obstacles = self._launched(argument)
            found, waits_for = self._claim(argument, launched)
            if found:
                return found
            if overdue(end):
                raise failure(ErrorType.NO_REPLACEMENT, self._explanation(argument, waits_for, obstacles))
            report_progress({"waits_for": waits_for, "obstacles": obstacles})
            pause(_LOOK_EVERY_S)

    def _launched(self, argument: AwaitReplacement) -> tuple[list["InstanceTypeDef"], list[str]]:
        groups = self._auto_scaling.groups([argument.survey.group])
        if not groups:
            return [], [f"the group {argument.survey.group} is gone"]
        before = set(argument.survey.instances)
        new = [
            instance
            for instance in groups[0].get("Instances", [])
            if instance["InstanceId"] not in before
            and instance["HealthStatus"].casefold() == "healthy"
            and not instance["LifecycleState"].startswith("Terminat")
        ]
        suspended = [f"process {process['ProcessName']} is suspended" for process in groups[0]["SuspendedProcesses"]]
        return sorted(new, key=lambda instance: instance["InstanceId"]), suspended

    def _claim(self, argument: AwaitReplacement, launched: list["InstanceTypeDef"]) -> tuple[Replacement | None, str]:
        if not launched:
            return None, f"{argument.survey.group} to launch an instance"
        incident = argument.target.fence.incident_id
        nodes = {node["spec"].get("providerID", "").rpartition("/")[2]: node for node in self._cluster.nodes()}
        here = [(i["InstanceId"], nodes[i["InstanceId"]]) for i in launched if i["InstanceId"] in nodes]
        # One that this incident claimed before its worker went away comes first.
        here.sort(key=lambda pair: annotations(pair[1]).get(REPLACES_ANNOTATION) != incident)
        for instance_id, node in here:
            claimed_by = annotations(node).get(REPLACES_ANNOTATION, incident)
            if claimed_by == incident and self._take(node, incident):
                known = labels(node)
                return Replacement(
                    instance_id=instance_id,
                    node=node["metadata"]["name"],
                    node_uid=node["metadata"]["uid"],
                    zone=known.get(ZONE_LABEL, ""),
                    instance_type=known.get(INSTANCE_TYPE_LABEL, ""),
                ), ""
        away = [i["InstanceId"] for i in launched if i["InstanceId"] not in nodes]
        if away:
            return None, f"the Node of {', '.join(away)}, which is launched"
        return None, f"{argument.survey.group} to launch one more: those there belong to other incidents"

    def _take(self, node: Json, incident: str) -> bool:
        if annotations(node).get(REPLACES_ANNOTATION) == incident:
            return True
        # Kept from cluster-autoscaler until verified: an empty new node is what it removes first (A24).
        claim = conditional(node, {REPLACES_ANNOTATION: incident, SCALE_DOWN_DISABLED_ANNOTATION: "true"})
        try:
            self._cluster.patch_node(node["metadata"]["name"], claim)
        except ConflictError:
            return False
        return True

    def _explanation(self, argument: AwaitReplacement, waits_for: str, obstacles: list[str]) -> str:
        latest = self._auto_scaling.latest_activity(argument.survey.group)
        told = ""
        if latest:
            message = latest.get("StatusMessage") or latest["Description"]
            told = f" Its last activity: {latest['StatusCode']}, {message}."
        why = f" ({'; '.join(obstacles)})" if obstacles else ""
        return (
            f"No replacement in time: still waiting for {waits_for}{why}.{told} {argument.target.identity.instance_id} "
            "is marked unhealthy already. See to the group's capacity or its nodes' start-up, and press `resume`."
        )
