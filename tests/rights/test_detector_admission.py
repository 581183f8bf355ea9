"""A detector speaks about its own node alone, in its own words alone (DESIGN §2, C15). Real bound tokens.

RBAC allows the service accounts everything here (conftest): what refuses is the policy of ``deploy/admission``.
"""

from collections.abc import Callable
from typing import Any

import pytest

from contract.names import (
    CLUSTER_FINDING_DIGESTS_ANNOTATION,
    FINDING_DIGESTS_ANNOTATION,
    FINDINGS_ANNOTATION,
    OWNER_ANNOTATION,
    SKIP_ANNOTATION,
)
from deploy.components import NAMESPACE, Component
from tests.rights.conftest import Pair
from tests.rights.speaking import MERGE, Json, Speaker, refusal

POLICY = "nodemend-detector-node"
FAULTY: Json = {"type": "NeuronHealth", "status": "True", "reason": "NeuronHasError_X", "message": "m"}


@pytest.fixture
def detector(as_component: Callable[..., Speaker], pair: Pair) -> Speaker:
    return as_component(Component.DETECTOR, pair.here)


def conditions(*changed: Json) -> Json:
    return {"status": {"conditions": list(changed)}}


def test_it_may_write_its_own_conditions_and_others_stay(detector: Speaker, pair: Pair, admin: Any) -> None:
    before = {c.type: c for c in admin.read_node(pair.here).status.conditions}
    detector.patch_status(pair.here, conditions(FAULTY, {**FAULTY, "type": "KernelLogHealth", "status": "False"}))
    detector.patch_status(pair.here, conditions({**FAULTY, "status": "False"}))
    after = {c.type: c for c in admin.read_node(pair.here).status.conditions}
    assert after["NeuronHealth"].status == "False"
    assert set(before) <= set(after)


@pytest.mark.parametrize("key", [FINDING_DIGESTS_ANNOTATION, FINDINGS_ANNOTATION])
def test_it_may_write_its_proof_by_node_and_by_status(detector: Speaker, pair: Pair, admin: Any, key: str) -> None:
    detector.patch(pair.here, {"metadata": {"annotations": {key: "one"}}})
    assert admin.read_node(pair.here).metadata.annotations[key] == "one"
    detector.patch_status(pair.here, {"metadata": {"annotations": {key: "two"}}, **conditions(FAULTY)})
    assert admin.read_node(pair.here).metadata.annotations[key] == "two"
    detector.patch(pair.here, {"metadata": {"annotations": {key: None}}})


def test_it_may_not_write_another_node(detector: Speaker, pair: Pair) -> None:
    for forbidden in (
        lambda: detector.patch_status(pair.there, conditions(FAULTY)),
        lambda: detector.patch(pair.there, {"metadata": {"annotations": {FINDING_DIGESTS_ANNOTATION: "forged"}}}),
    ):
        said = refusal(POLICY, forbidden)
        assert f"detector on node {pair.here} may write its own Node alone, and not {pair.there}" in said


def test_it_may_write_nothing_with_a_token_that_names_no_node(as_component: Callable[..., Speaker], pair: Pair) -> None:
    unbound = as_component(Component.DETECTOR)
    said = refusal(POLICY, lambda: unbound.patch_status(pair.here, conditions(FAULTY)))
    assert "token of the detector names no node" in said


@pytest.mark.parametrize(
    ("forbidden", "named"),
    [
        (conditions({"type": "Ready", "status": "False", "reason": "Forged"}), "Ready"),
        (conditions({"type": "KernelDeadlock", "status": "True", "reason": "Forged"}), "KernelDeadlock"),
        (conditions({"type": "MadeUp", "status": "True", "reason": "Forged"}), "MadeUp"),
        (conditions({"$patch": "delete", "type": "KernelDeadlock"}), "KernelDeadlock"),
    ],
    ids=["the kubelet's", "another agent's", "a new one", "another agent's, removed"],
)
def test_it_may_not_write_conditions_of_others(detector: Speaker, pair: Pair, forbidden: Json, named: str) -> None:
    said = refusal(POLICY, lambda: detector.patch_status(pair.here, forbidden))
    assert "may write its own condition types alone (AmdGpuHealth, DiskHealth" in said
    assert f"and not {named}." in said


def test_it_may_not_replace_the_list_of_conditions(detector: Speaker, pair: Pair) -> None:
    """C1: a JSON merge of the whole list would drop those of the kubelet."""
    said = refusal(POLICY, lambda: detector.patch_status(pair.here, conditions(FAULTY), MERGE))
    assert "Ready" in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("others/note", "changed"),
        ("others/note", None),
        ("others/new", "added"),
        (OWNER_ANNOTATION, None),
        (SKIP_ANNOTATION, "true"),
        (CLUSTER_FINDING_DIGESTS_ANNOTATION, "forged"),
    ],
)
@pytest.mark.parametrize("through", ["node", "status"])
def test_it_may_not_write_annotations_of_others(
    detector: Speaker, pair: Pair, through: str, key: str, value: str | None
) -> None:
    patch = {"metadata": {"annotations": {key: value}}}
    write = detector.patch if through == "node" else detector.patch_status
    said = refusal(POLICY, lambda: write(pair.here, patch))
    assert f"may write its own annotations alone ({FINDING_DIGESTS_ANNOTATION}, {FINDINGS_ANNOTATION})" in said
    assert f"and not {key}." in said


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"metadata": {"labels": {"team": "mine"}}}, "nothing else of its metadata, and not labels"),
        ({"metadata": {"finalizers": None}}, "nothing else of its metadata, and not finalizers"),
        ({"spec": {"taints": None}}, "may not write a Node's spec"),
        ({"spec": {"unschedulable": True}}, "it reports, and the worker decides by policy"),
    ],
    ids=["labels", "finalizers", "taints", "unschedulable"],
)
def test_it_may_write_nothing_else_of_its_node(detector: Speaker, pair: Pair, patch: Json, words: str) -> None:
    assert words in refusal(POLICY, lambda: detector.patch(pair.here, patch))


@pytest.mark.parametrize(
    ("status", "named"),
    [
        ({"capacity": {"aws.amazon.com/neuron": "0"}}, "capacity"),
        ({"nodeInfo": {"bootID": "forged"}}, "nodeInfo"),
        ({"addresses": [{"type": "Hostname", "address": "forged"}]}, "addresses"),
    ],
)
def test_it_may_write_nothing_else_of_the_status(detector: Speaker, pair: Pair, status: Json, named: str) -> None:
    said = refusal(POLICY, lambda: detector.patch_status(pair.here, {"status": status}))
    assert "nothing else of its status" in said
    assert named in said


def test_it_neither_creates_nor_deletes_nodes(detector: Speaker, pair: Pair) -> None:
    for forbidden in (
        lambda: detector.core.create_node({"metadata": {"name": "forged"}}),
        lambda: detector.core.delete_node(pair.here),
    ):
        assert "neither creates nor deletes Nodes" in refusal(POLICY, forbidden)


def event(node: str, name: str, **changes: Any) -> Json:
    usual: Json = {
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node},
        "reason": "Test",
        "message": "m",
        "type": "Warning",
        "source": {"component": "nodemend-detector", "host": node},
    }
    return {**usual, **changes}


def test_it_may_write_events_about_its_own_node(detector: Speaker, pair: Pair) -> None:
    detector.core.create_namespaced_event("default", event(pair.here, f"{pair.here}.own"))
    detector.core.patch_namespaced_event(f"{pair.here}.own", "default", {"count": 2})


def test_it_may_not_write_events_about_others_or_in_the_name_of_others(
    detector: Speaker, pair: Pair, admin: Any
) -> None:
    def create(**changes: Any) -> Callable[[], object]:
        body = {**event(pair.here, f"{pair.here}.forged"), **changes}
        return lambda: detector.core.create_namespaced_event("default", body)

    policy = "nodemend-detector-event"
    about_there = create(involvedObject={"apiVersion": "v1", "kind": "Node", "name": pair.there})
    assert f"on node {pair.here} may write Events about its own Node alone" in refusal(policy, about_there)
    about_pod = create(involvedObject={"apiVersion": "v1", "kind": "Pod", "name": pair.here, "namespace": "default"})
    assert "about its own Node alone" in refusal(policy, about_pod)
    assert "in its own name alone" in refusal(policy, create(source={"component": "kubelet"}))
    # Nor may it turn an Event of others into one of its own.
    admin.create_namespaced_event("default", event(pair.there, f"{pair.there}.others"))
    own = {"involvedObject": {"name": pair.here}, "message": "forged"}
    taken = lambda: detector.core.patch_namespaced_event(f"{pair.there}.others", "default", own)  # noqa: E731
    assert "about its own Node alone" in refusal(policy, taken)


def test_it_may_renew_its_own_lease_alone(detector: Speaker, pair: Pair) -> None:
    own, others = (f"nodemend-detector-{node}" for node in (pair.here, pair.there))
    spec = {"holderIdentity": pair.here, "leaseDurationSeconds": 600}
    detector.leases.create_namespaced_lease(NAMESPACE, {"metadata": {"name": own}, "spec": spec})
    detector.leases.patch_namespaced_lease(own, NAMESPACE, {"spec": spec})
    for forbidden in (
        lambda: detector.leases.create_namespaced_lease(NAMESPACE, {"metadata": {"name": others}, "spec": spec}),
        lambda: detector.leases.create_namespaced_lease(NAMESPACE, {"metadata": {"name": f"{own}0"}, "spec": spec}),
        lambda: detector.leases.delete_namespaced_lease(own, NAMESPACE),
    ):
        said = refusal("nodemend-detector-lease", forbidden)
        assert f"on node {pair.here} may renew its own Lease alone ({own})" in said


def test_a_node_as_full_as_nodes_get_is_within_the_cost_that_a_policy_may_have(
    detector: Speaker, pair: Pair, admin: Any
) -> None:
    """CEL has a budget; past it every heartbeat would be refused."""
    full = {f"others/note-{number}": "x" * 500 for number in range(200)}
    admin.patch_node(pair.here, {"metadata": {"annotations": full}}, _content_type=MERGE)
    images = [{"names": [f"training/{'x' * 80}-{n}:{tag}" for tag in range(4)], "sizeBytes": n} for n in range(100)]
    many = [{**FAULTY, "type": f"Others{number}"} for number in range(60)]
    admin.patch_node_status(pair.here, {"status": {"images": images, "conditions": many}})
    try:
        detector.patch_status(pair.here, conditions(FAULTY))
        assert "Others7" in refusal(
            POLICY, lambda: detector.patch_status(pair.here, conditions({**FAULTY, "type": "Others7", "reason": "x"}))
        )
    finally:
        admin.patch_node(pair.here, {"metadata": {"annotations": dict.fromkeys(full)}}, _content_type=MERGE)
        gone = [{"$patch": "delete", "type": condition["type"]} for condition in many]
        admin.patch_node_status(
            pair.here,
            {"status": {"conditions": gone, "images": None}},
            _content_type="application/strategic-merge-patch+json",
        )
