"""Objects of each kind of job, whose real definitions are installed, and ranks as their controllers label them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client import ApiException

from activities.gangs import KINDS
from deploy.local.scene import add_pod, running_pods, wait_for
from deploy.local.stack import Stack
from tests.acting import Acting

CRDS = Path(__file__).with_name("crds")
BY_KIND = {kind.kind: kind for kind in KINDS}

# Kind; spec and status of its object; labels of its pods; attempts that are left.
SHAPES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, str], int | None]] = {
    "JobSet": (
        "JobSet",
        {"failurePolicy": {"maxRestarts": 3}, "replicatedJobs": [{"name": "w", "template": {"spec": {}}}]},
        {"restarts": 1},
        {"jobset.sigs.k8s.io/jobset-name": "NAME", "batch.kubernetes.io/job-name": "NAME-w-0"},
        2,
    ),
    "PyTorchJob": (
        "PyTorchJob",
        {"runPolicy": {"backoffLimit": 3}, "pytorchReplicaSpecs": {"Worker": {"restartPolicy": "OnFailure"}}},
        {},
        {"training.kubeflow.org/job-name": "NAME", "training.kubeflow.org/operator-name": "pytorchjob-controller"},
        3,
    ),
    "MPIJob": (
        "MPIJob",
        {"runPolicy": {"backoffLimit": 4}},
        {"replicaStatuses": {"Launcher": {"failed": 1}}},
        {"training.kubeflow.org/job-name": "NAME", "training.kubeflow.org/operator-name": "mpi-operator"},
        3,
    ),
    "RayCluster": ("RayCluster", {}, {}, {"ray.io/cluster": "NAME", "ray.io/node-type": "worker"}, None),
    "RayJob": (
        "RayJob",
        {"backoffLimit": 2},
        {"failed": 1},
        {
            "ray.io/cluster": "NAME-x7k2p",
            "ray.io/originated-from-cr-name": "NAME",
            "ray.io/originated-from-crd": "RayJob",
        },
        1,
    ),
    "LeaderWorkerSet": (
        "LeaderWorkerSet",
        {"replicas": 1},
        {},
        {"leaderworkerset.sigs.k8s.io/name": "NAME", "leaderworkerset.sigs.k8s.io/group-index": "0"},
        None,
    ),
}


@contextmanager
def kinds_on(stack: Stack) -> Iterator[Any]:
    """A client for objects of the kinds, whose definitions are served."""
    with stack.kubernetes.connected() as api:
        extensions: Any = client.ApiextensionsV1Api(api)
        for path in sorted(CRDS.glob("*.yaml")):
            try:
                extensions.create_custom_resource_definition(yaml.safe_load(path.read_text()))
            except ApiException as error:
                # Another file of tests was here before.
                if error.status != 409:
                    raise
        objects: Any = client.CustomObjectsApi(api)

        def served() -> bool:
            try:
                for shape in SHAPES.values():
                    group, version = BY_KIND[shape[0]].api.split("/")
                    objects.list_cluster_custom_object(group, version, BY_KIND[shape[0]].plural)
            except ApiException:
                return False
            return True

        wait_for(served, "the kinds to be served")
        yield objects


def create(objects: Any, kind: str, namespace: str, name: str, spec: Any, status: Any) -> str:
    """An object with its status. Returns its uid."""
    group, version = BY_KIND[kind].api.split("/")
    body = {"apiVersion": BY_KIND[kind].api, "kind": kind, "metadata": {"name": name}, "spec": spec}
    made = objects.create_namespaced_custom_object(group, version, namespace, BY_KIND[kind].plural, body)
    if status:
        objects.patch_namespaced_custom_object_status(
            group, version, namespace, BY_KIND[kind].plural, name, {"status": status}
        )
    return str(made["metadata"]["uid"])


def add_rank(acting: Acting, name: str, node: str, namespace: str, labels: dict[str, str]) -> None:
    """A pod as the kind's controller labels it: an owner that is not there would have it collected."""
    add_pod(acting.stack, name, node=node, namespace=namespace, labels=labels, limits={"aws.amazon.com/neuron": "1"})
    wait_for(lambda: len(running_pods(acting.stack, name, namespace)) == 1, name)
