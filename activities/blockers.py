"""What a drain waits for, in words: which pod, of whom, why, since when, and what a human can do about it."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from activities.cluster import Cluster, Json
from activities.eviction import Refusal
from activities.label_selectors import as_text, selects
from activities.pod_filters import Filtered, Verdict, controller_of, hangs
from contract.acts import LIST_MAX
from contract.words import counted

_LOOK_AGAIN_S: Final = 30.0
_NAMED: Final = 5
"""Unready pods named of each budget."""


@dataclass(frozen=True)
class Refused:
    """A pod that was refused, and how it stands."""

    refusal: Refusal
    since: datetime
    not_before: float
    """Monotonic time of the next try."""


@dataclass
class Progress:
    """What one drain has done and waits for."""

    earlier: int = 0
    """Pods that earlier tries of this act evicted, before their worker went away."""
    evicted: dict[str, str] = field(default_factory=dict)
    """Name by UID."""
    deleted: dict[str, str] = field(default_factory=dict)
    """Pods that refused to the end and were deleted as the policy says: by UID, name and why."""
    refused: dict[str, Refused] = field(default_factory=dict)
    """By UID."""
    budgets: set[str] = field(default_factory=set)
    """Names of those that made it wait."""
    held: dict[str, str] = field(default_factory=dict)
    """Pods that are not asked yet, because of their gang or a load balancer: by UID, what each waits for."""

    @property
    def count(self) -> int:
        """Pods evicted, by all tries."""
        return self.earlier + len(self.evicted)

    def refuse(self, uid: str, refusal: Refusal) -> None:
        """A pod was refused; since when stays, as long as it is refused."""
        before = self.refused.get(uid)
        since = before.since if before else datetime.now(UTC)
        self.refused[uid] = Refused(refusal, since, time.monotonic() + refusal.wait_s)
        self.budgets.update(refusal.budgets)

    def is_due(self, pod: Filtered) -> bool:
        """Whether to ask for its eviction now."""
        refused = self.refused.get(pod.uid)
        return pod.uid not in self.evicted and (refused is None or time.monotonic() >= refused.not_before)


class Budgets:
    """What stands behind a budget's refusal, looked up once in a while."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, str], tuple[float, str]] = {}

    def behind(self, namespace: str, name: str) -> str:
        """Which pods hold the budget, in words (D12)."""
        looked_at, words = self._known.get((namespace, name), (-_LOOK_AGAIN_S, ""))
        if time.monotonic() >= looked_at + _LOOK_AGAIN_S:
            words = self._look(namespace, name)
            self._known[namespace, name] = time.monotonic(), words
        return words

    def overlapping(self, pod: Filtered) -> list[str]:
        """The budgets that cover a pod (D7)."""
        metadata = pod.pod["metadata"]
        return sorted(
            budget["metadata"]["name"]
            for budget in self._cluster.disruption_budgets(metadata["namespace"])
            if selects(budget["spec"].get("selector") or {}, metadata.get("labels") or {})
        )

    def _look(self, namespace: str, name: str) -> str:
        found = [b for b in self._cluster.disruption_budgets(namespace) if b["metadata"]["name"] == name]
        if not found:
            return ""
        (budget,) = found
        pods = self._cluster.pods_in(namespace, as_text(budget["spec"].get("selector") or {}))
        unready = sorted(pod["metadata"]["name"] for pod in pods if not _is_ready(pod))
        if not unready:
            return f"{counted(len(pods), 'pod that it counts is', 'pods that it counts are')} Ready"
        return f"not Ready of {counted(len(pods), 'pod')} that it counts: {listed(unready, _NAMED)}"


def forbidden(pods: Sequence[Filtered]) -> str:
    """Why nothing is evicted."""
    return (
        f"The policy does not allow to evict {listed(f'{pod.name} ({pod.why})' for pod in pods)}. Nothing was evicted "
        "because of it. Move or delete them yourself, take the annotation off, or set evict_unmanaged_pods / "
        "evict_local_storage_pods for this group; then press `resume`."
    )


def overdue(left: Sequence[Filtered], progress: Progress, budgets: Budgets) -> str:
    """Why a human is asked."""
    what = listed(f"{pod.name}{_owner(pod)} ({why_left(pod, progress, budgets)})" for pod in left)
    return (
        f"The node is not empty in time: {what}. What was evicted stays evicted and the node closed. "
        f"{' '.join(_remedies(left, progress))} Then press `resume`; or `release` gives the node back."
    )


def why_left(pod: Filtered, progress: Progress, budgets: Budgets) -> str:
    """Why one pod is still there."""
    metadata = pod.pod["metadata"]
    if pod.verdict is Verdict.ENDING:
        if finalizers := metadata.get("finalizers"):
            return f"being deleted, held by finalizer {', '.join(finalizers)}"
        hung = ", and the kubelet does not end it" if hangs(pod, datetime.now(UTC)) else ""
        return f"its grace period ends at {metadata['deletionTimestamp']}{hung}"
    if refused := progress.refused.get(pod.uid):
        why = f"{refused.refusal.why}, since {refused.since:%H:%M:%S}"
        behind = [budgets.behind(metadata["namespace"], name) for name in refused.refusal.budgets]
        unready = [] if _is_ready(pod.pod) else ["the pod itself is not Ready"]
        return "; ".join([why, *filter(None, behind), *unready])
    if pod.uid in progress.evicted:
        return "being evicted"
    return progress.held.get(pod.uid, "waits for its turn")


def waiting(left: Sequence[Filtered], progress: Progress, budgets: Budgets) -> list[str]:
    """The pods that are waited for: first those that are refused or hang, each with why."""
    now = datetime.now(UTC)
    blocks = [pod for pod in left if pod.uid in progress.refused or hangs(pod, now)]
    blocks += [pod for pod in left if pod.uid in progress.held and pod.uid not in progress.refused]
    told = [f"{pod.name} ({why_left(pod, progress, budgets)})" for pod in blocks[:LIST_MAX]]
    uids = {pod.uid for pod in blocks}
    return [*told, *(pod.name for pod in left if pod.uid not in uids)][:LIST_MAX]


def _remedies(left: Sequence[Filtered], progress: Progress) -> Iterable[str]:
    ending = [pod for pod in left if pod.verdict is Verdict.ENDING]
    if any(pod.uid in progress.refused and progress.refused[pod.uid].refusal.budgets for pod in left):
        yield "For a budget: bring the pods that are not Ready back, add replicas, or relax the budget."
    if any(pod.uid in progress.refused and progress.refused[pod.uid].refusal.denied for pod in left):
        yield "For an admission webhook or policy: see to whoever put it there, or delete the pod yourself."
    if any(pod.pod["metadata"].get("finalizers") for pod in ending):
        yield "For a finalizer: see to the controller that set it."
    if any(not pod.pod["metadata"].get("finalizers") for pod in ending):
        yield "For a pod that does not end: see to the kubelet, or set drain_escalation: terminate-instance."


def _owner(pod: Filtered) -> str:
    owner = controller_of(pod.pod)
    return f" of {owner['kind']} {owner['name']}" if owner else ""


def _is_ready(pod: Json) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod.get("status", {}).get("conditions") or []
    )


def listed(names: Iterable[str], most: int = LIST_MAX) -> str:
    """Names in a sentence, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
