"""The drain, rule by rule (D1 to D40), on the real API server: what is evicted, what is left, and what is said."""

import time
from datetime import timedelta
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiException

from activities.drain import DrainActivity
from contract.acts import DrainNode
from contract.names import SKIP_ANNOTATION, ErrorType
from contract.policy import DrainEscalation
from deploy.local.scene import (
    NodeGroup,
    add_pod,
    create_daemonset,
    create_training_job,
    create_web,
    running_pods,
    wait_for,
)
from deploy.local.work import STUCK_ANNOTATION
from tests.acting import Acting, meanwhile, refusal
from tests.draining.scene import MERGE, budget, drain, pod, says, silence, unmanaged


def test_d1_eviction_names_the_pod_by_uid_so_that_its_successor_is_left_alone(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    found = acting.cluster.pod(namespace, "p")
    assert found
    earlier = {**found, "metadata": {**found["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    with pytest.raises(ApiException) as raised:
        acting.admin.evict(earlier, None)
    assert raised.value.status == 409
    assert pod(acting, namespace, "p").metadata.deletion_timestamp is None


def test_d4_pods_get_the_grace_period_that_they_ask_for(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p", grace_s=17, annotations={STUCK_ANNOTATION: "yes"})
    target = acting.claim(group.nodes[0])
    refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(seconds=-16)))
    assert pod(acting, namespace, "p").metadata.deletion_grace_period_seconds == 17


def test_d5_d6_blocked_by_a_budget_it_waits_without_hammering_names_it_and_goes_on_when_freed(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    target = acting.claim(group.nodes[0])
    policy: Any = client.PolicyV1Api(acting.core.api_client)

    def free() -> None:
        wait_for(
            lambda: any("PodDisruptionBudget keep-web" in str(beat) for beat in acting.heartbeats), "the budget's name"
        )
        policy.delete_namespaced_pod_disruption_budget("keep-web", namespace)

    with meanwhile(free):
        done = drain(acting, target, evict_unmanaged_pods=True)
    assert done.blocked_by == ("keep-web",)
    assert done.evicted == 1
    assert pod(acting, namespace, "p") is None


def test_d5_d12_budget_that_never_gives_way_ends_in_an_error_that_names_it(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    target = acting.claim(group.nodes[0])
    kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(seconds=2)))
    assert kind == ErrorType.DRAIN_BLOCKED
    assert f"{namespace}/p (PodDisruptionBudget keep-web needs 1 healthy pods and has 1 currently, since" in message
    assert pod(acting, namespace, "p").metadata.deletion_timestamp is None


def test_d7_two_budgets_over_one_pod_are_a_permanent_error_that_names_both(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p", labels={"kind": "web"})
    for name in ("one", "two"):
        budget(acting, namespace, name, {"matchLabels": {"kind": "web"}}, min_available=0)
    target = acting.claim(group.nodes[0])
    kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True))
    assert kind == ErrorType.DRAIN_BLOCKED
    assert "one, two" in message


def test_d35_budget_with_an_empty_selector_covers_every_pod(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    budget(acting, namespace, "everything", {})
    target = acting.claim(group.nodes[0])
    _, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(seconds=2)))
    assert "PodDisruptionBudget everything" in message


def test_d13_d15_d16_pods_that_stay_by_right_are_left_and_never_waited_for(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    node = group.nodes[0]
    create_daemonset(acting.stack, "agent", namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "agent", namespace)) == 2, "the DaemonSet")
    unmanaged(acting, node, namespace, "static", annotations={"kubernetes.io/config.mirror": "x"})
    unmanaged(acting, node, namespace, "done", annotations={"nodemend.local/complete": "yes"})
    wait_for(lambda: pod(acting, namespace, "done").status.phase == "Succeeded", "done")
    done = drain(acting, acting.claim(node))
    assert (done.evicted, done.left_total) == (0, 3)
    assert len(running_pods(acting.stack, "agent", namespace)) == 2
    assert pod(acting, namespace, "static") is not None


def test_d14_pod_of_a_daemon_set_that_is_gone_is_treated_as_unmanaged(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    create_daemonset(acting.stack, "agent", namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "agent", namespace)) == 2, "the DaemonSet")
    apps: Any = client.AppsV1Api(acting.core.api_client)
    apps.delete_namespaced_daemon_set("agent", namespace, propagation_policy="Orphan")
    orphan = next(p for p in running_pods(acting.stack, "agent", namespace) if p.spec.node_name == group.nodes[0])
    kind, message = refusal(lambda: drain(acting, acting.claim(group.nodes[0])))
    assert kind == ErrorType.DRAIN_FORBIDDEN
    assert orphan.metadata.name in message


@pytest.mark.parametrize("evictable_first", [True, False])
def test_d17_d18_d19_one_pod_that_may_not_go_stops_the_drain_before_any_has_gone(
    acting: Acting, group: NodeGroup, namespace: str, evictable_first: bool
) -> None:
    node = group.nodes[0]
    create_web(acting.stack, "web", replicas=2, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "web", namespace)) == 2, "web")
    unmanaged(acting, node, namespace, "alone")
    target = acting.claim(node)
    kind, message = refusal(lambda: drain(acting, target))
    assert kind == ErrorType.DRAIN_FORBIDDEN
    assert f"{namespace}/alone (no controller brings it back)" in message
    assert "evict_unmanaged_pods" in message
    assert len(running_pods(acting.stack, "web", namespace)) == 2


def test_d17_local_storage_is_the_policys_word(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "scratch", spec={"volumes": [{"name": "tmp", "emptyDir": {}}]})
    target = acting.claim(group.nodes[0])
    kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, evict_local_storage_pods=False))
    assert (kind, "emptyDir" in message) == (ErrorType.DRAIN_FORBIDDEN, True)
    assert drain(acting, target, evict_unmanaged_pods=True).evicted == 1


def test_namespace_that_opted_out_keeps_its_pods_and_is_named(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    skip = {"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}}
    acting.core.patch_namespace(namespace, skip, _content_type="application/merge-patch+json")
    kind, message = refusal(lambda: drain(acting, acting.claim(group.nodes[0]), evict_unmanaged_pods=True))
    assert kind == ErrorType.DRAIN_FORBIDDEN
    assert SKIP_ANNOTATION in message
    assert pod(acting, namespace, "p").metadata.deletion_timestamp is None


def test_d20_pod_that_lands_in_mid_drain_is_seen_and_evicted(acting: Acting, group: NodeGroup, namespace: str) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "first", annotations={"nodemend.local/end-after": "2s"}, grace_s=5)
    target = acting.claim(node)

    def land() -> None:
        wait_for(lambda: bool(acting.heartbeats), "the drain to start")
        add_pod(acting.stack, "late", node=node, namespace=namespace)

    with meanwhile(land):
        done = drain(acting, target, evict_unmanaged_pods=True)
    assert done.evicted == 2
    assert pod(acting, namespace, "late") is None


def test_d22_d27_pod_that_somebody_deleted_is_waited_for_and_named_when_it_never_ends(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "stuck", annotations={STUCK_ANNOTATION: "yes"})
    acting.core.delete_namespaced_pod("stuck", namespace)
    before = pod(acting, namespace, "stuck").metadata
    target = acting.claim(group.nodes[0])
    kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(seconds=1)))
    assert kind == ErrorType.DRAIN_BLOCKED
    assert f"{namespace}/stuck" in message
    after = pod(acting, namespace, "stuck").metadata
    assert after.deletion_timestamp == before.deletion_timestamp


def test_d22_finalizer_is_named(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "held")
    finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
    acting.core.patch_namespaced_pod("held", namespace, finalizers, _content_type="application/merge-patch+json")
    acting.core.delete_namespaced_pod("held", namespace)
    # A pod that has ended stays for its finalizer alone, and does no work any more.
    wait_for(lambda: pod(acting, namespace, "held").status.phase == "Failed", "its end")
    assert drain(acting, acting.claim(group.nodes[0]), evict_unmanaged_pods=True).evicted == 0
    acting.core.patch_namespaced_pod(
        "held", namespace, {"metadata": {"finalizers": None}}, _content_type="application/merge-patch+json"
    )


def test_d24_on_a_silent_node_pods_get_one_second(acting: Acting, group: NodeGroup, namespace: str) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "p", grace_s=600, annotations={STUCK_ANNOTATION: "yes"})
    silence(acting, node)
    target = acting.claim(node)
    refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(seconds=-598)))
    assert pod(acting, namespace, "p").metadata.deletion_grace_period_seconds == 1


def test_d25_longest_grace_period_is_on_top_of_the_deadline(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "slow", grace_s=10, annotations={"nodemend.local/end-after": "3s"})
    target = acting.claim(group.nodes[0])
    assert drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(seconds=0.1)).evicted == 1


def test_d28_drain_that_changed_workers_goes_on_and_counts_what_was_evicted_before(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    target = acting.claim(group.nodes[0])
    done = drain(acting, target, details=[{"evicted": 4}], evict_unmanaged_pods=True)
    assert done.evicted == 5


def test_d34_hundred_pods_leave_together(acting: Acting, group: NodeGroup, namespace: str) -> None:
    node = group.nodes[0]
    for number in range(100):
        add_pod(acting.stack, f"p-{number}", node=node, namespace=namespace)
    done = drain(acting, acting.claim(node), evict_unmanaged_pods=True)
    assert done.evicted == 100
    assert len(done.pods) <= 20


def test_d37_another_node_of_the_same_name_is_not_drained(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    target = acting.target(group.nodes[0], node_uid="another")
    kind, _ = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True))
    assert kind == ErrorType.NODE_GONE
    assert pod(acting, namespace, "p").metadata.deletion_timestamp is None


def test_fenced_run_evicts_nothing_after_its_successor_took_over(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    earlier = acting.claim(group.nodes[0])
    acting.run = "run-2"
    acting.claim(group.nodes[0])
    kind, _ = refusal(lambda: drain(acting, earlier, evict_unmanaged_pods=True))
    assert kind == ErrorType.FENCED_OUT
    assert pod(acting, namespace, "p").metadata.deletion_timestamp is None


def test_cancelled_drain_stops_at_once(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "stuck", annotations={STUCK_ANNOTATION: "yes"})
    target = acting.claim(group.nodes[0])
    environment = acting.environment()
    argument = DrainNode(
        target=target, evict_unmanaged_pods=True, evict_local_storage_pods=True, deadline=timedelta(minutes=5)
    )

    def cancel() -> None:
        wait_for(lambda: bool(acting.heartbeats), "the drain to start")
        environment.cancel()

    started = time.monotonic()
    with meanwhile(cancel), pytest.raises(Exception, match="stopped this act"):
        environment.run(DrainActivity(acting.cluster).drain_node, argument)
    assert time.monotonic() - started < 60


def test_d2_d3_successors_of_the_same_name_elsewhere_are_neither_evicted_nor_waited_for(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    """D2: what is asked again is the pod of then. D3: what is waited for is that pod, whoever has its name by now."""
    node, other = group.nodes
    unmanaged(acting, node, namespace, "refused", labels={"kind": "web"})
    unmanaged(acting, node, namespace, "ending", grace_s=60, annotations={STUCK_ANNOTATION: "yes"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    successors: dict[str, str] = {}

    def succeed() -> None:
        says(acting, "PodDisruptionBudget keep-web")
        wait_for(lambda: pod(acting, namespace, "ending").metadata.deletion_timestamp is not None, "its eviction")
        for name in ("refused", "ending"):
            acting.core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
            wait_for(lambda name=name: pod(acting, namespace, name) is None, name)  # type: ignore[misc]
            unmanaged(acting, other, namespace, name, labels={"kind": "web"})
            successors[name] = pod(acting, namespace, name).metadata.uid

    with meanwhile(succeed):
        done = drain(acting, acting.claim(node), evict_unmanaged_pods=True, deadline=timedelta(minutes=5))
    assert done.pods == (f"{namespace}/ending",)
    for name, uid in successors.items():
        now = pod(acting, namespace, name).metadata
        assert (now.uid, now.deletion_timestamp) == (uid, None)


def test_d11_job_is_disrupted_by_eviction_though_the_policy_says_delete_and_burns_no_attempt(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    create_training_job(acting.stack, "train", ranks=2, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "train", namespace)) == 2, "its ranks")
    (rank,) = [p for p in running_pods(acting.stack, "train", namespace) if p.spec.node_name == group.nodes[0]]
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    acting.core.patch_namespaced_pod(rank.metadata.name, namespace, hold, _content_type=MERGE)
    done = drain(acting, acting.claim(group.nodes[0]), escalation=DrainEscalation.DELETE)
    assert (done.evicted, done.deleted_total) == (1, 0)
    (told,) = [c for c in pod(acting, namespace, rank.metadata.name).status.conditions if c.type == "DisruptionTarget"]
    assert (told.status, told.reason) == ("True", "EvictionByEvictionAPI")
    acting.core.patch_namespaced_pod(
        rank.metadata.name, namespace, {"metadata": {"finalizers": None}}, _content_type=MERGE
    )
    batch: Any = client.BatchV1Api(acting.core.api_client)

    def replaced() -> bool:
        status = batch.read_namespaced_job("train", namespace).status
        return bool(status.active == 2 and not status.failed and not status.conditions)

    wait_for(replaced, "the Job to count its rank as disrupted, and not as failed")


@pytest.mark.parametrize("kubelet_ends_it", [True, False])
def test_d39_job_on_a_silent_node_is_not_waited_for_though_it_never_ends(
    acting: Acting, group: NodeGroup, namespace: str, kubelet_ends_it: bool
) -> None:
    """What is waited for is its pod, by UID, and that no longer than the policy says (D22): the Job says "active"."""
    create_training_job(acting.stack, "train", ranks=1, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "train", namespace)) == 1, "its rank")
    (rank,) = running_pods(acting.stack, "train", namespace)
    if not kubelet_ends_it:
        stuck = {"metadata": {"annotations": {STUCK_ANNOTATION: "yes"}}}
        acting.core.patch_namespaced_pod(rank.metadata.name, namespace, stuck, _content_type=MERGE)
    silence(acting, rank.spec.node_name)
    done = drain(
        acting,
        acting.claim(rank.spec.node_name),
        deadline=timedelta(minutes=5) if kubelet_ends_it else timedelta(seconds=2),
        escalation=DrainEscalation.TERMINATE_INSTANCE,
    )
    assert (done.evicted, done.abandoned_total) == (1, 0 if kubelet_ends_it else 1)
    batch: Any = client.BatchV1Api(acting.core.api_client)
    assert not batch.read_namespaced_job("train", namespace).status.conditions, "it is as far from its end as before"
