"""The node leaves its load balancers before its pods leave it, and comes back to them as it was (D32, D33)."""

from typing import Any

import pytest

from activities.cluster import Cluster
from activities.quarantine import QuarantineActivity
from contract.acts import GiveBackNode
from contract.names import NO_LOAD_BALANCER_LABEL, ErrorType
from deploy.local.scene import NodeGroup
from tests.acting import Acting, refusal
from tests.draining.scene import drain, pod, unmanaged


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
