"""Two nodes with much of others' on them, and components that RBAC holds back from nothing.

So what refuses a write here is the admission policy alone. RBAC is as in earnest again when these tests are over.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiException

from deploy.components import NAMESPACE, Component
from deploy.local.scene import is_ready, wait_for
from deploy.local.stack import Stack
from tests.rights.speaking import MERGE, Json, Speaker, speaking

ALL_GRANTED = "test-everything-granted"
MACHINE: Json = {
    "metadata": {
        "labels": {"topology.kubernetes.io/zone": "us-east-1a", "team": "research"},
        "annotations": {"csi.volume.kubernetes.io/nodeid": "{}", "others/note": "keep", "nodemend.io/owner": "{}"},
        "finalizers": ["others/finalizer"],
    },
    "spec": {"taints": [{"key": "others/dedicated", "value": "a", "effect": "NoSchedule"}]},
}
STATUS: Json = {
    "capacity": {"cpu": "8", "aws.amazon.com/neuron": "16"},
    "allocatable": {"cpu": "8", "aws.amazon.com/neuron": "16"},
    "conditions": [
        {"type": "KernelDeadlock", "status": "False", "reason": "KernelHasNoDeadlock", "message": "no deadlock"}
    ],
}


@dataclass(frozen=True)
class Pair:
    """Two nodes."""

    here: str
    there: str


@pytest.fixture(scope="module")
def admin(local_stack: Stack) -> Iterator[Any]:
    """An administrator's client."""
    with local_stack.kubernetes.connected() as api:
        yield client.CoreV1Api(api)


@pytest.fixture(scope="module")
def everything_granted(local_stack: Stack) -> Iterator[None]:
    """RBAC allows all to Nodemend's service accounts, meanwhile."""
    with local_stack.kubernetes.connected() as api:
        rbac: Any = client.RbacAuthorizationV1Api(api)
        rbac.create_cluster_role_binding(
            {
                "metadata": {"name": ALL_GRANTED},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "Group", "name": f"system:serviceaccounts:{NAMESPACE}"}],
            }
        )
        wait_for(lambda: _may_do_anything(api), "everything to be granted")
        yield
        rbac.delete_cluster_role_binding(ALL_GRANTED)
        wait_for(lambda: not _may_do_anything(api), "rights to be as in earnest again")


def _may_do_anything(api: Any) -> bool:
    reviews: Any = client.AuthorizationV1Api(api)
    attributes = {"verb": "delete", "resource": "namespaces", "name": "x"}
    spec = {
        "user": Component.DETECTOR.user,
        "groups": [f"system:serviceaccounts:{NAMESPACE}"],
        "resourceAttributes": attributes,
    }
    return bool(reviews.create_subject_access_review({"spec": spec}).status.allowed)


@pytest.fixture(scope="module")
def pair(admin: Any) -> Iterator[Pair]:
    """Two nodes that carry labels, annotations, taints and conditions of others."""
    names = [f"machine-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    for name in names:
        admin.create_node({**MACHINE, "metadata": {**MACHINE["metadata"], "name": name}})
        wait_for(lambda name=name: is_ready(admin.read_node(name)), f"{name} to be Ready")
        admin.patch_node_status(name, {"status": STATUS})
    yield Pair(*names)
    for name in names:
        admin.patch_node(name, {"metadata": {"finalizers": None}}, _content_type=MERGE)
        admin.delete_node(name)


@pytest.fixture(scope="module")
def as_component(
    local_stack: Stack, admin: Any, pair: Pair, everything_granted: None
) -> Iterator[Callable[..., Speaker]]:
    """Speak as a component, once the policies are in force: the API server takes a second to load new ones."""
    with ExitStack() as stack:
        known: dict[tuple[Component, str | None], Speaker] = {}

        def speaker(component: Component, node: str | None = None) -> Speaker:
            if (component, node) not in known:
                known[component, node] = stack.enter_context(speaking(local_stack, component, node))
            return known[component, node]

        def refused(component: Component, node: str | None) -> bool:
            try:
                speaker(component, node).core.patch_node(
                    pair.there, {"spec": {"podCIDR": "10.9.9.0/24"}}, dry_run="All", _content_type=MERGE
                )
            except ApiException as error:
                return error.status == 403
            return False

        for component, node in ((Component.DETECTOR, pair.here), (Component.WORKER, None)):
            wait_for(lambda c=component, n=node: refused(c, n), "the admission policies to be in force")
        wait_for(lambda: refused(Component.WATCH_CLUSTER, None), "the admission policies to be in force")
        yield speaker
