"""Machines of Cluster API: the Machine is marked, its MachineHealthCheck believes the mark, and its owner replaces it.

Where the Machines are kept in another (management) cluster, that is said; this cluster cannot do it. Annotations as
in Cluster API, Supported Annotations; the API version is the one that the server prefers.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from activities.claim import annotations, labels
from activities.cluster import Json
from activities.errors import failure
from activities.label_selectors import selects
from activities.machines.kind import Launches
from activities.objects import Objects
from contract.acts import AwaitReplacement, GroupSurvey, MarkUnhealthy, SurveyGroup
from contract.identity import NodeIdentity
from contract.names import ErrorType
from contract.replacement import Answer, Found, GroupFinding

MACHINE_ANNOTATION: Final = "cluster.x-k8s.io/machine"
NAMESPACE_ANNOTATION: Final = "cluster.x-k8s.io/cluster-namespace"
OWNER_NAME_ANNOTATION: Final = "cluster.x-k8s.io/owner-name"
REMEDIATE_ANNOTATION: Final = "cluster.x-k8s.io/remediate-machine"
_SKIP_ANNOTATION: Final = "cluster.x-k8s.io/skip-remediation"
_PAUSED_ANNOTATION: Final = "cluster.x-k8s.io/paused"
_ALLOWED: Final = "RemediationAllowed"
"""Condition of a MachineHealthCheck: false while more Machines are unhealthy than it may remediate."""
_GROUP: Final = "/apis/cluster.x-k8s.io"


class ClusterApiReplacer:
    """What ``activities.machines.kind.Replacer`` asks for, by Machines."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def survey(self, argument: SurveyGroup, failed_repairs: int) -> GroupSurvey:
        """Whether the Machine is here, and somebody believes its mark and makes another."""
        identity, rules = argument.target.identity, argument.rules
        namespace = identity.claim.partition("/")[0]
        machine = self._machine(identity)
        checks = self._objects.list(self._path(namespace, "machinehealthchecks"))
        seen = [
            (GroupFinding.INSTANCE_GONE, _why_not_here(identity, machine)),
            (GroupFinding.GROUP_GONE, _why_nobody_replaces(machine, checks, self._cluster_of(machine))),
            (
                GroupFinding.FAILED_REPAIRS,
                f"{failed_repairs} of its replacements failed within a day (V11)"
                if failed_repairs >= rules.failed_repairs_max
                else "",
            ),
        ]
        found = tuple(Found(finding=f, answer=rules.answer(f), explanation=says) for f, says in seen if says)
        machines = self._of_owner(namespace, identity.group or "")
        return GroupSurvey(
            group=identity.group or "",
            desired=len(machines),
            instances=tuple(sorted(filter(None, map(_instance, machines)))),
            obstacles=tuple(one.explanation for one in found if one.answer in (Answer.ASK, Answer.WAIT)),
            findings=found,
            at=datetime.now(UTC),
        )

    def over(self, argument: MarkUnhealthy) -> str:
        """Whether the Machine is marked, on its way out, or gone."""
        identity = argument.target.identity
        machine = self._machine(identity)
        if machine is None:
            return "deleted"
        if machine["metadata"].get("deletionTimestamp"):
            return "being deleted"
        if machine["spec"].get("providerID") != identity.provider_id:
            raise failure(
                ErrorType.WRONG_INSTANCE,
                f"Machine {identity.claim} is {machine['spec'].get('providerID')} now, and was {identity.provider_id}.",
            )
        return "marked for remediation" if REMEDIATE_ANNOTATION in annotations(machine) else ""

    def replace(self, argument: MarkUnhealthy) -> None:
        """Mark the Machine, while it is as it was read."""
        machine = self._machine(argument.target.identity)
        if machine is None:
            return
        metadata = machine["metadata"]
        marked = {"resourceVersion": metadata["resourceVersion"], "annotations": {REMEDIATE_ANNOTATION: ""}}
        self._objects.patch(self._path(metadata["namespace"], f"machines/{metadata['name']}"), {"metadata": marked})

    def launched(self, argument: AwaitReplacement) -> Launches:
        """Machines of the same owner that came since the survey and have an instance."""
        namespace, before = argument.target.identity.claim.partition("/")[0], set(argument.survey.instances)
        machines = self._of_owner(namespace, argument.survey.group)
        new = [machine for machine in machines if _instance(machine) not in before]
        ready = sorted(filter(None, map(_instance, new)))
        failing = [
            f"Machine {m['metadata']['name']}: {m['status']['failureMessage']}"
            for m in new
            if m.get("status", {}).get("failureMessage")
        ]
        return Launches(
            tuple(ready), "" if ready else f"{argument.survey.group} to make another Machine", tuple(failing)
        )

    def state(self, identity: NodeIdentity) -> str:
        """A Machine is kept until its instance is terminated."""
        machine = self._machine(identity)
        return str(machine.get("status", {}).get("phase", "there")) if machine else "terminated"

    def machines_wanted(self, owner: str, nodes: Iterable[Json]) -> int:
        """How many Machines an owner of these Nodes has, but for those that are being deleted: it makes others at once.

        0 where they are kept in another (management) cluster.
        """
        namespaces = {annotations(node)[NAMESPACE_ANNOTATION] for node in nodes}
        machines = [machine for namespace in namespaces for machine in self._of_owner(namespace, owner)]
        return sum(not machine["metadata"].get("deletionTimestamp") for machine in machines)

    def _machine(self, identity: NodeIdentity) -> Json | None:
        namespace, _, name = identity.claim.partition("/")
        return self._objects.get(self._path(namespace, f"machines/{name}"))

    def _cluster_of(self, machine: Json | None) -> Json | None:
        if machine is None:
            return None
        place, name = machine["metadata"]["namespace"], machine["spec"].get("clusterName")
        return self._objects.get(self._path(place, f"clusters/{name}"))

    def _of_owner(self, namespace: str, owner: str) -> list[Json]:
        machines = self._objects.list(self._path(namespace, "machines"))
        return [m for m in machines if any(o["name"] == owner for o in m["metadata"].get("ownerReferences", []))]

    def _path(self, namespace: str, rest: str) -> str:
        group: dict[str, Any] = self._objects.get(_GROUP) or {}
        version = group.get("preferredVersion", {}).get("version", "v1beta1")
        return f"{_GROUP}/{version}/namespaces/{namespace}/{rest}"


def claim_of(node: Json) -> tuple[str, str]:
    """``namespace/name`` of the Machine that stands for a Node, and its owner; empty when there is none."""
    found = annotations(node)
    if MACHINE_ANNOTATION not in found or NAMESPACE_ANNOTATION not in found:
        return "", ""
    return f"{found[NAMESPACE_ANNOTATION]}/{found[MACHINE_ANNOTATION]}", found.get(OWNER_NAME_ANNOTATION, "")


def _instance(machine: Json) -> str:
    return str(machine["spec"].get("providerID") or "").rpartition("/")[2]


def _why_not_here(identity: NodeIdentity, machine: Json | None) -> str:
    if machine is None:
        return f"Machine {identity.claim} is not in this cluster: is it kept in a management cluster?"
    if machine["metadata"].get("deletionTimestamp"):
        return f"Machine {identity.claim} is being deleted already, by somebody else"
    return ""


def _why_nobody_replaces(machine: Json | None, checks: list[Json], cluster: Json | None) -> str:
    if machine is None:
        return ""
    if not any(owner.get("controller") for owner in machine["metadata"].get("ownerReferences", [])):
        return "the Machine has no owner that would make another"
    if switched_off := [key for key in (_SKIP_ANNOTATION, _PAUSED_ANNOTATION) if key in annotations(machine)]:
        return f"the Machine carries {', '.join(switched_off)}: its remediation is switched off"
    if cluster and cluster["spec"].get("paused"):
        return f"Cluster {cluster['metadata']['name']} is paused (spec.paused): its remediation is switched off"
    selecting = [check for check in checks if _selects(check, machine)]
    if not selecting:
        return "no MachineHealthCheck selects the Machine: nobody would believe the mark"
    idle = [why for check in selecting if (why := _why_idle(check))]
    # One that works is enough.
    return "; ".join(idle) if len(idle) == len(selecting) else ""


def _selects(check: Json, machine: Json) -> bool:
    spec = check["spec"]
    in_cluster = spec.get("clusterName") == machine["spec"].get("clusterName")
    return in_cluster and selects(spec.get("selector") or {}, labels(machine))


def _why_idle(check: Json) -> str:
    """Why a MachineHealthCheck does not act on a mark; empty where it does."""
    name = check["metadata"]["name"]
    if _PAUSED_ANNOTATION in annotations(check):
        return f"MachineHealthCheck {name} is paused ({_PAUSED_ANNOTATION}): it would not act on the mark"
    for condition in check.get("status", {}).get("conditions", []):
        if condition["type"] == _ALLOWED and condition["status"] == "False":
            why = condition.get("message") or condition.get("reason") or "no reason given"
            return f"MachineHealthCheck {name} allows no remediation now ({why})"
    return ""
