"""Reading jobs from the cluster: the object, what it has left, and all of its pods."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.exceptions import ApplicationError

from activities.attempts import Attempts, attempts, has_ended
from activities.cluster import Cluster, Json
from activities.gangs import KINDS, LABELLED, Gang, gang_of
from contract.names import ErrorType

_FIRST_START: Final = timedelta(minutes=15)
"""Pods that start this long after their job was made are not its first, or waited for room so long."""
REPAIR: Final = timedelta(minutes=30)
"""How long a job may be without a node that is replaced."""
_BY_NAME: Final = {kind.kind: kind for kind in (*KINDS, LABELLED)}


def job_object(cluster: Cluster, gang: Gang) -> Json | None:
    """The job's own object; None where there is none, or no right to read it."""
    if gang.kind is None or gang.kind.kind == "Gang":
        return None
    namespace, _, name = gang.job.split("/", 2)
    try:
        return cluster.read(gang.kind.path(namespace, name.partition("#")[0]), f"get {gang.kind.resource}")
    except ApplicationError as error:
        if error.type == ErrorType.ACCESS_DENIED:
            return None
        raise


def read_attempts(cluster: Cluster, gang: Gang, job: Json | None, evicted: Sequence[Json]) -> Attempts:
    """What the job has left. A TrainJob runs as a JobSet of its name, which counts for it."""
    counting = job
    if gang.kind is not None and gang.kind.kind == "TrainJob":
        namespace, _, name = gang.job.split("/", 2)
        counting = job_object(cluster, Gang(f"{namespace}/JobSet/{name}", _BY_NAME["JobSet"]))
    return attempts(gang.kind, counting, evicted, datetime.now(UTC), REPAIR)


def pods_of(cluster: Cluster, gang: Gang) -> list[Json]:
    """All pods of a job, those that have ended too."""
    namespace = gang.job.partition("/")[0]
    return [pod for pod in cluster.pods_in(namespace, gang.selector) if gang_of(pod).job == gang.job]


def gang_named(job: str) -> Gang:
    """A job by its name, as far as the table knows its kind."""
    _, kind, name = job.split("/", 2)
    known = _BY_NAME.get(kind)
    return Gang(job, known, gang=known is not None, group=name.partition("#")[2])


def why_dead(job: Json | None, pods: Sequence[Json]) -> str:
    """Why a job has no work to disturb; empty where it has."""
    if job is not None and (ended := has_ended(job)):
        return f"its condition is {ended}"
    if job is not None and (job["spec"].get("suspend") or (job["spec"].get("runPolicy") or {}).get("suspend")):
        return "it is suspended"
    if not any(pod.get("status", {}).get("phase") == "Running" for pod in pods):
        return "none of its pods runs"
    return ""


def restarted_at(job: Json | None, pods: Sequence[Json]) -> datetime | None:
    """When a job started again: its newest rank's start, unless that was its first. None where nobody can tell."""
    starts = [moment for pod in pods if pod.get("status", {}).get("phase") == "Running" for moment in _starts(pod)]
    if job is None or not starts:
        return None
    newest = max(starts)
    return newest if newest - _moment(job["metadata"]["creationTimestamp"]) > _FIRST_START else None


def _starts(pod: Json) -> list[datetime]:
    running = [
        container.get("state", {}).get("running", {}) for container in pod["status"].get("containerStatuses", [])
    ]
    found = [container["startedAt"] for container in running if container.get("startedAt")]
    return [_moment(text) for text in found or [pod["status"].get("startTime")] if text]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
