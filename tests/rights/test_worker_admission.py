"""The worker puts its own marks on nodes and takes them off, and touches nothing that others own. Real tokens.

RBAC allows the service accounts everything here (conftest): what refuses is the policy of ``deploy/admission``.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from activities.lifecycle import OURS
from contract.names import (
    CLUSTER_FINDING_DIGESTS_ANNOTATION,
    DO_NOT_DISRUPT_ANNOTATION,
    FINDING_DIGESTS_ANNOTATION,
    HANDLED_ANNOTATION,
    INCIDENT_LABEL,
    LIFECYCLE_REASON,
    NO_LOAD_BALANCER_LABEL,
    OWNER_ANNOTATION,
    QUARANTINE_TAINT,
    SCALE_DOWN_DISABLED_ANNOTATION,
    STARTUP_TAINT,
)
from deploy.components import Component
from deploy.local.scene import wait_for
from tests.rights.conftest import MACHINE, Pair
from tests.rights.speaking import MERGE, Json, Speaker, refusal

POLICY = "nodemend-worker-node"
OTHERS: Json = MACHINE["spec"]["taints"][0]


@pytest.fixture
def worker(as_component: Callable[..., Speaker]) -> Speaker:
    return as_component(Component.WORKER)


def taints(node: str, admin: Any) -> list[Json]:
    found: list[Json] = client.ApiClient().sanitize_for_serialization(admin.read_node(node).spec.taints)
    return found


def test_it_may_close_a_node_and_give_it_back(worker: Speaker, pair: Pair, admin: Any) -> None:
    ours = (QUARANTINE_TAINT, STARTUP_TAINT)
    keys = (OWNER_ANNOTATION, HANDLED_ANNOTATION, SCALE_DOWN_DISABLED_ANNOTATION, DO_NOT_DISRUPT_ANNOTATION)
    labels = (INCIDENT_LABEL, NO_LOAD_BALANCER_LABEL)
    closing = [*taints(pair.there, admin), *({"key": key, "effect": "NoSchedule"} for key in ours)]
    worker.patch(
        pair.there,
        {
            "metadata": {"annotations": dict.fromkeys(keys, "true"), "labels": dict.fromkeys(labels, "true")},
            "spec": {"unschedulable": True, "taints": closing},
        },
    )
    found = admin.read_node(pair.there)
    assert set(keys) <= set(found.metadata.annotations)
    assert set(labels) <= set(found.metadata.labels)
    # The node lifecycle controller adds a taint of its own to what is cordoned: it is not to be lost below.
    wait_for(lambda: any(taint["key"].endswith("/unschedulable") for taint in taints(pair.there, admin)), "its taint")
    opening = [taint for taint in taints(pair.there, admin) if taint["key"] not in ours]
    worker.patch(
        pair.there,
        {
            "metadata": {"annotations": dict.fromkeys(keys), "labels": dict.fromkeys(labels)},
            "spec": {"unschedulable": None, "taints": opening},
        },
    )
    assert not set(keys) & set(admin.read_node(pair.there).metadata.annotations)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("others/note", "changed"),
        ("others/note", None),
        ("cluster-autoscaler.kubernetes.io/other", "true"),
    ],
)
def test_it_may_not_write_annotations_of_others(worker: Speaker, pair: Pair, key: str, value: str | None) -> None:
    said = refusal(POLICY, lambda: worker.patch(pair.here, {"metadata": {"annotations": {key: value}}}))
    assert f"and not {key}." in said
    assert SCALE_DOWN_DISABLED_ANNOTATION in said


@pytest.mark.parametrize("key", [FINDING_DIGESTS_ANNOTATION, CLUSTER_FINDING_DIGESTS_ANNOTATION])
def test_it_may_not_write_the_proofs_that_it_acts_on(worker: Speaker, pair: Pair, key: str) -> None:
    said = refusal("nodemend-proof", lambda: worker.patch(pair.here, {"metadata": {"annotations": {key: "forged"}}}))
    assert f"Only Nodemend's own reporters may write {key}" in said


@pytest.mark.parametrize(
    ("key", "value"),
    [("team", "mine"), ("topology.kubernetes.io/zone", "elsewhere"), ("team", None), ("others/new", "added")],
)
def test_it_may_not_write_labels_of_others(worker: Speaker, pair: Pair, key: str, value: str | None) -> None:
    said = refusal(POLICY, lambda: worker.patch(pair.here, {"metadata": {"labels": {key: value}}}))
    assert f"may write labels of nodemend.io/ and {NO_LOAD_BALANCER_LABEL}, and not {key}." in said


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ([], "others/dedicated"),
        ([{**OTHERS, "effect": "NoExecute"}], "others/dedicated"),
        ([OTHERS, {"key": "others/new", "effect": "NoSchedule"}], "others/new"),
        ([OTHERS, {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}], "out-of-service"),
    ],
    ids=["removed", "changed", "added", "a taint that kills"],
)
def test_it_may_not_write_taints_of_others(worker: Speaker, pair: Pair, wanted: list[Json], named: str) -> None:
    said = refusal(POLICY, lambda: worker.patch(pair.here, {"spec": {"taints": wanted}}))
    assert f"may write its own taints alone ({QUARANTINE_TAINT}, {STARTUP_TAINT}), and not" in said
    assert named in said


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"podCIDR": "10.9.9.0/24", "podCIDRs": ["10.9.9.0/24"]}}, "in the spec of a Node, and not podCIDR"),
        ({"metadata": {"finalizers": None}}, "nothing else of its metadata, and not finalizers"),
    ],
)
def test_it_may_write_nothing_else_of_a_node(worker: Speaker, pair: Pair, patch: Json, words: str) -> None:
    assert words in refusal(POLICY, lambda: worker.patch(pair.here, patch))


@pytest.mark.parametrize(
    "status",
    [
        {"capacity": {"aws.amazon.com/neuron": "0"}},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "Forged"}]},
    ],
    ids=["capacity", "Ready"],
)
def test_it_may_not_write_the_status_of_a_node(worker: Speaker, pair: Pair, status: Json) -> None:
    said = refusal(POLICY, lambda: worker.patch_status(pair.here, {"status": status}))
    assert "may not write the status of a Node" in said


def test_c17_it_may_write_the_lifecycle_conditions_and_no_others_beside_them(worker: Speaker, pair: Pair) -> None:
    told = [{"type": kind, "status": "True", "reason": LIFECYCLE_REASON} for kind in OURS]
    worker.patch_status(pair.here, {"status": {"conditions": told}})
    refusal(POLICY, lambda: worker.patch_status(pair.here, {"status": {"conditions": told[:1]}}, MERGE))
    planned = [*told, {"type": "MaintenancePlanned", "status": "True"}]
    refusal(POLICY, lambda: worker.patch_status(pair.here, {"status": {"conditions": planned}}))
    gone = [{"type": kind, "$patch": "delete"} for kind in OURS]
    refusal(
        POLICY,
        lambda: worker.patch_status(
            pair.here, {"status": {"conditions": [*gone, {"type": "Ready", "$patch": "delete"}]}}
        ),
    )
    worker.patch_status(pair.here, {"status": {"conditions": gone}})


def test_it_may_not_create_a_node(worker: Speaker, pair: Pair) -> None:
    assert "creates no Nodes" in refusal(POLICY, lambda: worker.core.create_node({"metadata": {"name": "forged"}}))


def test_it_may_delete_a_node_only_while_an_incident_claims_it(worker: Speaker, pair: Pair, admin: Any) -> None:
    name = f"lingering-{uuid.uuid4().hex[:8]}"
    admin.create_node({"metadata": {"name": name}})
    said = refusal(POLICY, lambda: worker.core.delete_node(name))
    assert (
        f"only while one of its incidents claims it (annotation {OWNER_ANNOTATION}), and {name} carries no claim"
        in said
    )
    worker.annotate(name, **{OWNER_ANNOTATION: "{}"})
    worker.core.delete_node(name)


@pytest.fixture
def pod(admin: Any, namespace: str) -> Iterator[Any]:
    admin.create_namespaced_pod(
        namespace, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "local/never-pulled:1"}]}}
    )
    return admin.read_namespaced_pod("p", namespace)


def eviction(pod: Any, uid: str | None) -> Json:
    options = {"deleteOptions": {"preconditions": {"uid": uid}}} if uid else {}
    return {"metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace}, **options}


def test_d1_it_may_evict_and_delete_a_pod_by_its_uid_alone(worker: Speaker, pod: Any, admin: Any) -> None:
    name, namespace, policy = pod.metadata.name, pod.metadata.namespace, "nodemend-worker-pod"
    for forbidden in (
        lambda: worker.core.create_namespaced_pod_eviction(name, namespace, eviction(pod, None)),
        lambda: worker.core.delete_namespaced_pod(name, namespace),
    ):
        assert "only by its UID (preconditions.uid): another pod may have its name" in refusal(policy, forbidden)
    body = {"preconditions": {"uid": pod.metadata.uid}, "dryRun": ["All"]}
    worker.core.delete_namespaced_pod(name, namespace, body=body)
    worker.core.create_namespaced_pod_eviction(name, namespace, eviction(pod, pod.metadata.uid))


def test_it_may_not_create_or_change_pods(worker: Speaker, pod: Any) -> None:
    name, namespace, policy = pod.metadata.name, pod.metadata.namespace, "nodemend-worker-pod"
    other = {"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "local/never-pulled:1"}]}}
    for forbidden in (
        lambda: worker.core.create_namespaced_pod(namespace, other),
        lambda: worker.core.patch_namespaced_pod(name, namespace, {"metadata": {"labels": {"a": "b"}}}),
        lambda: worker.core.patch_namespaced_pod_status(
            name, namespace, {"status": {"phase": "Failed"}}, _content_type=MERGE
        ),
    ):
        assert "neither creates nor changes pods. It evicts and deletes them" in refusal(policy, forbidden)
