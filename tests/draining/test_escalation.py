"""What the policy says about pods that do not leave, on the real API server: done, and told."""

from datetime import timedelta
from unittest import mock

import pytest

from activities import pod_filters
from contract.names import ErrorType
from contract.policy import DrainEscalation
from deploy.local.scene import NodeGroup
from deploy.local.work import STUCK_ANNOTATION
from tests.acting import Acting, meanwhile, refusal
from tests.draining.scene import MERGE, budget, drain, pod, says, unmanaged
from workflows import sentences


def blocked(acting: Acting, group: NodeGroup, namespace: str, *, grace_s: int = 1) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p", labels={"kind": "web"}, grace_s=grace_s)
    unmanaged(acting, group.nodes[0], namespace, "free")
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})


def test_d29_delete_overruns_the_budget_at_the_deadline_with_the_pods_own_grace_and_says_so(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    blocked(acting, group, namespace, grace_s=7)
    hold = {"metadata": {"annotations": {"nodemend.local/end-after": "1s"}}}
    acting.core.patch_namespaced_pod("p", namespace, hold, _content_type=MERGE)
    seen: list[int] = []

    def look() -> None:
        says(acting, "'deleted': {'")
        found = pod(acting, namespace, "p")
        seen.extend([found.metadata.deletion_grace_period_seconds] if found else [])

    with meanwhile(look):
        done = drain(
            acting,
            acting.claim(group.nodes[0]),
            evict_unmanaged_pods=True,
            deadline=timedelta(seconds=-6),
            escalation=DrainEscalation.DELETE,
        )
    assert seen == [7]
    assert (done.evicted, done.deleted_total, done.abandoned_total) == (1, 1, 0)
    assert done.deleted[0].startswith(f"{namespace}/p (PodDisruptionBudget keep-web needs 1 healthy pods")
    assert f"Deleted after they refused to the end: {namespace}/p (PodDisr" in sentences.drained(done)
    assert pod(acting, namespace, "p") is None
    events = acting.core.list_namespaced_event("default", field_selector=f"involvedObject.name={group.nodes[0]}").items
    assert any(e.reason == "NodemendDeletesPod" and f"{namespace}/p" in e.message for e in events)


def test_d28_deleted_pods_stay_in_the_report_of_a_drain_that_changed_workers(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    earlier = {"evicted": 1, "deleted": {"uid": "ns/q (PodDisruptionBudget x)"}}
    done = drain(acting, acting.claim(group.nodes[0]), details=[earlier], evict_unmanaged_pods=True)
    assert (done.evicted, done.deleted) == (2, ("ns/q (PodDisruptionBudget x)",))


def test_terminate_instance_leaves_what_is_left_to_its_end_untouched_and_says_which_and_why(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    blocked(acting, group, namespace)
    done = drain(
        acting,
        acting.claim(group.nodes[0]),
        evict_unmanaged_pods=True,
        deadline=timedelta(seconds=2),
        escalation=DrainEscalation.TERMINATE_INSTANCE,
    )
    assert (done.evicted, done.deleted_total, done.abandoned_total) == (1, 0, 1)
    assert done.abandoned[0].startswith(f"{namespace}/p (PodDisruptionBudget keep-web needs 1 healthy pods")
    assert f"Left to the end of the instance: {namespace}/p" in sentences.drained(done)
    assert pod(acting, namespace, "p").metadata.deletion_timestamp is None


@pytest.mark.parametrize("escalation", [DrainEscalation.DELETE, DrainEscalation.TERMINATE_INSTANCE])
def test_drain_that_finds_a_worker_after_its_deadline_asks_the_pods_and_gives_them_their_time(
    acting: Acting, group: NodeGroup, namespace: str, escalation: DrainEscalation
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    unmanaged(acting, group.nodes[0], namespace, "q")
    target = acting.claim(group.nodes[0])
    done = drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(hours=-1), escalation=escalation)
    assert (done.evicted, done.deleted_total, done.abandoned_total) == (2, 0, 0)


def test_d22_pod_that_hangs_past_its_own_clock_is_not_waited_for_to_the_deadline(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "hung", annotations={STUCK_ANNOTATION: "yes"})
    acting.core.delete_namespaced_pod("hung", namespace, grace_period_seconds=1)
    target = acting.claim(group.nodes[0])
    with mock.patch.object(pod_filters, "HANGS_AFTER", timedelta(seconds=1)):
        kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, deadline=timedelta(hours=1)))
    assert kind == ErrorType.DRAIN_BLOCKED
    assert f"{namespace}/hung (its grace period ends at" in message
    assert "and the kubelet does not end it" in message
    assert "terminate-instance" in message


def test_d7_two_budgets_over_a_pod_are_left_to_the_policy(acting: Acting, group: NodeGroup, namespace: str) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p", labels={"kind": "web"})
    for name in ("one", "two"):
        budget(acting, namespace, name, {"matchLabels": {"kind": "web"}}, min_available=0)
    done = drain(
        acting,
        acting.claim(group.nodes[0]),
        evict_unmanaged_pods=True,
        deadline=timedelta(seconds=1),
        escalation=DrainEscalation.DELETE,
    )
    assert done.deleted[0].startswith(f"{namespace}/p (more than one PodDisruptionBudget covers it")


def test_pod_that_policy_forbids_to_evict_is_never_deleted_instead(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "alone")
    for escalation in (DrainEscalation.DELETE, DrainEscalation.TERMINATE_INSTANCE):
        target = acting.claim(group.nodes[0])
        kind, _ = refusal(
            lambda target=target, escalation=escalation: drain(  # type: ignore[misc]
                acting, target, deadline=timedelta(seconds=-1), escalation=escalation
            )
        )
        assert kind == ErrorType.DRAIN_FORBIDDEN
    assert pod(acting, namespace, "alone").metadata.deletion_timestamp is None
