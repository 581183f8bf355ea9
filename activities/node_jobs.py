"""A short Job on one very node: the probe of a new machine, the reset of an old one's devices.

It is bound to the node by name, so that no cordon and no taint keeps it away, and tolerates what would evict it.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from temporalio import activity

from activities.cluster import Json
from activities.device_count import counting
from activities.objects import Objects
from contract.identity import Target
from contract.replacement import NodeJob

_WORDS_MAX: Final = 300
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
    container: Json = {
        "name": "main",
        "image": job.image,
        "command": list(job.command) or counting(devices),
        # Its last lines are what people are told of a failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
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
            why = _last_words(objects, body) or condition.get("message") or condition.get("reason")
            return JobState(finished=True, says=f"Job {job.namespace}/{name} failed: {why or 'no reason given'}")
    return JobState(finished=False, says=f"Job {job.namespace}/{name} runs")


def _last_words(objects: Objects, body: Json) -> str:
    """What its container said when it failed, and with which exit code; empty where that is not known."""
    node, name = body["spec"]["template"]["spec"]["nodeName"], body["metadata"]["name"]
    for pod in objects.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node}"):
        if pod["metadata"].get("labels", {}).get("job-name") != name:
            continue
        for container in pod.get("status", {}).get("containerStatuses", []):
            if end := container.get("state", {}).get("terminated"):
                said = str(end.get("message", ""))[-_WORDS_MAX:]
                # It ends in terminals and in Markdown (C14).
                words = " ".join("".join(c if c.isprintable() else " " for c in said).split())
                return f"exit code {end['exitCode']}{f', {words}' if words else ''}"
    return ""
