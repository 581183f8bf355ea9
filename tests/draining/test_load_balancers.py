"""The node leaves its load balancers before its pods leave it, and comes back to them as it was (D32, D33)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from activities.cluster import Cluster
from activities.quarantine import QuarantineActivity
from contract.acts import GiveBackNode
from contract.names import NO_LOAD_BALANCER_LABEL, ErrorType
from deploy.local.scene import NodeGroup, wait_for
from tests.acting import Acting, meanwhile, refusal
from tests.draining.scene import MERGE, drain, pod, says, unmanaged


def labels(acting: Acting, node: str) -> dict[str, str]:
    found = acting.cluster.node(node)
    assert found
    return dict(found["metadata"]["labels"])


def test_d33_label_is_there_before_the_first_eviction(
    acting: Acting, group: NodeGroup, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "p")
    target = acting.claim(node)
    assert NO_LOAD_BALANCER_LABEL not in labels(acting, node)
    at_eviction: list[str | None] = []
    evict = Cluster.evict

    def looking(self: Cluster, *arguments: Any) -> None:
        at_eviction.append(labels(acting, node).get(NO_LOAD_BALANCER_LABEL))
        evict(self, *arguments)

    monkeypatch.setattr(Cluster, "evict", looking)
    assert drain(acting, target, evict_unmanaged_pods=True).evicted == 1
    assert at_eviction == ["true"]


def test_d19_label_is_not_put_where_nothing_may_be_evicted(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "alone")
    target = acting.claim(group.nodes[0])
    kind, _ = refusal(lambda: drain(acting, target))
    assert kind == ErrorType.DRAIN_FORBIDDEN
    assert NO_LOAD_BALANCER_LABEL not in labels(acting, group.nodes[0])
    assert pod(acting, namespace, "alone") is not None


@pytest.mark.parametrize("before", [None, "", "theirs"], ids=["absent", "empty", "set"])
def test_d32_given_back_the_label_is_as_it_was_even_after_a_second_try(
    acting: Acting, group: NodeGroup, before: str | None
) -> None:
    node = group.nodes[0]
    target = acting.claim(node)
    acting.patch(node, {"metadata": {"labels": {NO_LOAD_BALANCER_LABEL: before, "example.com/rack": "7"}}})
    was = labels(acting, node)
    drain(acting, target)
    assert labels(acting, node)[NO_LOAD_BALANCER_LABEL] == "true"
    drain(acting, target)
    acting.do(
        QuarantineActivity(acting.cluster).give_back_node,
        GiveBackNode(target=target, by="test", reason="seen", handled_seq=1),
    )
    assert labels(acting, node) == {key: value for key, value in was.items() if key != "nodemend.io/quarantined"}


@contextmanager
def balanced(acting: Acting, namespace: str, policy: str, selector: dict[str, str]) -> Iterator[None]:
    """A Service of type LoadBalancer that has its load balancer."""
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": policy, "selector": selector, "ports": [{"port": 80}]}
    acting.core.create_namespaced_service(namespace, {"metadata": {"name": "lb"}, "spec": spec})
    there = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}}
    acting.core.patch_namespaced_service_status("lb", namespace, there, _content_type=MERGE)
    yield
    acting.core.delete_namespaced_service("lb", namespace)


HOUR = timedelta(hours=1)


def test_d33_pods_that_a_load_balancer_sends_to_wait_for_it_and_others_leave_at_once(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "web", labels={"app": "web"})
    unmanaged(acting, node, namespace, "work", labels={"app": "train"})
    target = acting.claim(node)

    def look_and_stop() -> None:
        says(acting, f"{namespace}/web (serves LoadBalancer Service {namespace}/lb")
        wait_for(lambda: pod(acting, namespace, "work") is None, "the pod that serves nothing to be gone")
        assert pod(acting, namespace, "web").metadata.deletion_timestamp is None
        acting.patch(node, {"spec": {"unschedulable": None}})

    with balanced(acting, namespace, "Local", {"app": "web"}), meanwhile(look_and_stop):
        kind, _ = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, load_balancers=HOUR))
    assert kind == ErrorType.HUMAN_VETO


def test_d33_node_that_passes_traffic_on_stays_empty_and_no_pod_waits(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "web", labels={"app": "web"})
    target = acting.claim(node)

    def look_and_stop() -> None:
        wait_for(lambda: pod(acting, namespace, "web") is None, "the pod to be gone")
        says(acting, f"'waiting': ['Node {node} passes on traffic of LoadBalancer Service {namespace}/lb")
        acting.patch(node, {"spec": {"unschedulable": None}})

    with balanced(acting, namespace, "Cluster", {"app": "web"}), meanwhile(look_and_stop):
        kind, _ = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, load_balancers=HOUR))
    assert kind == ErrorType.HUMAN_VETO


@pytest.mark.parametrize("policy", ["Local", "Cluster"])
def test_d28_d33_next_try_goes_on_with_the_same_clock(
    acting: Acting, group: NodeGroup, namespace: str, policy: str
) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "web", labels={"app": "web"})
    earlier = [{"left_load_balancers_at": "2026-01-01T00:00:00+00:00"}]
    with balanced(acting, namespace, policy, {"app": "web"}):
        done = drain(acting, acting.claim(node), details=earlier, evict_unmanaged_pods=True, load_balancers=HOUR)
    assert done.evicted == 1
