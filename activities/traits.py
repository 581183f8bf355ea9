"""What a node has in common with others, for the correlation guard: of the machine, and of the work that ran on it."""

from collections.abc import Iterable, Mapping
from typing import Final

from activities.checkpoint import group_by_job
from activities.checkpoint_ask import holds
from activities.claim import labels
from activities.cluster import Json
from contract.budget import Traits

DETECTOR: Final = "detector version"
_NODE_INFO: Final = {"kernel": "kernelVersion", "OS image": "osImage", "kubelet": "kubeletVersion"}
"""Fields of ``status.nodeInfo`` (Kubernetes API, NodeSystemInfo)."""


def node_traits(node: Json, by_label: Mapping[str, str]) -> Traits:
    """Of the machine: what its kubelet says, and the labels that the policy names."""
    info, known = node["status"].get("nodeInfo", {}), labels(node)
    found = {trait: info.get(field, "") for trait, field in _NODE_INFO.items()}
    found |= {trait: known.get(label, "") for trait, label in by_label.items()}
    return {trait: value for trait, value in found.items() if value}


def work_traits(pods: Iterable[Json]) -> Traits:
    """Of the work: the job that holds devices, and its image. Of several the first by name stands for all."""
    for job in group_by_job(pods):
        using = [pod for pod in job.pods if holds(pod, None)]
        if using:
            image = using[0]["spec"]["containers"][0].get("image", "")
            return {"job": job.name, **({"image": image} if image else {})}
    return {}


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
