"""Which load balancers send to a node, and so what has to wait once it was taken out of them (D33). Pure.

The label ``node.kubernetes.io/exclude-from-external-load-balancers`` has the cloud's controllers take the node out of
every load balancer. They do so within seconds, and nothing in the cluster says when, so the wait is a time that the
policy names. Nothing that serves no load balancer waits.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from activities.claim import annotations, labels
from activities.cluster import Json
from activities.pod_filters import Filtered, Verdict

_TARGET_TYPES: Final = (
    ("service.beta.kubernetes.io/aws-load-balancer-nlb-target-type", "ip"),
    ("service.beta.kubernetes.io/aws-load-balancer-type", "nlb-ip"),
)
"""Where the AWS Load Balancer Controller makes pods the targets (its documentation, Service annotations)."""


@dataclass(frozen=True)
class Serving:
    """What a node does for load balancers."""

    by_pod: dict[str, str] = field(default_factory=dict)
    """By UID of a pod that traffic to this very node ends at: its Service, ``namespace/name``."""
    passing: tuple[str, ...] = ()
    """Services whose traffic may enter at this node, for pods anywhere: it passes it on as long as it stands."""

    def __bool__(self) -> bool:
        """Whether it does anything for one."""
        return bool(self.by_pod or self.passing)

    def words(self, node: str, until: datetime) -> dict[str, str]:
        """What waits until then for it to end: each pod by its UID, and the node by its name."""
        waits = f"at {until:%H:%M:%S} no load balancer sends to it any more"
        told = {uid: f"serves LoadBalancer Service {name}: {waits}" for uid, name in self.by_pod.items()}
        if self.passing:
            told[node] = f"Node {node} passes on traffic of LoadBalancer Service {', '.join(self.passing[:3])}: {waits}"
        return told


def serving(services: Iterable[Json], pods: Iterable[Filtered]) -> Serving:
    """What a node does for load balancers, by the Services of type LoadBalancer and its pods."""
    here = [pod for pod in pods if pod.verdict is Verdict.EVICT]
    by_pod: dict[str, str] = {}
    passing = []
    for service in services:
        if not _sends_to_nodes(service):
            continue
        metadata, spec = service["metadata"], service["spec"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        if spec.get("externalTrafficPolicy") != "Local":
            passing.append(name)
            continue
        # Only to nodes that have such a pod, and only to the pods on that node (Kubernetes, Service, External traffic
        # policy).
        selector: dict[str, str] = spec.get("selector") or {}
        for pod in here:
            chosen = selector and selector.items() <= labels(pod.pod).items()
            if chosen and pod.pod["metadata"]["namespace"] == metadata["namespace"]:
                by_pod.setdefault(pod.uid, name)
    return Serving(by_pod, tuple(sorted(passing)))


def _sends_to_nodes(service: Json) -> bool:
    """Whether there is a load balancer for it, and nodes are its targets. Pods that are leave it by themselves."""
    spec = service["spec"]
    if spec.get("type") != "LoadBalancer" or not (service.get("status", {}).get("loadBalancer") or {}).get("ingress"):
        return False
    known = annotations(service)
    by_pods = any(known.get(key) == value for key, value in _TARGET_TYPES)
    return not by_pods and spec.get("allocateLoadBalancerNodePorts") is not False
