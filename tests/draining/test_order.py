"""In which order pods leave, and how many drains share one process, on the real API server (D34)."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from kubernetes import client
from kubernetes.client import ApiException

from activities import eviction
from activities.cluster import Cluster
from activities.drain import DrainActivity
from activities.eviction import EVICTIONS_AT_ONCE, Evictions, Refusal, Took
from activities.pod_filters import Filtered, Verdict
from contract.acts import DrainNode
from deploy.local.scene import NodeGroup, add_pod, wait_for
from deploy.local.work import SLOW_ANNOTATION
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.draining.counting import counted_evictions
from tests.draining.scene import drain, pod, unmanaged
from worker.clients import cluster_by


def test_system_critical_pods_stay_until_the_others_are_gone(acting: Acting, group: NodeGroup, namespace: str) -> None:
    node = group.nodes[0]
    for name, priority_class in (("cni", "system-node-critical"), ("dns", "system-cluster-critical"), ("work", "")):
        spec = {"priorityClassName": priority_class} if priority_class else {}
        unmanaged(acting, node, namespace, name, spec=spec, annotations={SLOW_ANNOTATION: "1s"}, grace_s=60)
    with counted_evictions() as asked:
        done = drain(acting, acting.claim(node), evict_unmanaged_pods=True)
    assert asked.names == ["work", "dns", "cni"]
    assert done.evicted == 3
    # Each was asked when the one before was gone, not merely told to go.
    assert asked.present_at["dns"] == {"dns", "cni"}
    assert asked.present_at["cni"] == {"cni"}


@contextmanager
def as_somebody(acting: Acting) -> Iterator[Cluster]:
    """A client that is no administrator: Priority and Fairness exempts those."""
    name = f"worker-{uuid.uuid4().hex[:8]}"
    rights: Any = client.RbacAuthorizationV1Api(acting.core.api_client)
    rights.create_cluster_role_binding(
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }
    )
    cluster = cluster_by(acting.core.api_client.configuration)
    cluster.api.set_default_header("Impersonate-User", name)
    with closing(cluster.api):
        yield cluster
    rights.delete_cluster_role_binding(name)


@contextmanager
def one_at_a_time(acting: Acting, cluster: Cluster, namespace: str) -> Iterator[None]:
    """Have API Priority and Fairness take one eviction at a time in a namespace, and reject whatever else comes."""
    control: Any = client.FlowcontrolApiserverV1Api(acting.core.api_client)
    name = f"overload-{uuid.uuid4().hex[:8]}"
    # Shares of 0 round up to one seat; it lends and borrows none.
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    control.create_priority_level_configuration(
        {
            "metadata": {"name": name},
            "spec": {"type": "Limited", "limited": {**limited, "limitResponse": {"type": "Reject"}}},
        }
    )
    everybody = {"kind": "Group", "group": {"name": "system:authenticated"}}
    evictions = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"], "namespaces": [namespace]}
    schema = control.create_flow_schema(
        {
            "metadata": {"name": name},
            "spec": {
                "matchingPrecedence": 2,
                "priorityLevelConfiguration": {"name": name},
                "rules": [{"subjects": [everybody], "resourceRules": [evictions]}],
            },
        }
    )
    nobody = {"metadata": {"namespace": namespace, "name": "nobody", "uid": "x"}}

    def in_force() -> bool:
        with pytest.raises(ApiException) as raised:
            cluster.evict(nobody, None)
        return bool((raised.value.headers or {}).get("X-Kubernetes-Pf-Flowschema-Uid") == schema.metadata.uid)

    wait_for(in_force, "the flow schema to be in force")
    yield
    control.delete_flow_schema(name)
    control.delete_priority_level_configuration(name)


def test_d5_d34_overload_is_no_budget_and_is_waited_out(acting: Acting, group: NodeGroup, namespace: str) -> None:
    for number in range(20):
        add_pod(acting.stack, f"p-{number}", node=group.nodes[0], namespace=namespace)
    argument = DrainNode(
        target=acting.claim(group.nodes[0]),
        evict_unmanaged_pods=True,
        evict_local_storage_pods=True,
        deadline=timedelta(minutes=1),
    )
    with (
        as_somebody(acting) as cluster,
        one_at_a_time(acting, cluster, namespace),
        counted_evictions() as asked,
    ):
        done = acting.environment().run(DrainActivity(cluster).drain_node, argument)
    assert (done.evicted, done.blocked_by) == (20, ())
    assert set(asked.refusals) == {429}
    assert len(asked.names) == 20 + len(asked.refusals)
    assert any("the API server has too much to do" in str(beat) for beat in acting.heartbeats)


def test_d34_overload_seen_by_one_drain_slows_every_drain_of_the_process(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    for number in range(16):
        add_pod(acting.stack, f"p-{number}", node=group.nodes[0], namespace=namespace)
    unmanaged(acting, group.nodes[1], namespace, "elsewhere")
    answers: list[Took | Refusal] = []

    def ask(evictions: Evictions, node: str) -> None:
        pods = [Filtered(pod, Verdict.EVICT, "") for pod in acting.cluster.pods_on(node)]
        evictions.ask(pods, None, before_each=lambda: None, answer=lambda _, answer: answers.append(answer))

    with (
        as_somebody(acting) as cluster,
        one_at_a_time(acting, cluster, namespace),
        mock.patch.object(eviction, "_OVERLOAD_FLOOR_S", 30.0),
    ):
        evictions = Evictions(cluster)
        ask(evictions, group.nodes[0])
        assert any(isinstance(answer, Refusal) and answer.overload for answer in answers)
        answers.clear()
        ask(evictions, group.nodes[1])
        assert answers == []
        # Of this process: another one has not heard of it.
        ask(Evictions(cluster), group.nodes[1])
        assert answers == [Took.EVICTED]


@pytest.mark.thorough
def test_d34_drains_of_one_process_together_ask_for_no_more_at_once_than_one_may(
    acting: Acting, node_group: MakeNodeGroup, namespace: str
) -> None:
    group = node_group(6)
    for at, node in enumerate(group.nodes):
        for number in range(15):
            add_pod(acting.stack, f"p-{at}-{number}", node=node, namespace=namespace)
    act = DrainActivity(acting.cluster)
    targets = [acting.claim(node) for node in group.nodes]
    with counted_evictions() as asked, ThreadPoolExecutor(6) as drains:
        done = list(
            drains.map(
                lambda target: acting.environment().run(
                    act.drain_node,
                    DrainNode(
                        target=target,
                        evict_unmanaged_pods=True,
                        evict_local_storage_pods=True,
                        deadline=timedelta(minutes=1),
                    ),
                ),
                targets,
            )
        )
    assert sum(one.evicted for one in done) == len(asked.names) == 90
    assert asked.most_at_once <= EVICTIONS_AT_ONCE
    assert pod(acting, namespace, "p-0-0") is None
