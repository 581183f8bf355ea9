"""Every kind of blocker is explained: pod, owner, why, since when, and what a human can press (D5, D12, D21, D22)."""

from datetime import timedelta
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiException

from activities.eviction import Refusal, read_answer
from contract.names import ErrorType
from deploy.local.scene import NodeGroup, create_web, running_pods, wait_for
from deploy.local.work import STUCK_ANNOTATION
from tests.acting import Acting, refusal
from tests.draining.scene import MERGE, budget, drain, unmanaged

SOON = timedelta(seconds=2)


def set_ready(acting: Acting, namespace: str, name: str, status: str) -> None:
    acting.core.patch_namespaced_pod_status(
        name,
        namespace,
        {"status": {"conditions": [{"type": "Ready", "status": status}]}},
        _content_type="application/strategic-merge-patch+json",
    )


def blocked(acting: Acting, group: NodeGroup, **changes: Any) -> str:
    target = acting.claim(group.nodes[0])
    kind, message = refusal(
        lambda: drain(acting, target, **{"evict_unmanaged_pods": True, "deadline": SOON, **changes})
    )
    assert kind == ErrorType.DRAIN_BLOCKED
    assert "press `resume`; or `release` gives the node back" in message
    return message


def test_d12_unready_pod_elsewhere_that_holds_the_budget_is_named(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "here", labels={"kind": "web"})
    unmanaged(acting, group.nodes[1], namespace, "ill", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["web"]}]})
    set_ready(acting, namespace, "ill", "False")
    policy: Any = client.PolicyV1Api(acting.core.api_client)
    wait_for(
        lambda: policy.read_namespaced_pod_disruption_budget("keep-web", namespace).status.current_healthy == 1,
        "the budget to see it",
    )
    message = blocked(acting, group)
    assert f"{namespace}/here (PodDisruptionBudget keep-web needs 1 healthy pods and has 1 currently, since" in message
    assert "not Ready of 2 pods that it counts: ill" in message
    assert "bring the pods that are not Ready back, add replicas, or relax the budget" in message


def test_d5_budget_whose_pods_are_all_ready_is_told_apart_and_the_owner_named(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    create_web(acting.stack, "web", replicas=1, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "web", namespace)) == 1, "web")
    policy: Any = client.PolicyV1Api(acting.core.api_client)
    policy.patch_namespaced_pod_disruption_budget("web", namespace, {"spec": {"minAvailable": 1}}, _content_type=MERGE)
    wait_for(
        lambda: policy.read_namespaced_pod_disruption_budget("web", namespace).status.desired_healthy == 1, "the budget"
    )
    (only,) = running_pods(acting.stack, "web", namespace)
    target = acting.claim(only.spec.node_name)
    _, message = refusal(lambda: drain(acting, target, deadline=timedelta(seconds=-3)))
    assert f"{only.metadata.name} of ReplicaSet {only.metadata.owner_references[0].name} (PodDisruptionB" in message
    assert "1 pod that it counts is Ready" in message


def test_d12_pod_that_is_itself_unready_is_said_to_be(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "ill", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    set_ready(acting, namespace, "ill", "False")
    message = blocked(acting, group)
    assert f"{namespace}/ill (PodDisruptionBudget keep-web needs 1 healthy pods and has 0 currently" in message
    assert "the pod itself is not Ready" in message


def test_d22_pod_that_ends_too_slowly_and_one_held_by_a_finalizer(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "slow", annotations={STUCK_ANNOTATION: "yes"})
    unmanaged(acting, group.nodes[0], namespace, "held", annotations={STUCK_ANNOTATION: "yes"})
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    acting.core.patch_namespaced_pod("held", namespace, hold, _content_type=MERGE)
    message = blocked(acting, group)
    assert f"{namespace}/held (being deleted, held by finalizer example.com/hold)" in message
    assert "see to the controller that set it" in message
    assert f"{namespace}/slow (its grace period ends at 2" in message
    assert "see to the kubelet" in message
    acting.core.patch_namespaced_pod("held", namespace, {"metadata": {"finalizers": None}}, _content_type=MERGE)


def test_d8_refusal_of_a_terminating_namespace_is_waited_out_and_no_missing_right(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p", annotations={STUCK_ANNOTATION: "yes"})
    found = acting.cluster.pod(namespace, "p")
    assert found
    acting.core.delete_namespace(namespace)
    with pytest.raises(ApiException) as raised:
        acting.admin.evict(found, None)
    refusal = read_answer(raised.value, "p")
    assert raised.value.status == 403
    assert isinstance(refusal, Refusal)
    assert (refusal.permanent, refusal.overload, refusal.budgets) == (False, False, {})
