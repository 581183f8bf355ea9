"""Every kind of job carries, itself, the answer to "why did I restart?"; nothing else of it is changed."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from activities.gangs import KINDS
from activities.receipt import ReceiptActivity
from contract.acts import CheckpointStatus, JobCheckpoint
from contract.gang import JobOnNode, Receipts, WriteReceipts
from contract.names import RECEIPT_ANNOTATION
from deploy.local.stack import Stack
from tests.acting import Acting
from tests.checkpointing.kinds import BY_KIND, SHAPES, create, kinds_on
from tests.conftest import MakeNodeGroup

POD: dict[str, Any] = {"containers": [{"name": "c", "image": "local/never-pulled:1"}]}
BUILT_IN: dict[str, Callable[[Any], Any]] = {
    "Job": lambda api: client.BatchV1Api(api).create_namespaced_job,
    "StatefulSet": lambda api: client.AppsV1Api(api).create_namespaced_stateful_set,
}
SPECS: dict[str, dict[str, Any]] = {
    "Job": {"suspend": True, "template": {"spec": {**POD, "restartPolicy": "Never"}}},
    "StatefulSet": {
        "replicas": 0,
        "serviceName": "s",
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD},
    },
}


@pytest.fixture(scope="module")
def kinds(local_stack: Stack) -> Iterator[Any]:
    with kinds_on(local_stack) as objects:
        yield objects


def make(acting: Acting, kinds: Any, kind: str, namespace: str) -> str:
    """An object of a kind. Returns its uid."""
    if kind in SPECS:
        body = {"metadata": {"name": "train", "annotations": {"team": "research"}}, "spec": SPECS[kind]}
        return str(BUILT_IN[kind](acting.core.api_client)(namespace, body).metadata.uid)
    return create(kinds, kind, namespace, "train", SHAPES[kind][1] if kind in SHAPES else {}, {})


def written(acting: Acting, node: str, job: str, uid: str) -> Receipts:
    argument = WriteReceipts(
        target=acting.target(node),
        reason="NeuronHasError",
        device="3",
        line="NEURON_HW_ERR nd-id=3",
        jobs=(JobOnNode(job=job, uid=uid, pods=2, attempts_left=3, why="maxRestarts 3, 0 used"),),
        checkpoints=(JobCheckpoint(job=job, status=CheckpointStatus.SAVED, step=1000, uri="s3://b/1000"),),
    )
    found: Receipts = acting.do(ReceiptActivity(acting.cluster).write_receipts, argument)
    return found


@pytest.mark.parametrize("kind", [kind.kind for kind in KINDS])
def test_job_of_each_kind_has_its_receipt_and_an_event_and_is_else_as_it_was(
    acting: Acting, kinds: Any, node_group: MakeNodeGroup, namespace: str, kind: str
) -> None:
    (node,) = node_group(1).nodes
    uid = make(acting, kinds, kind, namespace)
    path = BY_KIND[kind].path(namespace, "train")
    before = acting.admin.read(path, "get")
    # A LeaderWorkerSet's groups are each a job; the receipt is on the set.
    job = f"{namespace}/{kind}/train" + ("#0" if kind == "LeaderWorkerSet" else "")
    for _ in range(2):
        receipts = written(acting, node, job, uid)
        assert (receipts.written, receipts.missed) == ((job,), ())
    after = acting.admin.read(path, "get")
    assert before is not None
    assert after is not None
    receipt = json.loads(after["metadata"]["annotations"].pop(RECEIPT_ANNOTATION))
    assert (receipt["node"], receipt["device"], receipt["line"]) == (node, "3", "NEURON_HW_ERR nd-id=3")
    assert (receipt["checkpoint"], receipt["step"], receipt["attempts_left"]) == ("saved", 1000, 3)
    assert after["metadata"]["annotations"] == before["metadata"].get("annotations", {})
    assert after["spec"] == before["spec"]
    events = [e for e in acting.core.list_namespaced_event(namespace).items if e.involved_object.uid == uid]
    (event,) = [event for event in events if event.reason == "NodeFailed"]
    assert (event.involved_object.kind, event.involved_object.api_version) == (kind, BY_KIND[kind].api)
    assert "It resumes from step 1000" in event.message
    assert "Attempts left before this: 3" in event.message


def test_job_of_the_same_name_that_was_made_anew_has_no_receipt_of_the_old_one_s(
    acting: Acting, kinds: Any, node_group: MakeNodeGroup, namespace: str
) -> None:
    (node,) = node_group(1).nodes
    make(acting, kinds, "Job", namespace)
    receipts = written(acting, node, f"{namespace}/Job/train", "uid-of-another")
    assert (receipts.written, receipts.missed) == ((), ())
