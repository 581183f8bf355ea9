"""Machines of Karpenter and Cluster API on the real API server: their CRDs, their objects, and their Nodes.

Their controllers are not there; a test does by hand what they would do next.
"""

import uuid
from pathlib import Path
from typing import Any

import yaml

from activities.objects import Objects
from contract.names import INSTANCE_TYPE_LABEL, STARTUP_TAINT, ZONE_LABEL
from deploy.local.scene import wait_for
from tests.acting import Acting

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
POOLS = "/apis/karpenter.sh/v1/nodepools"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ZONE = "us-west-2a"


def install(acting: Acting, name: str) -> Objects:
    """Have the API server serve the kinds of a file in ``crds``."""
    objects = Objects(acting.admin)
    for crd in yaml.safe_load_all((Path(__file__).parent / "crds" / f"{name}.yaml").read_text()):
        objects.create(_CRDS, crd)
        spec = crd["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"

        def served(path: str = path, plural: str = spec["names"]["plural"]) -> bool:
            found = objects.get(path) or {"resources": []}
            return plural in {resource["name"] for resource in found["resources"]}

        wait_for(served, f"{spec['names']['plural']} to be served")
    return objects


def provider_id() -> str:
    """Of a machine of its own."""
    return f"aws:///{ZONE}/i-{uuid.uuid4().hex[:17]}"


def join(acting: Acting, machine: str, **metadata: Any) -> str:
    """The Node of a machine, Ready, as its kubelet registers it. Returns its name."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    labels = {ZONE_LABEL: ZONE, INSTANCE_TYPE_LABEL: "trn1.32xlarge", **metadata.pop("labels", {})}
    capacity = {"cpu": "128", "memory": "512Gi", "pods": "250", "aws.amazon.com/neuron": "16"}
    acting.core.create_node(
        {
            "metadata": {"name": name, "labels": labels, **metadata},
            "spec": {
                "providerID": machine,
                "taints": [{"key": STARTUP_TAINT, "value": "unverified", "effect": "NoSchedule"}],
            },
            "status": {"capacity": capacity, "allocatable": capacity, "nodeInfo": _info()},
        }
    )
    return name


def _info() -> dict[str, str]:
    names = ("architecture", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion")
    more = ("machineID", "operatingSystem", "osImage", "systemUUID")
    return {**dict.fromkeys((*names, *more), "x"), "bootID": str(uuid.uuid4())}


def node_claim(objects: Objects, pool: str, machine: str, name: str | None = None) -> dict[str, Any]:
    """A NodeClaim that Karpenter has launched, with Karpenter's finalizer."""
    name = name or f"{pool}-{uuid.uuid4().hex[:5]}"
    created = objects.create(
        CLAIMS,
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {
                "name": name,
                "labels": {"karpenter.sh/nodepool": pool},
                "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": ZONE_LABEL, "operator": "In", "values": [ZONE]}],
            },
        },
    )
    assert created
    objects.patch(f"{CLAIMS}/{name}/status", {"status": {"providerID": machine}})
    return created


def node_pool(objects: Objects) -> str:
    """A NodePool. Returns its name."""
    name = f"pool-{uuid.uuid4().hex[:6]}"
    objects.create(
        POOLS,
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": {"spec": {}}},
        },
    )
    return name


def machine_of(
    objects: Objects, namespace: str, owner: str, provider: str, cluster: str = "train", **metadata: Any
) -> dict[str, Any]:
    """A Machine of a MachineSet, with its infrastructure."""
    name = f"{owner}-{uuid.uuid4().hex[:5]}"
    reference = {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "MachineSet",
        "name": owner,
        "uid": str(uuid.uuid4()),
        "controller": True,
    }
    created = objects.create(
        f"{capi(namespace)}/machines",
        {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": {"name": name, "labels": {"set": owner}, "ownerReferences": [reference], **metadata},
            "spec": {
                "clusterName": cluster,
                "providerID": provider,
                "bootstrap": {"dataSecretName": "x"},
                "infrastructureRef": {"kind": "AWSMachine", "name": name},
            },
        },
    )
    assert created
    return created


def join_machine(acting: Acting, machine: dict[str, Any]) -> str:
    """The Node of a Machine, annotated as Cluster API does it. Returns its name."""
    metadata = machine["metadata"]
    told = {
        "machine": metadata["name"],
        "cluster-namespace": metadata["namespace"],
        "owner-kind": "MachineSet",
        "owner-name": metadata["ownerReferences"][0]["name"],
    }
    annotations = {f"cluster.x-k8s.io/{key}": value for key, value in told.items()}
    return join(acting, machine["spec"]["providerID"], annotations=annotations)


def health_check(objects: Objects, namespace: str, owner: str, cluster: str = "train") -> str:
    """A MachineHealthCheck that selects the Machines of a set. Returns its path."""
    path = f"{capi(namespace)}/machinehealthchecks"
    objects.create(
        path,
        {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "MachineHealthCheck",
            "metadata": {"name": owner},
            "spec": {"clusterName": cluster, "selector": {"matchLabels": {"set": owner}}},
        },
    )
    return f"{path}/{owner}"


def cluster_of_machines(objects: Objects, namespace: str, name: str = "train") -> str:
    """A Cluster. Returns its path."""
    path = f"{capi(namespace)}/clusters"
    body = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": name}, "spec": {}}
    objects.create(path, body)
    return f"{path}/{name}"


def capi(namespace: str) -> str:
    """Where Cluster API's objects of a namespace are."""
    return f"/apis/cluster.x-k8s.io/v1beta1/namespaces/{namespace}"


def karpenter_node(acting: Acting, objects: Objects, pool: str) -> tuple[str, dict[str, Any]]:
    """A Node of a pool, and the NodeClaim that owns it."""
    machine = provider_id()
    claim = node_claim(objects, pool, machine)
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim["metadata"]["name"]}
    owner |= {"uid": claim["metadata"]["uid"], "blockOwnerDeletion": True}
    node = join(acting, machine, labels={"karpenter.sh/nodepool": pool}, ownerReferences=[owner])
    return node, claim
