"""What a node has in common with others, for the correlation guard: of the machine, and of the work that ran on it."""

from collections.abc import Iterable, Mapping
from typing import Final

from activities.checkpoint import group_by_job
from activities.checkpoint_ask import holds
from activities.claim import labels
from activities.cluster import Json
from activities.pod_filters import controller_of
from contract.budget import Traits

DETECTOR: Final = "detector version"
_DRIVER: Final = "driver."
_NODE_INFO: Final = {"kernel": "kernelVersion", "OS image": "osImage", "kubelet": "kubeletVersion"}
"""Fields of ``status.nodeInfo`` (Kubernetes API, NodeSystemInfo)."""


def node_traits(node: Json, by_label: Mapping[str, str]) -> Traits:
    """Of the machine: what its kubelet says, and the labels that the policy names."""
    info, known = node["status"].get("nodeInfo", {}), labels(node)
    found = {trait: info.get(field, "") for trait, field in _NODE_INFO.items()}
    found |= {trait: known.get(label, "") for trait, label in by_label.items()}
    return {trait: value for trait, value in found.items() if value}


def driver_traits(fields: Mapping[str, str]) -> Traits:
    """Versions of device drivers, as the node's own detector read them (``driver.neuron``, ``driver.nvidia``)."""
    return {f"{name.removeprefix(_DRIVER)} driver": fields[name] for name in sorted(fields) if name.startswith(_DRIVER)}


def work_traits(pods: Iterable[Json]) -> Traits:
    """Of the work: the job that holds devices, and its image. Of several the first by name stands for all."""
    for job in group_by_job(pods):
        using = [pod for pod in job.pods if holds(pod, None)]
        if using:
            image = using[0]["spec"]["containers"][0].get("image", "")
            return {"job": job.name, **({"image": image} if image else {})}
    return {}


def work_is_dead(pods: Iterable[Json]) -> bool:
    """Whether there is work on a node, and none of it lives. Work that has succeeded is over, and not dead."""
    work = [pod for pod in pods if _works_for_somebody(pod)]
    return bool(work) and not any(_lives(pod) for pod in work)


def _works_for_somebody(pod: Json) -> bool:
    owner = controller_of(pod)
    return not (owner and owner["kind"] in ("DaemonSet", "Node")) and pod.get("status", {}).get("phase") != "Succeeded"


def _lives(pod: Json) -> bool:
    status = pod.get("status", {})
    if status.get("phase") == "Failed" or "deletionTimestamp" in pod["metadata"]:
        return False
    containers = status.get("containerStatuses", [])
    # Without a word of its containers it is about to start.
    return not containers or any("running" in container.get("state", {}) for container in containers)


def where_they_run(pods: Iterable[Json]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Nodes of each job and of each image, whether their pods still run or were failed with the rest of their gang."""
    jobs: dict[str, set[str]] = {}
    images: dict[str, set[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if not node:
            continue
        for job in group_by_job([{**pod, "status": {}}]):
            jobs.setdefault(job.name, set()).add(node)
        for container in pod["spec"].get("containers", [])[:1]:
            images.setdefault(container.get("image", ""), set()).add(node)
    return jobs, images
