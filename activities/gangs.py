"""Which job a pod works for, and which of its pods stop with it: one table over labels and owners. Pure.

A gang's ranks wait for each other, so one rank that goes stops all (D36). The labels are those that each project
documents: Kubernetes Job, JobSet, Kubeflow Training Operator v1, Kubeflow Trainer v2 (its TrainJobs run as JobSets of
the same name), MPI Operator, KubeRay, LeaderWorkerSet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from activities.claim import annotations, labels
from activities.cluster import Json
from activities.pod_filters import controller_of
from contract.names import CHECKPOINT_ANNOTATION, GANG_LABEL

INDEX: Final = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class Kind:
    """A kind of job: how its pods are known, and where its object is."""

    kind: str
    api: str
    """``group/version``; the core group has no slash."""
    plural: str
    label: str = ""
    """On its pods, with the name of the job; empty where only owners tell."""
    tells: Callable[[Json], str] = lambda _pod: ""
    """The job's name, from a pod; empty where the pod is of no such job."""

    def path(self, namespace: str, name: str) -> str:
        """Of its object, on the API server."""
        root = "apis" if "/" in self.api else "api"
        return f"/{root}/{self.api}/namespaces/{namespace}/{self.plural}/{name}"

    @property
    def resource(self) -> str:
        """As RBAC names it."""
        group = self.api.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural


@dataclass(frozen=True)
class Gang:
    """A job as its pods tell of it."""

    job: str
    """``namespace/kind/name``."""
    kind: Kind | None = None
    """None for a single controller or pod that the table does not know."""
    gang: bool = False
    """Whether its pods stop together."""
    group: str = ""
    """Of a LeaderWorkerSet: which of its groups. Each stops by itself."""

    @property
    def selector(self) -> str:
        """Label selector of its pods; empty where there is none."""
        name = self.job.rpartition("/")[2].partition("#")[0]
        return f"{self.kind.label}={name}" if self.kind and self.kind.label else ""


def _label(key: str) -> Callable[[Json], str]:
    return lambda pod: labels(pod).get(key, "")


def _ray_job(pod: Json) -> str:
    """RayServices start clusters as well, and are no jobs."""
    found = labels(pod)
    return found.get(_RAY_ORIGIN, "") if found.get("ray.io/originated-from-crd") == "RayJob" else ""


def _kubeflow(kind: str) -> Callable[[Json], str]:
    """Of the Training and MPI Operators: one label for all kinds, and an owner or another label that says which."""
    operator = f"{kind.lower().removesuffix('job')}job-controller"

    def tells(pod: Json) -> str:
        found, owner = labels(pod), controller_of(pod)
        name = found.get("training.kubeflow.org/job-name", "")
        if owner and owner["kind"] == kind:
            return name or str(owner["name"])
        names = (operator, "mpi-operator" if kind == "MPIJob" else operator)
        return name if found.get("training.kubeflow.org/operator-name") in names else ""

    return tells


def _owned_by(kind: str) -> Callable[[Json], str]:
    def tells(pod: Json) -> str:
        owner = controller_of(pod)
        return str(owner["name"]) if owner and owner["kind"] == kind else ""

    return tells


def _indexed_job(pod: Json) -> str:
    owner = controller_of(pod)
    indexed = INDEX in annotations(pod) or INDEX in labels(pod)
    return str(owner["name"]) if owner and owner["kind"] == "Job" and indexed else ""


def _stateful_set(pod: Json) -> str:
    """A StatefulSet that trains: others are services, whose pods come and go one by one."""
    holds = any(
        "/" in name for c in pod["spec"].get("containers", []) for name in c.get("resources", {}).get("limits", {})
    )
    return _owned_by("StatefulSet")(pod) if holds or CHECKPOINT_ANNOTATION in annotations(pod) else ""


_RAY_ORIGIN: Final = "ray.io/originated-from-cr-name"
_TRAINJOB: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_LWS: Final = "leaderworkerset.sigs.k8s.io"

KINDS: Final = (
    Kind("RayJob", "ray.io/v1", "rayjobs", _RAY_ORIGIN, _ray_job),
    Kind("RayCluster", "ray.io/v1", "rayclusters", "ray.io/cluster", _label("ray.io/cluster")),
    Kind("TrainJob", "trainer.kubeflow.org/v1alpha1", "trainjobs", "jobset.sigs.k8s.io/jobset-name",
         lambda pod: labels(pod).get("jobset.sigs.k8s.io/jobset-name", "") if _TRAINJOB in labels(pod) else ""),
    Kind("JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets", "jobset.sigs.k8s.io/jobset-name",
         _label("jobset.sigs.k8s.io/jobset-name")),
    Kind("MPIJob", "kubeflow.org/v2beta1", "mpijobs", "training.kubeflow.org/job-name", _kubeflow("MPIJob")),
    Kind("PyTorchJob", "kubeflow.org/v1", "pytorchjobs", "training.kubeflow.org/job-name", _kubeflow("PyTorchJob")),
    Kind("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "leaderworkersets", f"{_LWS}/name", _label(f"{_LWS}/name")),
    Kind("Job", "batch/v1", "jobs", "batch.kubernetes.io/job-name", _indexed_job),
    Kind("StatefulSet", "apps/v1", "statefulsets", "", _stateful_set),
)  # fmt: skip
"""In the order in which they are asked: what owns others comes before what it owns."""

_PLAIN_JOB: Final = Kind("Job", "batch/v1", "jobs", "batch.kubernetes.io/job-name")
LABELLED: Final = Kind("Gang", "v1", "pods", GANG_LABEL)


def gang_of(pod: Json) -> Gang:
    """The job that a pod works for."""
    namespace = pod["metadata"]["namespace"]
    if name := labels(pod).get(GANG_LABEL, ""):
        return Gang(f"{namespace}/Gang/{name}", LABELLED, gang=True)
    for kind in KINDS:
        if name := kind.tells(pod):
            group = labels(pod).get(f"{_LWS}/group-index", "") if kind.kind == "LeaderWorkerSet" else ""
            shown = f"{name}#{group}" if group else name
            return Gang(f"{namespace}/{kind.kind}/{shown}", kind, gang=True, group=group)
    owner = controller_of(pod)
    if owner is None:
        return Gang(f"{namespace}/Pod/{pod['metadata']['name']}")
    job = f"{namespace}/{owner['kind']}/{owner['name']}"
    return Gang(job, _PLAIN_JOB if owner["kind"] == "Job" else None)


def is_work(pod: Json) -> bool:
    """Whether a pod works for a job: not finished, not on its way out, not of a DaemonSet or the kubelet."""
    owner = controller_of(pod)
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
        return False
    return not (owner and owner["kind"] in ("DaemonSet", "Node"))
