"""watch-cluster writes one annotation; nobody but the reporters writes proofs; the policies themselves are sound."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client, config

from contract.names import CLUSTER_FINDING_DIGESTS_ANNOTATION, FINDING_DIGESTS_ANNOTATION, OWNER_ANNOTATION
from deploy.components import Component
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from tests.rights.conftest import Pair
from tests.rights.speaking import Json, Speaker, refusal
from tests.rights.test_manifests import policies


@pytest.fixture
def watcher(as_component: Callable[..., Speaker]) -> Speaker:
    return as_component(Component.WATCH_CLUSTER)


def test_watch_cluster_may_write_its_digests_on_every_node(watcher: Speaker, pair: Pair, admin: Any) -> None:
    for node in (pair.here, pair.there):
        watcher.annotate(node, **{CLUSTER_FINDING_DIGESTS_ANNOTATION: "one"})
        assert admin.read_node(node).metadata.annotations[CLUSTER_FINDING_DIGESTS_ANNOTATION] == "one"
        watcher.annotate(node, **{CLUSTER_FINDING_DIGESTS_ANNOTATION: None})


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (
            {"metadata": {"annotations": {FINDING_DIGESTS_ANNOTATION: "forged"}}},
            f"and not {FINDING_DIGESTS_ANNOTATION}.",
        ),
        ({"metadata": {"annotations": {OWNER_ANNOTATION: None}}}, f"and not {OWNER_ANNOTATION}."),
        ({"metadata": {"annotations": {"others/note": "changed"}}}, "and not others/note."),
        ({"metadata": {"labels": {"team": "mine"}}}, "nothing else of its metadata, and not labels"),
        ({"spec": {"taints": None}}, "neither spec nor status"),
        ({"spec": {"unschedulable": True}}, "neither spec nor status"),
    ],
)
def test_watch_cluster_may_write_nothing_else_of_a_node(watcher: Speaker, pair: Pair, patch: Json, words: str) -> None:
    assert words in refusal("nodemend-watch-cluster-node", lambda: watcher.patch(pair.here, patch))


def test_watch_cluster_may_write_no_status_and_no_nodes(watcher: Speaker, pair: Pair) -> None:
    faulty = {"status": {"conditions": [{"type": "NeuronHealth", "status": "True"}]}}
    for forbidden, words in (
        (lambda: watcher.patch_status(pair.here, faulty), "It reports what others wrote there"),
        (lambda: watcher.core.delete_node(pair.here), "neither creates nor deletes Nodes"),
        (lambda: watcher.core.create_node({"metadata": {"name": "forged"}}), "neither creates nor deletes Nodes"),
    ):
        assert words in refusal("nodemend-watch-cluster-node", forbidden)


@pytest.fixture
def operator(local_stack: Stack, everything_granted: None, as_component: Callable[..., Speaker]) -> Iterator[Speaker]:
    """Another service account that may do everything with Nodes, as a cluster's other controllers may."""
    configuration = config.new_client_from_config(config_file=str(local_stack.kubernetes.kubeconfig)).configuration
    api: Any = client.ApiClient(configuration, "Impersonate-User", "system:serviceaccount:others:operator")
    api.set_default_header("Impersonate-Group", "system:serviceaccounts:nodemend")
    yield Speaker(api, "operator")
    api.close()


@pytest.mark.parametrize("key", [FINDING_DIGESTS_ANNOTATION, CLUSTER_FINDING_DIGESTS_ANNOTATION])
def test_nobody_else_may_write_a_proof(operator: Speaker, pair: Pair, key: str) -> None:
    proof = {"metadata": {"annotations": {key: "forged"}}}
    for forbidden in (
        lambda: operator.patch(pair.here, proof),
        lambda: operator.patch_status(pair.here, proof),
        lambda: operator.core.create_node({"metadata": {"name": "forged", **proof["metadata"]}}),
    ):
        said = refusal("nodemend-proof", forbidden)
        assert f"Only Nodemend's own reporters may write {key}: a digest there has the worker believe" in said


def test_a_proof_hinders_nobody_who_leaves_it_alone(operator: Speaker, pair: Pair, admin: Any) -> None:
    key = FINDING_DIGESTS_ANNOTATION
    admin.patch_node(pair.here, {"metadata": {"annotations": {key: "one"}}})
    operator.annotate(pair.here, **{"others/note": "changed"})
    operator.patch_status(pair.here, {"status": {"conditions": [{"type": "KernelDeadlock", "status": "True"}]}})
    found = admin.read_node(pair.here).metadata.annotations
    assert (found[key], found["others/note"]) == ("one", "changed")
    assert "reporters" in refusal("nodemend-proof", lambda: operator.annotate(pair.here, **{key: None}))


def test_the_api_server_finds_no_fault_in_the_policies(local_stack: Stack) -> None:
    """The controller manager checks each expression against the types of what it is matched with."""
    ours = set(policies())
    with local_stack.kubernetes.connected() as api:
        admission: Any = client.AdmissionregistrationV1Api(api)

        def checked() -> list[Any]:
            items = [i for i in admission.list_validating_admission_policy().items if i.metadata.name in ours]
            return [i for i in items if i.status and i.status.observed_generation == i.metadata.generation]

        wait_for(lambda: len(checked()) == len(ours), "the type check")
        found = checked()
    for policy in found:
        checking = policy.status.type_checking
        assert not (checking and checking.expression_warnings), (policy.metadata.name, checking)
