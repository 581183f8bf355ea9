"""The worker writes its receipt on a job and changes nothing else of it: a job could be made to run anything.

Real tokens; RBAC allows the service accounts everything here (conftest), so what refuses is the policy.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from activities.gangs import KINDS
from contract.names import RECEIPT_ANNOTATION
from deploy.components import Component
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from tests.checkpointing.kinds import BY_KIND, create, kinds_on
from tests.rights.speaking import MERGE, Json, Speaker, refusal
from tests.rights.test_manifests import policies

POLICY = "nodemend-worker-job"
POD: Json = {"containers": [{"name": "c", "image": "local/never-pulled:1"}], "restartPolicy": "Never"}


@pytest.fixture
def worker(as_component: Callable[..., Speaker]) -> Speaker:
    return as_component(Component.WORKER)


@pytest.fixture(scope="module")
def kinds(local_stack: Stack) -> Iterator[Any]:
    with kinds_on(local_stack) as objects:
        yield objects


Patch = Callable[[Json], object]


@pytest.fixture(params=["Job", "JobSet"])
def patch(request: Any, worker: Speaker, kinds: Any, admin: Any, namespace: str) -> Patch:
    """Have the worker patch a job of others, of a kind that is built in, and of one that is not."""
    others = {"metadata": {"name": "train", "annotations": {"team": "research"}, "labels": {"queue": "low"}}}
    if request.param == "Job":
        client.BatchV1Api(admin.api_client).create_namespaced_job(
            namespace, {**others, "spec": {"suspend": True, "template": {"spec": POD}}}
        )
        mine: Any = client.BatchV1Api(worker.core.api_client)
        return lambda body: mine.patch_namespaced_job("train", namespace, body, _content_type=MERGE)
    group, version = BY_KIND["JobSet"].api.split("/")
    create(kinds, "JobSet", namespace, "train", {"suspend": True}, {})
    own: Any = client.CustomObjectsApi(worker.core.api_client)
    theirs: Any = client.CustomObjectsApi(admin.api_client)
    theirs.patch_namespaced_custom_object(group, version, namespace, "jobsets", "train", others)
    wait_for(
        lambda: "research" in str(theirs.get_namespaced_custom_object(group, version, namespace, "jobsets", "train")),
        "it to be there",
    )
    return lambda body: own.patch_namespaced_custom_object(group, version, namespace, "jobsets", "train", body)


def test_it_may_write_its_receipt_and_write_it_again(patch: Patch) -> None:
    for word in ("{}", '{"resumed": true}', None):
        patch({"metadata": {"annotations": {RECEIPT_ANNOTATION: word}}})


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"spec": {"suspend": False}}, "and not spec."),
        ({"metadata": {"labels": {"queue": "high"}}}, "and not labels."),
        ({"metadata": {"finalizers": ["others/finalizer"]}}, "and not finalizers."),
        ({"metadata": {"annotations": {"team": "mine"}}}, "and not team."),
        ({"metadata": {"annotations": {"team": None}}}, "and not team."),
        ({"metadata": {"annotations": {"kueue.x-k8s.io/queue-name": "q"}}}, "and not kueue.x-k8s.io/queue-name."),
        ({"metadata": {"annotations": {RECEIPT_ANNOTATION: "{}"}}, "spec": {"suspend": False}}, "and not spec."),
    ],
    ids=["spec", "labels", "finalizers", "note changed", "note removed", "note added", "under a receipt"],
)
def test_it_may_write_nothing_else_of_a_job(patch: Patch, body: Json, named: str) -> None:
    said = refusal(POLICY, lambda: patch(body))
    assert said.startswith("The worker may write ")
    assert named in said


def test_it_may_not_delete_jobs_nor_create_those_of_others(worker: Speaker, kinds: Any, namespace: str) -> None:
    group, version = BY_KIND["JobSet"].api.split("/")
    create(kinds, "JobSet", namespace, "train", {}, {})
    own: Any = client.CustomObjectsApi(worker.core.api_client)
    other = {"apiVersion": BY_KIND["JobSet"].api, "kind": "JobSet", "metadata": {"name": "forged"}, "spec": {}}
    for forbidden in (
        lambda: own.delete_namespaced_custom_object(group, version, namespace, "jobsets", "train"),
        lambda: own.create_namespaced_custom_object(group, version, namespace, "jobsets", other),
    ):
        assert "neither creates nor deletes jobs of others" in refusal(POLICY, forbidden)


def test_every_kind_that_has_receipts_is_held() -> None:
    rules = policies()[POLICY]["spec"]["matchConstraints"]["resourceRules"]
    held = {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}
    wanted = {(kind.api.rpartition("/")[0], kind.plural) for kind in KINDS}
    assert held == wanted | {(group, f"{plural}/*") for group, plural in wanted}
