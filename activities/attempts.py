"""Will this end the job? What each kind of job says about how often it may fail. Pure.

Sources: the Kubernetes Job documentation (backoffLimit, podFailurePolicy, activeDeadlineSeconds, backoffLimitPerIndex),
JobSet's failurePolicy.maxRestarts, Kubeflow's runPolicy, KubeRay's backoffLimit. An eviction sets the pod condition
``DisruptionTarget``, which a podFailurePolicy can ignore.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from activities.claim import annotations
from activities.cluster import Json
from activities.gangs import Kind
from contract.words import counted

_BACKOFF_LIMIT: Final = 6
"""Of a Job that names none; the MPI Operator hands the same on to its launcher."""
_INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_ENDED: Final = frozenset({"Complete", "Completed", "Failed", "Succeeded", "Suspended"})


@dataclass(frozen=True)
class Attempts:
    """What a job has left."""

    left: int | None
    """Failures that it still survives; None where nothing bounds them, or nobody knows."""
    cost: int
    """Failures that this disruption counts as."""
    why: str
    used: int = 0
    """Failures that count and that it has had, where its kind counts them."""

    @property
    def ends(self) -> bool:
        """Whether this disruption would end the job."""
        return self.left is not None and self.cost > self.left


def attempts(
    kind: Kind | None, job: Json | None, evicted: Sequence[Json], now: datetime, repair: timedelta
) -> Attempts:
    """What is left to a job whose pods here are going to be evicted.

    Args:
        kind: of the job.
        job: its object; of a TrainJob, the JobSet that runs it.
        evicted: its pods on the node.
        now: the time.
        repair: how long the job may be without this node: a deadline within that ends it all the same.
    """
    if kind is None or job is None:
        return Attempts(None, 1, "its object cannot be read, so nobody knows how often it may fail")
    if ended := has_ended(job):
        return Attempts(None, 0, f"its condition is {ended}: there is nothing left to end")
    left = _READERS.get(kind.kind, _unbounded)(job, evicted)
    if over := _deadline(job, now, repair):
        return Attempts(0, max(1, left.cost), over, left.used)
    return left


def has_ended(job: Json) -> str:
    """The condition that says that the job works no more; empty while it does."""
    status = job.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition.get("type") in _ENDED and condition.get("status") == "True":
            return str(condition["type"])
    ended = status.get("jobDeploymentStatus")  # KubeRay has a field in place of conditions
    return str(ended) if ended in ("Complete", "Failed", "Suspended") else ""


def _job(job: Json, evicted: Sequence[Json]) -> Attempts:
    spec = job["spec"]
    action = _on_disruption(spec)
    if action == "Ignore":
        return Attempts(
            _left(job), 0, "its podFailurePolicy ignores disruptions: they cost it no attempt", _failed(job)
        )
    if action in ("FailJob", "FailIndex"):
        return Attempts(0, 1, f"its podFailurePolicy answers a disruption with {action}")
    if (per_index := spec.get("backoffLimitPerIndex")) is not None:
        failures = [int(annotations(pod).get(_INDEX_FAILURES, "0")) for pod in evicted]
        used = max(failures, default=0)
        left = per_index - used
        return Attempts(left, 1, f"backoffLimitPerIndex {per_index}, {left} left to the index with the fewest", used)
    limit, failed = spec.get("backoffLimit", _BACKOFF_LIMIT), _failed(job)
    why = f"backoffLimit {limit}, {failed} failed; it has no podFailurePolicy for this"
    return Attempts(_left(job), max(1, len(evicted)), why, failed)


def _left(job: Json) -> int:
    return int(job["spec"].get("backoffLimit", _BACKOFF_LIMIT)) - _failed(job)


def _failed(job: Json) -> int:
    return int((job.get("status") or {}).get("failed", 0))


def _on_disruption(spec: Json) -> str:
    """The action of the first rule that an evicted pod matches."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules", []):
        wanted = rule.get("onPodConditions") or []
        if any(item.get("type") == "DisruptionTarget" and item.get("status", "True") == "True" for item in wanted):
            return str(rule["action"])
    return ""


def _job_set(job: Json, _evicted: Sequence[Json]) -> Attempts:
    templates = [item["template"]["spec"] for item in job["spec"].get("replicatedJobs", [])]
    policy = job["spec"].get("failurePolicy") or {}
    most, used = int(policy.get("maxRestarts", 0)), int((job.get("status") or {}).get("restarts", 0))
    if templates and all(_on_disruption(spec) == "Ignore" for spec in templates):
        return Attempts(most - used, 0, "its jobs ignore disruptions: they cost it no restart", used)
    if any(rule.get("action") == "RestartJobSetAndIgnoreMaxRestarts" and not rule.get("onJobFailureReasons")
           for rule in policy.get("rules") or []):  # fmt: skip
        return Attempts(None, 1, "its failurePolicy restarts it without counting")
    return Attempts(most - used, 1, f"maxRestarts {most}, {used} used", used)


def _pytorch_job(job: Json, evicted: Sequence[Json]) -> Attempts:
    policies = {item.get("restartPolicy", "OnFailure") for item in job["spec"].get("pytorchReplicaSpecs", {}).values()}
    if "Never" in policies:
        return Attempts(0, 1, "its restartPolicy is Never")
    limit = (job["spec"].get("runPolicy") or {}).get("backoffLimit")
    if limit is None:
        return Attempts(None, 1, "its runPolicy has no backoffLimit")
    restarts = sum(
        int(item.get("restartCount", 0))
        for pod in evicted
        for item in pod.get("status", {}).get("containerStatuses", [])
    )
    why = f"runPolicy.backoffLimit {limit}, {counted(restarts, 'restart')} seen"
    return Attempts(int(limit) - restarts, 1, why, restarts)


def _mpi_job(job: Json, _evicted: Sequence[Json]) -> Attempts:
    limit = int((job["spec"].get("runPolicy") or {}).get("backoffLimit", _BACKOFF_LIMIT))
    launcher = ((job.get("status") or {}).get("replicaStatuses") or {}).get("Launcher") or {}
    failed = int(launcher.get("failed", 0))
    return Attempts(
        limit - failed, 1, f"runPolicy.backoffLimit {limit}, its launcher failed {counted(failed, 'time')}", failed
    )


def _ray_job(job: Json, _evicted: Sequence[Json]) -> Attempts:
    limit, failed = int(job["spec"].get("backoffLimit", 0)), _failed(job)
    return Attempts(limit - failed, 1, f"backoffLimit {limit}, {failed} failed", failed)


def _unbounded(_job: Json, _evicted: Sequence[Json]) -> Attempts:
    return Attempts(None, 1, "its kind starts its pods again as often as it takes")


def _deadline(job: Json, now: datetime, repair: timedelta) -> str:
    spec, status = job["spec"], job.get("status") or {}
    seconds = spec.get("activeDeadlineSeconds") or (spec.get("runPolicy") or {}).get("activeDeadlineSeconds")
    if not seconds or not (started := status.get("startTime")):
        return ""
    left = datetime.fromisoformat(started) + timedelta(seconds=int(seconds)) - now.astimezone(UTC)
    if left > repair:
        return ""
    return f"its activeDeadlineSeconds {seconds} end it in {max(0, left.total_seconds()):.0f} s, repaired or not"


_READERS: Final = {
    "Job": _job,
    "JobSet": _job_set,
    "TrainJob": _job_set,
    "PyTorchJob": _pytorch_job,
    "MPIJob": _mpi_job,
    "RayJob": _ray_job,
}
