"""A short Job on one very node: the probe of a new machine, the reset of an old one's devices.

It is bound to the node by name, so that no cordon and no taint keeps it away, and tolerates what would evict it.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from temporalio import activity

from activities.cluster import Json
from activities.objects import Objects
from contract.identity import Target
from contract.replacement import NodeJob

_KEEP_S: Final = 3600
"""How long a finished Job is kept for people to look at."""


@dataclass(frozen=True)
class JobState:
    """How a Job stands."""

    finished: bool
    succeeded: bool = False
    says: str = ""


def node_job(job: NodeJob, name: str, node: str, devices: dict[str, int], *, privileged: bool) -> Json:
    """The Job as the API takes it. Pure."""
    container: Json = {"name": "main", "image": job.image, "command": list(job.command)}
    if job.devices and devices and not privileged:
        amounts = {resource: str(count) for resource, count in devices.items()}
        container["resources"] = {"requests": amounts, "limits": amounts}
    if privileged:
        container["securityContext"] = {"privileged": True}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "nodemend"}},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": max(1, int(job.patience.total_seconds())),
            "ttlSecondsAfterFinished": _KEEP_S,
            "template": {
                "spec": {
                    "nodeName": node,
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                },
            },
        },
    }


def job_name(what: str, target: Target, node_uid: str) -> str:
    """One name for one purpose of one act on one node: its retries find the Job, a `resume` makes another."""
    key = f"{target.fence.incident_id}/{target.fence.run_id}/{activity.info().activity_id}/{node_uid}/{what}"
    return f"nodemend-{what}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def run_once(objects: Objects, job: NodeJob, body: Json) -> JobState:
    """Create the Job unless it is there, and see how it stands."""
    jobs = f"/apis/batch/v1/namespaces/{job.namespace}/jobs"
    name = body["metadata"]["name"]
    found = objects.get(f"{jobs}/{name}")
    if found is None:
        objects.create(jobs, body)
        return JobState(finished=False, says=f"Job {job.namespace}/{name} is started")
    for condition in found.get("status", {}).get("conditions", []):
        if condition["status"] != "True":
            continue
        if condition["type"] == "Complete":
            return JobState(finished=True, succeeded=True, says=f"Job {job.namespace}/{name} succeeded")
        if condition["type"] == "Failed":
            why = condition.get("message") or condition.get("reason", "no reason given")
            return JobState(finished=True, says=f"Job {job.namespace}/{name} failed: {why}")
    return JobState(finished=False, says=f"Job {job.namespace}/{name} runs")
