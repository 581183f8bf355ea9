"""In which order the pods of a node are asked to leave. Pure.

Waves first: system-critical pods stay until the rest is gone. Within a wave lower priority goes first, and of equals
the one that may take longest, because a drain is over when its slowest pod is. A gang's leader is told when its ranks
have been, or, where the leader ends the ranks itself, before them.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from activities.claim import annotations, labels
from activities.cluster import Json
from activities.gangs import INDEX, gang_of
from activities.pod_filters import Filtered, Verdict, Wave, grace_period_s, hangs


class Lead(StrEnum):
    """How a leader stands to the ranks of its gang."""

    LAST = "last"
    """It keeps the rendezvous, the state of the cluster or the ranks themselves: they fail when it goes first."""
    FIRST = "first"
    """It watches the ranks and would report their end as a failure; told first, it ends them itself."""


@dataclass(frozen=True)
class _Sign:
    """How the leader of a kind of job is known: a label, and the value that only the leader has."""

    kinds: frozenset[str]
    key: str
    value: str
    lead: Lead


_TRAINING: Final = "training.kubeflow.org"
_JOBSET: Final = "jobset.sigs.k8s.io"

_SIGNS: Final = (
    # mpirun forwards SIGTERM to its ranks and exits; a rank that ends before it is an error of the launcher's Job
    # (Open MPI, mpirun(1), Signal Propagation; MPI Operator v2beta1; Kubeflow Trainer v2 names the JobSet's part so).
    _Sign(frozenset({"MPIJob"}), f"{_TRAINING}/job-role", "launcher", Lead.FIRST),
    _Sign(frozenset({"MPIJob"}), f"{_TRAINING}/replica-type", "launcher", Lead.FIRST),
    _Sign(frozenset({"TrainJob"}), f"{_JOBSET}/replicatedjob-name", "launcher", Lead.FIRST),
    # Rank 0 holds the store that all ranks meet at, and commits their checkpoint (PyTorch, torch.distributed TCPStore).
    _Sign(frozenset({"PyTorchJob"}), f"{_TRAINING}/job-role", "master", Lead.LAST),
    _Sign(frozenset({"PyTorchJob"}), f"{_TRAINING}/replica-type", "master", Lead.LAST),
    # The head keeps the cluster's state: without it every worker's task is lost (Ray, GCS fault tolerance).
    _Sign(frozenset({"RayCluster", "RayJob"}), "ray.io/node-type", "head", Lead.LAST),
    # The leader pod owns its group's StatefulSet: its end deletes the workers unevicted (LeaderWorkerSet, Concepts).
    _Sign(frozenset({"LeaderWorkerSet"}), "leaderworkerset.sigs.k8s.io/worker-index", "0", Lead.LAST),
    _Sign(frozenset({"StatefulSet"}), "apps.kubernetes.io/pod-index", "0", Lead.LAST),
)


def leads(pod: Json) -> Lead | None:
    """Whether a pod is its gang's leader, and how it leaves then. None for a rank, and for what is in no gang."""
    gang = gang_of(pod)
    if not gang.gang or gang.kind is None:
        return None
    known = labels(pod)
    for sign in _SIGNS:
        if gang.kind.kind in sign.kinds and known.get(sign.key) == sign.value:
            return sign.lead
    if gang.kind.kind in ("JobSet", "TrainJob"):
        return Lead.LAST if _coordinates(pod) else None
    if gang.kind.kind in ("Job", "Gang") and _index(pod) == "0":
        return Lead.LAST
    return None


def _index(pod: Json) -> str:
    # A label since Kubernetes 1.28, an annotation before.
    return labels(pod).get(INDEX) or annotations(pod).get(INDEX, "")


def _coordinates(pod: Json) -> bool:
    """The coordinator that a JobSet names (``<pod name without its suffix>.<subdomain>``), else its first pod."""
    known = {**annotations(pod), **labels(pod)}
    if named := known.get(f"{_JOBSET}/coordinator"):
        return named.partition(".")[0] == str(pod["spec"].get("hostname", ""))
    return known.get(f"{_JOBSET}/job-global-index") == "0" and _index(pod) == "0"


def next_wave(left: Sequence[Filtered], now: datetime, held: Container[str]) -> list[Filtered]:
    """The pods to ask next, in their order; none of those that are held, by UID."""
    wave = min((pod.wave for pod in left if not hangs(pod, now)), default=Wave.WORK)
    due = [pod for pod in left if pod.wave is wave and pod.verdict is Verdict.EVICT and pod.uid not in held]
    # Where not all can be asked for at once, the least goes first, and what takes longest of that.
    return sorted(due, key=lambda pod: (int(pod.pod["spec"].get("priority", 0)), -grace_period_s(pod.pod), pod.name))


def held_back(left: Iterable[Filtered]) -> dict[str, str]:
    """Pods whose turn comes when others of their gang here have been told to end: by UID, what each waits for.

    Told, not gone: ranks that save on SIGTERM do so together, and need their leader while they end. And a leader is
    left alone as long as something (a budget) keeps one of its ranks: the gang goes on until it can leave as a whole.
    """
    gangs: dict[tuple[str, Wave], list[Filtered]] = {}
    for pod in left:
        if pod.verdict is Verdict.EVICT and (gang := gang_of(pod.pod)).gang:
            # Of one wave: pods of a later one wait for this leader to be gone.
            gangs.setdefault((gang.job, pod.wave), []).append(pod)
    held: dict[str, str] = {}
    for (job, _), members in gangs.items():
        leaders = {pod.uid: lead for pod in members if (lead := leads(pod.pod))}
        if len(leaders) == len(members):
            continue
        launchers = [pod.uid for pod in members if leaders.get(pod.uid) is Lead.FIRST]
        for pod in members:
            if leaders.get(pod.uid) is Lead.LAST:
                held[pod.uid] = f"leads {job}: it is asked when the job's other pods here have been told to end"
            elif launchers and pod.uid not in launchers:
                held[pod.uid] = f"waits for the launcher of {job}, which ends its ranks itself"
    return held
