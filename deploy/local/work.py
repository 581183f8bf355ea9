"""Work for the nodes of the embedded stack: jobs that declare checkpoints, a web service, a DaemonSet, single pods.

Each function makes one thing and returns at once. KWOK runs no containers: images are never pulled, and what a pod
"contains" is the program that its checkpoint annotation names, run through ``exec``.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kubernetes import client

from contract.names import (
    CHECKPOINT_ANNOTATION,
    CHECKPOINT_COMMAND_ANNOTATION,
    CHECKPOINT_MANIFESTS_ANNOTATION,
    NODEGROUP_LABEL,
)
from deploy.jobs import nodemend_checkpoint
from deploy.local import demo_job
from deploy.local.machine import TRN1, MachineShape
from deploy.local.stack import Stack

NAMESPACE: Final = "default"
STUCK_ANNOTATION: Final = "nodemend.local/stuck"
"""On a pod: it never ends by itself once it is deleted (``kwok.yaml``)."""
SLOW_ANNOTATION: Final = "nodemend.local/end-after"
"""On a pod: how long it takes to end once it is deleted, such as ``5s`` (``kwok.yaml``)."""
COMPLETE_ANNOTATION: Final = "nodemend.local/complete"
"""On a pod: it succeeds as soon as it has run (``kwok.yaml``); others run for ever."""
_IMAGE: Final = "local/never-pulled:1"


def create_training_job(
    stack: Stack,
    name: str = "train-llm",
    *,
    ranks: int = 4,
    namespace: str = NAMESPACE,
    group: str | None = None,
    shape: MachineShape = TRN1,
    checkpoints: int = 3,
    trains: bool = False,
) -> None:
    """A Job whose every rank takes all devices of one node, and which declares a checkpoint.

    Args:
        stack: where.
        name: of the Job, and the value of its pods' label ``app``.
        ranks: how many pods it has at once.
        namespace: must exist.
        group: node group that it is confined to.
        shape: whose devices it takes.
        checkpoints: how many it has saved already, a minute apart.
        trains: whether a process of ``trainers`` does its work, which then has its checkpoints.
    """
    limits = {shape.device_resource: str(shape.devices)}
    declared = _declared(stack, f"{namespace}/{name}", checkpoints, trains=trains)
    _create_job(stack, name, ranks, namespace, _template(name, group=group, limits=limits, annotations=declared))


def create_feature_job(
    stack: Stack,
    name: str = "feature-prep",
    *,
    ranks: int = 2,
    namespace: str = NAMESPACE,
    group: str | None = None,
    checkpoints: int = 3,
    trains: bool = False,
) -> None:
    """A Job that holds no devices and declares a checkpoint; arguments as for ``create_training_job``."""
    declared = _declared(stack, f"{namespace}/{name}", checkpoints, trains=trains)
    _create_job(stack, name, ranks, namespace, _template(name, group=group, annotations=declared))


def create_web(
    stack: Stack, name: str = "web", *, replicas: int = 3, namespace: str = NAMESPACE, group: str | None = None
) -> None:
    """A Deployment of which at most one pod may be missing, by a PodDisruptionBudget of the same name."""
    selector = {"matchLabels": {"app": name}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": _template(name, group=group)},
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": replicas - 1, "selector": selector},
    }
    with stack.kubernetes.connected() as api:
        apps: Any = client.AppsV1Api(api)
        policy: Any = client.PolicyV1Api(api)
        policy.create_namespaced_pod_disruption_budget(namespace, budget)
        apps.create_namespaced_deployment(namespace, deployment)


def create_daemonset(
    stack: Stack, name: str = "node-agent", *, namespace: str = NAMESPACE, group: str | None = None
) -> None:
    """One pod on every node of the group, whatever its taints."""
    template = _template(name, group=group)
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    daemonset = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }
    with stack.kubernetes.connected() as api:
        apps: Any = client.AppsV1Api(api)
        apps.create_namespaced_daemon_set(namespace, daemonset)


def add_pod(
    stack: Stack,
    name: str,
    *,
    node: str | None = None,
    group: str | None = None,
    namespace: str = NAMESPACE,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    grace_s: int = 1,
    spec: Mapping[str, Any] | None = None,
) -> None:
    """A pod without a controller.

    Args:
        stack: where.
        name: of the pod, and the value of its label ``app``.
        node: where it runs, without asking the scheduler.
        group: node group that it is confined to.
        namespace: must exist.
        labels: besides ``app``.
        annotations: such as STUCK_ANNOTATION.
        limits: of its container.
        grace_s: its terminationGracePeriodSeconds.
        spec: fields that replace those of the pod's spec, such as volumes.
    """
    pod = _template(name, group=group, limits=limits, annotations=annotations)
    pod["metadata"]["name"] = name
    pod["metadata"]["labels"] |= labels or {}
    pod["spec"] |= {"terminationGracePeriodSeconds": grace_s, **({"nodeName": node} if node else {}), **(spec or {})}
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.create_namespaced_pod(namespace, {"apiVersion": "v1", "kind": "Pod", **pod})


def running_pods(stack: Stack, app: str, namespace: str = NAMESPACE) -> list[Any]:
    """The pods with the label ``app`` that run and are not on their way out."""
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        pods = core.list_namespaced_pod(namespace, label_selector=f"app={app}").items
    return [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]


def checkpoint_annotations(stack: Stack, job: str, *, checkpoints: int = 0) -> dict[str, str]:
    """Annotations that declare a checkpoint by ``demo_job``, for a job named ``namespace/name``, with some history."""
    demo_job.seed(demo_job.folder_of(stack.exec_dir, job), checkpoints)
    command = [sys.executable, "-I", str(Path(demo_job.__file__).absolute()), "--job", job]
    return {CHECKPOINT_ANNOTATION: "exec", CHECKPOINT_COMMAND_ANNOTATION: json.dumps(command)}


def _declared(stack: Stack, job: str, checkpoints: int, *, trains: bool) -> dict[str, str]:
    return training_annotations(stack, job) if trains else checkpoint_annotations(stack, job, checkpoints=checkpoints)


def training_annotations(stack: Stack, job: str) -> dict[str, str]:
    """Annotations as people write them who copied the helper into their image."""
    folder = str(checkpoint_folder(stack, job))
    command = [sys.executable, "-I", str(Path(nodemend_checkpoint.__file__).absolute()), "--dir", folder]
    return {
        CHECKPOINT_ANNOTATION: "exec",
        CHECKPOINT_COMMAND_ANNOTATION: json.dumps(command),
        CHECKPOINT_MANIFESTS_ANNOTATION: folder,
    }


def checkpoint_folder(stack: Stack, job: str) -> Path:
    """Where a job named ``namespace/name`` keeps its checkpoints."""
    return demo_job.folder_of(stack.exec_dir, job)


def _create_job(stack: Stack, name: str, ranks: int, namespace: str, template: dict[str, Any]) -> None:
    template["spec"]["restartPolicy"] = "Never"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": ranks,
            "completions": ranks,
            "completionMode": "Indexed",
            "backoffLimit": 6,
            # An eviction is no failure of the job: it must not burn its retries.
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "template": template,
        },
    }
    with stack.kubernetes.connected() as api:
        batch: Any = client.BatchV1Api(api)
        batch.create_namespaced_job(namespace, job)


def _template(
    app: str,
    *,
    group: str | None,
    limits: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}, "annotations": dict(annotations or {})},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            **({"nodeSelector": {NODEGROUP_LABEL: group}} if group else {}),
            "containers": [{"name": "main", "image": _IMAGE, "resources": {"limits": dict(limits or {})}}],
        },
    }
