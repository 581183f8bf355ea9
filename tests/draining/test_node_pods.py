"""The pods of a node as a drain sees them: followed, not polled, and never "none" because something broke (D38)."""

import copy
from contextlib import closing
from typing import Any

import pytest

from activities.cluster import Cluster, PodWatch
from contract.names import ErrorType
from deploy.local.scene import NodeGroup, add_pod, wait_for
from deploy.local.work import STUCK_ANNOTATION
from tests.acting import Acting, meanwhile, refusal
from tests.draining.scene import MERGE, drain, pod, says, unmanaged
from worker.clients import cluster_by


def test_d38_drain_goes_on_when_its_watch_is_cut(
    acting: Acting, group: NodeGroup, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "slow", annotations={STUCK_ANNOTATION: "yes"}, grace_s=3)
    target = acting.claim(node)
    watches: list[PodWatch] = []
    watch_pods = Cluster.watch_pods

    def kept(self: Cluster, *arguments: Any) -> PodWatch:
        watches.append(watch_pods(self, *arguments))
        return watches[-1]

    monkeypatch.setattr(Cluster, "watch_pods", kept)

    def cut() -> None:
        says(acting, f"{namespace}/slow")
        add_pod(acting.stack, "late", node=node, namespace=namespace)
        watches[0].stop()
        wait_for(lambda: len(watches) > 1, "another watch")
        acting.core.patch_namespaced_pod(
            "slow", namespace, {"metadata": {"annotations": {STUCK_ANNOTATION: None}}}, _content_type=MERGE
        )

    with meanwhile(cut):
        done = drain(acting, target, evict_unmanaged_pods=True)
    assert done.evicted == 2
    assert pod(acting, namespace, "slow") is None


def test_followed_pods_cost_no_more_lists_the_longer_they_take(
    acting: Acting, group: NodeGroup, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[str] = []
    pods_and_version = Cluster.pods_and_version

    def counted(self: Cluster, node: str) -> Any:
        lists.append(node)
        return pods_and_version(self, node)

    node = group.nodes[0]
    unmanaged(acting, node, namespace, "slow", annotations={"nodemend.local/end-after": "4s"}, grace_s=10)
    target = acting.claim(node)
    monkeypatch.setattr(Cluster, "pods_and_version", counted)
    assert drain(acting, target, evict_unmanaged_pods=True).evicted == 1
    # One to begin with, and one that finds nothing left (D20).
    assert lists == [node, node]


def test_d38_api_server_that_is_away_is_no_empty_node(acting: Acting, group: NodeGroup) -> None:
    target = acting.claim(group.nodes[0])
    nowhere = copy.copy(acting.cluster.api.configuration)
    nowhere.host = "https://127.0.0.1:1"
    nowhere.retries = False
    # It would read the address from the kubeconfig again.
    nowhere.refresh_api_key_hook = None
    away = cluster_by(nowhere)
    with closing(away.api):
        acting.cluster = away
        kind, message = refusal(lambda: drain(acting, target))
    assert kind == ErrorType.UNREACHABLE
    assert "cannot be reached" in message
