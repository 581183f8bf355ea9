"""Following a launch to its Node, and claiming it, so that two incidents never count the same one."""

from pathlib import Path
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.candidates import Candidate, Offer, in_order_of_claim
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
    OWNER_ANNOTATION,
    REPLACES_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    STARTUP_TAINT,
    ZONE_LABEL,
    ActivityName,
    ErrorType,
)
from contract.replacement import StartupTaint

_LOOK_EVERY_S: Final = 1.0


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
            last = overdue(end)
            found, waits_for, away = self._claim(argument, launches, last_chance=last)
            if found:
                return found
            if launches.hopeless or last:
                kept = [self._keep_console(argument, instance_id) for instance_id in away]
                raise failure(ErrorType.NO_REPLACEMENT, _explanation(argument, waits_for, launches, kept))
            report_progress({"waits_for": waits_for, "obstacles": launches.obstacles})
            pause(_LOOK_EVERY_S)

    def _claim(
        self, argument: AwaitReplacement, launches: Launches, *, last_chance: bool
    ) -> tuple[Replacement | None, str, list[str]]:
        nodes = self._nodes.get("all") or {}
        incident, zone = argument.target.fence.incident_id, argument.target.identity.zone
        joined = tuple(_candidate(i, nodes[i]) for i in launches.instance_ids if i in nodes)
        away = [i for i in launches.instance_ids if i not in nodes]
        offer = Offer(
            launched=joined,
            left_over=tuple(_candidate(i, nodes[i]) for i in launches.left_over if i in nodes),
            to_join=bool(away),
            complete=launches.complete,
        )
        for candidate in in_order_of_claim(offer, incident, zone, last_chance=last_chance):
            node = nodes[candidate.instance_id]
            if self._take(node, argument):
                return _replacement(candidate.instance_id, node), "", []
        if away:
            return None, f"the Node of {', '.join(away)}, which is launched", away
        if elsewhere := [f"{c.instance_id} in {c.zone}" for c in joined if c.claimed_by is None and c.zone != zone]:
            return None, f"{argument.survey.group} to launch one in {zone}; free is {', '.join(elsewhere)}", []
        if not joined:
            return None, launches.waits_for, []
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


def _candidate(instance_id: str, node: Json) -> Candidate:
    known = annotations(node)
    return Candidate(
        instance_id=instance_id,
        zone=labels(node).get(ZONE_LABEL, ""),
        claimed_by=known.get(REPLACES_ANNOTATION),
        failing=OWNER_ANNOTATION in known,
    )


def _replacement(instance_id: str, node: Json) -> Replacement:
    known = labels(node)
    return Replacement(
        instance_id=instance_id,
        node=node["metadata"]["name"],
        node_uid=node["metadata"]["uid"],
        zone=known.get(ZONE_LABEL, ""),
        instance_type=known.get(INSTANCE_TYPE_LABEL, ""),
    )


def _explanation(argument: AwaitReplacement, waits_for: str, launches: Launches, kept: list[str]) -> str:
    why = f" ({'; '.join([*launches.obstacles, *kept])})" if launches.obstacles or kept else ""
    begin = "No replacement comes" if launches.hopeless else "No replacement in time"
    old = "stands by and goes on working" if argument.survey.spare_first else "is given up already"
    return (
        f"{begin}: still waiting for {waits_for}{why}. {argument.target.identity.instance_id} {old}. See to the "
        "group's capacity or its nodes' start-up, and press `resume`."
    )
