"""Following a launch to its Node, and claiming it, so that two incidents never count the same one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.claim import annotations, conditional, labels
from activities.cluster import Cluster, ConflictError, Json
from activities.errors import failure
from activities.gathering import Gathering
from activities.machines.all import Machines
from activities.machines.kind import Launches
from activities.preserve import incident_dir, write_whole
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import AwaitReplacement, Replacement
from contract.names import (
    INSTANCE_TYPE_LABEL,
    REPLACES_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    STARTUP_TAINT,
    ZONE_LABEL,
    ActivityName,
    ErrorType,
)
from contract.replacement import StartupTaint

_LOOK_EVERY_S: Final = 1.0
_STRANGER_WAITS: Final = timedelta(minutes=1)
"""How long a launch in another zone is left to the incident of that zone before it is taken for want of another."""


class AwaitReplacementActivity:
    """The act ``await_replacement``."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling, machines: Machines, record_dir: Path) -> None:
        self._cluster = cluster
        self._auto_scaling = auto_scaling
        self._machines = machines
        self._record_dir = record_dir
        # A hundred incidents that wait list the Nodes once a second, and not a hundred times.
        self._nodes: Gathering[str, dict[str, Json]] = Gathering(self._list_nodes, 1)

    @activity.defn(name=ActivityName.AWAIT_REPLACEMENT, no_thread_cancel_exception=True)
    def await_replacement(self, argument: AwaitReplacement) -> Replacement:
        """Wait for a machine that was launched in this one's place, and for its Node, and claim that Node.

        Raises:
            ApplicationError: ``NoReplacement`` past the deadline, or when waiting brings nothing, with what stood in
                the way.
        """
        end = deadline(argument.deadline)
        while True:
            go_on()
            launches = self._machines.of(argument.target.identity).launched(argument)
            found, waits_for, away = self._claim(argument, launches)
            if found:
                return found
            if launches.hopeless or overdue(end):
                kept = [self._keep_console(argument, instance_id) for instance_id in away]
                raise failure(ErrorType.NO_REPLACEMENT, _explanation(argument, waits_for, launches, kept))
            report_progress({"waits_for": waits_for, "obstacles": launches.obstacles})
            pause(_LOOK_EVERY_S)

    def _claim(self, argument: AwaitReplacement, launches: Launches) -> tuple[Replacement | None, str, list[str]]:
        if not launches.instance_ids:
            return None, launches.waits_for, []
        incident = argument.target.fence.incident_id
        nodes = self._nodes.get("all") or {}
        here = [(i, nodes[i]) for i in launches.instance_ids if i in nodes]
        # One that this incident claimed before its worker went away comes first, then one of the same zone.
        zone = argument.target.identity.zone
        here.sort(
            key=lambda pair: (
                annotations(pair[1]).get(REPLACES_ANNOTATION) != incident,
                labels(pair[1]).get(ZONE_LABEL, "") != zone,
            )
        )
        for instance_id, node in here:
            claimed_by = annotations(node).get(REPLACES_ANNOTATION)
            if claimed_by not in (None, incident) or (claimed_by is None and not _ripe(node, zone)):
                continue
            if self._take(node, argument):
                known = labels(node)
                return (
                    Replacement(
                        instance_id=instance_id,
                        node=node["metadata"]["name"],
                        node_uid=node["metadata"]["uid"],
                        zone=known.get(ZONE_LABEL, ""),
                        instance_type=known.get(INSTANCE_TYPE_LABEL, ""),
                    ),
                    "",
                    [],
                )
        away = [i for i in launches.instance_ids if i not in nodes]
        if away:
            return None, f"the Node of {', '.join(away)}, which is launched", away
        return None, f"{argument.survey.group} to launch one more: those there belong to other incidents", []

    def _take(self, node: Json, argument: AwaitReplacement) -> bool:
        incident = argument.target.fence.incident_id
        if annotations(node).get(REPLACES_ANNOTATION) == incident:
            return True
        # Kept from cluster-autoscaler until verified: an empty new node is what it removes first (A24).
        claimed: dict[str, str | None] = {REPLACES_ANNOTATION: incident, SCALE_DOWN_DISABLED_ANNOTATION: "true"}
        taints = node["spec"].get("taints", [])
        if argument.startup_taint is StartupTaint.NODEMEND and all(t["key"] != STARTUP_TAINT for t in taints):
            taint = {"key": STARTUP_TAINT, "value": "unverified", "effect": "NoSchedule"}
            claim = conditional(node, claimed, taints=[*taints, taint])
        else:
            claim = conditional(node, claimed)
        try:
            self._cluster.patch_node(node["metadata"]["name"], claim)
        except ConflictError:
            return False
        return True

    def _keep_console(self, argument: AwaitReplacement, instance_id: str) -> str:
        """What is known of a machine that never joined: only EC2 can say, for there is no Node (A15)."""
        fence = argument.target.fence
        path = incident_dir(self._record_dir, fence.incident_id, fence.run_id) / "evidence" / f"{instance_id}.txt"
        try:
            write_whole(path, self._auto_scaling.console_output(instance_id))
        except (ApplicationError, OSError) as error:
            return (
                f"{instance_id} is {self._auto_scaling.state(instance_id)}, its console output cannot be had ({error})"
            )
        return f"{instance_id} is {self._auto_scaling.state(instance_id)}, its console output is kept in {path.name}"

    def _list_nodes(self, keys: list[str]) -> dict[str, dict[str, Json]]:
        by_instance = {node["spec"].get("providerID", "").rpartition("/")[2]: node for node in self._cluster.nodes()}
        return dict.fromkeys(keys, by_instance)


def _ripe(node: Json, zone: str) -> bool:
    """Whether a launch may be taken now: at once in the wanted zone, elsewhere once nobody else has taken it."""
    if labels(node).get(ZONE_LABEL, "") == zone:
        return True
    return datetime.now(UTC) - datetime.fromisoformat(node["metadata"]["creationTimestamp"]) >= _STRANGER_WAITS


def _explanation(argument: AwaitReplacement, waits_for: str, launches: Launches, kept: list[str]) -> str:
    why = f" ({'; '.join([*launches.obstacles, *kept])})" if launches.obstacles or kept else ""
    begin = "No replacement comes" if launches.hopeless else "No replacement in time"
    old = "stands by and goes on working" if argument.survey.spare_first else "is given up already"
    return (
        f"{begin}: still waiting for {waits_for}{why}. {argument.target.identity.instance_id} {old}. See to the "
        "group's capacity or its nodes' start-up, and press `resume`."
    )
