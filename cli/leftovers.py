"""What Nodemend leaves on a cluster, found and cleared: for ``nodemend uninstall``.

Only what is ours by name is touched. A claimed node is given back by the act that incidents use, so it is as it was
before; what users write about Nodemend (``nodemend.io/skip``, checkpoint declarations, receipts on jobs) is theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from activities.claim import annotations, labels, read_owner
from activities.cluster import Cluster, Json, retry_on_conflict
from activities.objects import Objects
from activities.orphans import identity_of
from activities.quarantine import QuarantineActivity
from contract.acts import GiveBackNode
from contract.identity import Fence, Target
from contract.names import (
    CLUSTER_FINDING_DIGESTS_ANNOTATION,
    FAILED_MACHINES,
    FINDING_DIGESTS_ANNOTATION,
    FINDINGS_ANNOTATION,
    HANDLED_ANNOTATION,
    INCIDENT_LABEL,
    OWNER_ANNOTATION,
    QUARANTINE_TAINT,
    REASON_ANNOTATION,
    REPLACED_BY_ANNOTATION,
    REPLACES_ANNOTATION,
    STARTUP_TAINT,
    TRIED_ANNOTATION,
    WATCH_CLUSTER,
)
from detector.catalogue import BUILT_IN, load_rules
from detector.conditions import LOG_HEALTH

NODE_ANNOTATIONS: Final = (
    OWNER_ANNOTATION,
    REPLACES_ANNOTATION,
    REPLACED_BY_ANNOTATION,
    REASON_ANNOTATION,
    HANDLED_ANNOTATION,
    FINDING_DIGESTS_ANNOTATION,
    FINDINGS_ANNOTATION,
    CLUSTER_FINDING_DIGESTS_ANNOTATION,
    TRIED_ANNOTATION,
)
"""Of ours, on Nodes."""
_TAINTS: Final = (QUARANTINE_TAINT, STARTUP_TAINT)
_DETECTOR_LEASE: Final = "nodemend-detector-"
_INSTALLED: Final = {"labelSelector": "app.kubernetes.io/name=nodemend"}
_LEASES: Final = "/apis/coordination.k8s.io/v1/leases"
_JOBS: Final = "/apis/batch/v1/jobs"


@dataclass(frozen=True)
class Leftover:
    """One thing that is still there."""

    kind: str
    name: str
    what: str = ""
    """What of it is ours, where it is not ours altogether."""


class ClusterLeftovers:
    """Those of one cluster, with the rights of whoever runs the command."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._objects = Objects(cluster)
        self._quarantine = QuarantineActivity(cluster)
        self._types = frozenset({rule.condition_type for rule in load_rules([BUILT_IN])} | {LOG_HEALTH})

    def still_running(self) -> list[str]:
        """Pods of Nodemend: they would write everything anew."""
        pods = self._objects.list("/api/v1/pods", **_INSTALLED)
        return sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)

    def found(self) -> list[Leftover]:
        """Everything that is left."""
        nodes = [(node["metadata"]["name"], ours_on(node, self._types)) for node in self._cluster.nodes()]
        marked = [Leftover("Node", name, ", ".join(parts)) for name, parts in nodes if parts]
        return [*marked, *(Leftover(kind, f"{space}/{name}") for kind, space, name, _ in self._objects_of_ours())]

    def clear(self, say: Callable[[str], None]) -> None:
        """Take all of it away.

        Raises:
            ApplicationError: the API refuses, or cannot be reached.
        """
        for node in self._cluster.nodes():
            if ours_on(node, self._types):
                self._clear_node(node["metadata"]["name"], say)
        for kind, space, name, path in self._objects_of_ours():
            self._objects.delete(path)
            say(f"{kind} {space}/{name} is removed.")

    def _objects_of_ours(self) -> list[tuple[str, str, str, str]]:
        """Kind, namespace, name and path of what is ours altogether."""
        leases = [
            lease
            for lease in self._objects.list(_LEASES)
            if lease["metadata"]["name"].startswith(_DETECTOR_LEASE) or lease["metadata"]["name"] == WATCH_CLUSTER
        ]
        maps = [
            found
            for name in (WATCH_CLUSTER, FAILED_MACHINES)
            for found in self._objects.list("/api/v1/configmaps", fieldSelector=f"metadata.name={name}")
        ]
        jobs = self._objects.list(_JOBS, labelSelector="app.kubernetes.io/managed-by=nodemend")
        groups = (
            ("Lease", "/apis/coordination.k8s.io/v1", "leases", leases),
            ("ConfigMap", "/api/v1", "configmaps", maps),
            ("Job", "/apis/batch/v1", "jobs", jobs),
        )
        return [
            (kind, meta["namespace"], meta["name"], f"{api}/namespaces/{meta['namespace']}/{plural}/{meta['name']}")
            for kind, api, plural, items in groups
            for meta in (item["metadata"] for item in items)
        ]

    def _clear_node(self, name: str, say: Callable[[str], None]) -> None:
        node = self._cluster.node(name)
        if node is None:
            return
        if owner := read_owner(node):
            self._quarantine.give_back_node(
                GiveBackNode(
                    target=Target(
                        identity=identity_of(self._name, node),
                        fence=Fence(incident_id=owner.incident, run_id=owner.run),
                    ),
                    by="nodemend uninstall",
                    reason="Nodemend is removed from this cluster.",
                    handled_seq=0,
                )
            )
            say(f"Node {name} is given back as it was. Known against it: rule {owner.rule}, since {owner.since:%F %R}.")
        elif OWNER_ANNOTATION in annotations(node):
            say(f"Node {name} has a claim that cannot be read: whether its cordon was ours nobody knows, so it stays.")
        retry_on_conflict(lambda: self._strip(name))
        say(f"Node {name} carries nothing of Nodemend any more.")

    def _strip(self, name: str) -> None:
        node = self._cluster.node(name)
        if node is None:
            return
        if conditions := _conditions(node, self._types):
            kept = [condition for condition in node["status"]["conditions"] if condition["type"] not in conditions]
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}
            self._objects.patch(f"/api/v1/nodes/{name}/status", {"metadata": version, "status": {"conditions": kept}})
            node = self._cluster.node(name)
            if node is None:
                return
        taints = [taint for taint in node["spec"].get("taints", []) if taint["key"] not in _TAINTS]
        patch: Json = {
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": dict.fromkeys(NODE_ANNOTATIONS),
                "labels": {INCIDENT_LABEL: None},
            },
            "spec": {"taints": taints or None},
        }
        self._cluster.patch_node(name, patch)


def ours_on(node: Json, condition_types: frozenset[str]) -> list[str]:
    """What a Node carries of ours. Pure."""
    carried = annotations(node)
    return [
        *(f"annotation {key}" for key in NODE_ANNOTATIONS if key in carried),
        *(f"label {key}" for key in (INCIDENT_LABEL,) if key in labels(node)),
        *(f"taint {taint['key']}" for taint in node["spec"].get("taints", []) if taint["key"] in _TAINTS),
        *(f"condition {kind}" for kind in _conditions(node, condition_types)),
    ]


def _conditions(node: Json, types: frozenset[str]) -> list[str]:
    """Those that a detector of ours wrote: ``NeuronHealth`` may be another's, ``KernelLogHealth`` is ours alone."""
    found = [condition["type"] for condition in node["status"].get("conditions", []) if condition["type"] in types]
    return found if LOG_HEALTH in found else []
