"""What waits for the load balancers that a node was taken out of, and that nothing else does (D33)."""

from typing import Any

import pytest

from activities.cluster import Json
from activities.load_balancers import serving
from activities.pod_filters import Filtered, Verdict
from contract.policy import Deadlines

AWS = "service.beta.kubernetes.io/aws-load-balancer"


def service(
    policy: str = "Cluster", *, there: bool = True, annotations: dict[str, str] | None = None, **spec: Any
) -> Json:
    ingress = {"ingress": [{"hostname": "lb.example.com"}]} if there else {}
    return {
        "metadata": {"namespace": "n", "name": "lb", "annotations": annotations or {}},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy, "selector": {"app": "web"}, **spec},
        "status": {"loadBalancer": ingress},
    }


def pod(app: str, namespace: str = "n", verdict: Verdict = Verdict.EVICT) -> Filtered:
    metadata = {"namespace": namespace, "name": "p", "uid": f"{namespace}-{app}", "labels": {"app": app, "x": "y"}}
    return Filtered({"metadata": metadata, "spec": {}}, verdict, "")


def test_traffic_that_ends_at_the_node_keeps_the_pods_that_it_ends_at_and_no_other() -> None:
    found = serving([service("Local")], [pod("web"), pod("train"), pod("web", "elsewhere")])
    assert found.by_pod == {"n-web": "n/lb"}
    assert found.passing == ()


def test_traffic_that_may_enter_at_any_node_keeps_the_node_and_no_pod() -> None:
    found = serving([service("Cluster")], [pod("web"), pod("train")])
    assert (found.by_pod, found.passing) == ({}, ("n/lb",))


@pytest.mark.parametrize(
    "services",
    [
        [],
        [service("Local", there=False), service("Cluster", there=False)],
        [service("Local", selector={"app": "other"}), service("Local", selector=None)],
        [service(type="NodePort"), service(type="ClusterIP")],
        [service(annotations={f"{AWS}-nlb-target-type": "ip"}), service(annotations={f"{AWS}-type": "nlb-ip"})],
        [service(allocateLoadBalancerNodePorts=False)],
    ],
    ids=["none", "no balancer yet", "pods elsewhere", "other types", "pods are the targets", "no node ports"],
)
def test_node_that_serves_no_load_balancer_waits_for_none(services: list[Json]) -> None:
    assert not serving(services, [pod("web"), pod("train")])


@pytest.mark.parametrize("verdict", [Verdict.STAYS, Verdict.ENDING])
def test_pod_that_is_not_to_be_evicted_keeps_nothing(verdict: Verdict) -> None:
    assert not serving([service("Local")], [pod("web", verdict=verdict)])


def test_wait_is_short_unless_the_policy_says_otherwise() -> None:
    assert Deadlines().load_balancers.total_seconds() == 30
