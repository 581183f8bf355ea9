"""Taking the work off a node through the Eviction API, and only through it.

Rules D1 to D40 of the correctness reference: verdicts on all pods before the first eviction, the pod's UID as a
precondition, budgets named when they block, and waiting by UID. A retry goes on where the last try was, because the
state is the cluster's own.
"""

import json
import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from kubernetes.client import ApiException
from temporalio import activity

from activities.claim import annotations, claimed_node, mark_disrupting
from activities.cluster import Cluster, Json
from activities.errors import failure
from activities.identify import is_ready
from activities.pod_filters import Filtered, Verdict, controller_of, filter_pod, grace_period_s
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import LIST_MAX, Drained, DrainNode
from contract.names import SKIP_ANNOTATION, ActivityName, ErrorType

_EVICTIONS_AT_ONCE: Final = 10
"""More would trip API Priority and Fairness when many nodes drain (D34)."""
_LOOK_EVERY_S: Final = 0.25
_BLOCKED_FLOOR_S: Final = 5.0
"""Wait after a budget said no, where the API server names no time (kubectl waits as long)."""
_BLOCKED_CAP_S: Final = 30.0
_EMPTY_LISTS: Final = 2
"""Two in a row: a pod may have been on its way when the node was cordoned (D20)."""
_GONE_KUBELET_GRACE_S: Final = 1
"""On a silent node; never 0, which would let two pods of one name run at once (D24)."""


@dataclass
class _Progress:
    """What one drain has done and waits for."""

    earlier: int = 0
    """Pods that earlier tries of this act evicted, before their worker went away."""
    evicted: dict[str, str] = field(default_factory=dict)
    """Name by UID."""
    blocked: dict[str, str] = field(default_factory=dict)
    """Why, by pod name."""
    since: dict[str, datetime] = field(default_factory=dict)
    budgets: set[str] = field(default_factory=set)
    not_before: dict[str, float] = field(default_factory=dict)
    """Monotonic time of the next try, by pod UID."""

    def refuse(self, name: str, why: str) -> None:
        """A pod was refused; since when stays, as long as it is refused."""
        since = self.since.setdefault(name, datetime.now(UTC))
        self.blocked[name] = f"{why}, since {since:%H:%M:%S}"

    @property
    def count(self) -> int:
        """Pods evicted, by all tries."""
        return self.earlier + len(self.evicted)


class DrainActivity:
    """The act ``drain_node``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @activity.defn(name=ActivityName.DRAIN_NODE, no_thread_cancel_exception=True)
    def drain_node(self, argument: DrainNode) -> Drained:
        """Evict every pod that may be evicted, and wait until they are gone.

        Raises:
            ApplicationError: ``DrainForbidden`` before anything is evicted, ``DrainBlocked`` past the deadline, or
                what ``claimed_node`` says.
        """
        progress = _Progress(earlier=_evicted_before())
        pods = self._filtered(argument)
        if forbidden := [pod for pod in pods if pod.verdict is Verdict.FORBIDDEN]:
            raise failure(ErrorType.DRAIN_FORBIDDEN, _forbidden(forbidden))
        mark_disrupting(self._cluster, argument.target)
        end = deadline(argument.deadline + timedelta(seconds=max((grace_period_s(pod.pod) for pod in pods), default=0)))
        empty = 0
        with ThreadPoolExecutor(max_workers=_EVICTIONS_AT_ONCE, thread_name_prefix="evict") as executor:
            while True:
                go_on()
                node, _ = claimed_node(self._cluster, argument.target)
                pods = self._filtered(argument)
                left = [pod for pod in pods if pod.verdict is not Verdict.STAYS]
                if forbidden := [pod for pod in left if pod.verdict is Verdict.FORBIDDEN]:
                    raise failure(ErrorType.DRAIN_FORBIDDEN, _forbidden(forbidden))
                empty = 0 if left else empty + 1
                if empty >= _EMPTY_LISTS:
                    return _drained(progress, pods)
                if overdue(end):
                    raise failure(ErrorType.DRAIN_BLOCKED, _overdue(left, progress))
                due = [pod for pod in left if pod.verdict is Verdict.EVICT and _is_due(pod, progress)]
                grace = None if is_ready(node) else _GONE_KUBELET_GRACE_S
                list(executor.map(partial(self._evict, grace=grace, progress=progress), due))
                report_progress(_details(left, progress))
                pause(_LOOK_EVERY_S)

    def _filtered(self, argument: DrainNode) -> list[Filtered]:
        pods = self._cluster.pods_on(argument.target.identity.node)
        sets = {
            (pod["metadata"]["namespace"], owner["name"], owner["uid"])
            for pod in pods
            if (owner := controller_of(pod)) and owner["kind"] == "DaemonSet"
        }
        alive = {key for key in sets if self._is_alive(*key)}
        opted_out = {name for name in {pod["metadata"]["namespace"] for pod in pods} if self._opted_out(name)}
        return [
            filter_pod(
                pod,
                daemon_set_exists=_daemon_set_key(pod) in alive,
                evict_unmanaged=argument.evict_unmanaged_pods,
                evict_local_storage=argument.evict_local_storage_pods,
                opted_out=pod["metadata"]["namespace"] in opted_out,
            )
            for pod in pods
        ]

    def _opted_out(self, namespace: str) -> bool:
        found = self._cluster.namespace(namespace)
        return found is not None and SKIP_ANNOTATION in annotations(found)

    def _is_alive(self, namespace: str, name: str, uid: str) -> bool:
        found = self._cluster.daemon_set(namespace, name)
        return found is not None and found["metadata"]["uid"] == uid

    def _evict(self, target: Filtered, grace: int | None, progress: _Progress) -> None:
        uid = target.pod["metadata"]["uid"]
        try:
            self._cluster.evict(target.pod, grace)
        except ApiException as error:
            self._read_refusal(error, target, progress)
            return
        progress.evicted[uid] = target.name
        progress.blocked.pop(target.name, None)
        progress.since.pop(target.name, None)

    def _read_refusal(self, error: ApiException, target: Filtered, progress: _Progress) -> None:
        uid, status = target.pod["metadata"]["uid"], _status(error)
        match error.status:
            case 404:
                progress.blocked.pop(target.name, None)
            case 409:
                # Another pod has the name, or the API server was writing DisruptionTarget: the next list tells
                # (D1, D10).
                pass
            case 429 if budgets := _budgets(status):
                progress.budgets.update(budgets)
                progress.refuse(target.name, "; ".join(budgets.values()))
                _put_off(progress, uid, _retry_after_s(error, status))
            case 500 if "more than one PodDisruptionBudget" in str(error.body):
                names = self._overlapping(target.pod)
                raise failure(
                    ErrorType.DRAIN_BLOCKED,
                    f"{target.name} is covered by more than one PodDisruptionBudget ({', '.join(names)}), which "
                    "Kubernetes refuses to evict. Make their selectors disjoint and press `resume`.",
                )
            case 403 | 429 | 500 | 502 | 503 | 504:
                progress.refuse(target.name, f"the API server answered {error.status} {error.reason}")
                _put_off(progress, uid, _retry_after_s(error, status))
            case _:
                raise failure(
                    ErrorType.UNREACHABLE,
                    f"Evicting {target.name} was answered {error.status} {error.reason}: it is tried again.",
                )

    def _overlapping(self, pod: Json) -> list[str]:
        labels = pod["metadata"].get("labels", {})
        found = []
        for budget in self._cluster.disruption_budgets(pod["metadata"]["namespace"]):
            wanted = budget["spec"].get("selector", {}).get("matchLabels", {})
            if all(labels.get(key) == value for key, value in wanted.items()):
                found.append(budget["metadata"]["name"])
        return sorted(found)


def _evicted_before() -> int:
    details = activity.info().heartbeat_details
    return int(details[0].get("evicted", 0)) if details and isinstance(details[0], dict) else 0


def _daemon_set_key(pod: Json) -> tuple[str, str, str] | None:
    owner = controller_of(pod)
    return (pod["metadata"]["namespace"], owner["name"], owner["uid"]) if owner else None


def _is_due(pod: Filtered, progress: _Progress) -> bool:
    uid = pod.pod["metadata"]["uid"]
    return uid not in progress.evicted and time.monotonic() >= progress.not_before.get(uid, 0.0)


def _put_off(progress: _Progress, uid: str, seconds: float) -> None:
    # The server's word is a floor; jitter keeps many drains from coming back together (D6).
    wait = min(max(seconds, _BLOCKED_FLOOR_S), _BLOCKED_CAP_S) * random.uniform(1.0, 1.3)  # noqa: S311
    progress.not_before[uid] = time.monotonic() + wait


def _status(error: ApiException) -> Json:
    try:
        found = json.loads(error.body or "{}")
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _budgets(status: Json) -> dict[str, str]:
    """Budgets that a refusal names, each with its numbers in words. Any other 429 is overload (D5)."""
    causes = (status.get("details") or {}).get("causes") or []
    found: dict[str, str] = {}
    for cause in causes:
        if cause.get("reason") == "DisruptionBudget":
            # "The disruption budget web needs 2 healthy pods and has 2 currently"
            words = str(cause.get("message", "")).split()
            name = words[words.index("budget") + 1] if "budget" in words[:-1] else "(unnamed)"
            numbers = " ".join(words[words.index(name) + 1 :]) if name in words else ""
            found[name] = f"PodDisruptionBudget {name} {numbers}".strip()
    return found


def _retry_after_s(error: ApiException, status: Json) -> float:
    named = (status.get("details") or {}).get("retryAfterSeconds") or (error.headers or {}).get("Retry-After") or 0
    try:
        return float(named)
    except ValueError:
        return 0.0


def _forbidden(pods: list[Filtered]) -> str:
    return (
        f"The policy does not allow to evict {_names(f'{pod.name} ({pod.why})' for pod in pods)}. Nothing was evicted "
        "because of it. Move or delete them yourself, take the annotation off, or set evict_unmanaged_pods / "
        "evict_local_storage_pods for this group; then press `resume`."
    )


def _overdue(left: list[Filtered], progress: _Progress) -> str:
    blockers = _names(f"{pod.name}{_owner(pod)} ({_why_left(pod, progress)})" for pod in left)
    return (
        f"The node is not empty in time: {blockers}. What was evicted stays evicted and the node closed. Remove what "
        "blocks, and press `resume`."
    )


def _owner(pod: Filtered) -> str:
    owner = controller_of(pod.pod)
    return f" of {owner['kind']} {owner['name']}" if owner else ""


def _why_left(pod: Filtered, progress: _Progress) -> str:
    if finalizers := pod.pod["metadata"].get("finalizers"):
        return f"finalizer {', '.join(finalizers)}"
    if why := progress.blocked.get(pod.name):
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod.pod.get("status", {}).get("conditions", [])
        )
        return why if ready else f"{why}, and the pod itself is not Ready"
    if pod.verdict is Verdict.ENDING:
        return f"it does not end, deleted at {pod.pod['metadata']['deletionTimestamp']}"
    return "it comes back or waits"


def _details(left: list[Filtered], progress: _Progress) -> Json:
    return {
        "evicted": progress.count,
        "waiting_total": len(left),
        "waiting": [
            f"{pod.name} ({progress.blocked[pod.name]})" if pod.name in progress.blocked else pod.name
            for pod in left[:LIST_MAX]
        ],
    }


def _drained(progress: _Progress, pods: list[Filtered]) -> Drained:
    # A pod that has ended and waits to be removed stays with nobody.
    staying = [pod for pod in pods if "deletionTimestamp" not in pod.pod["metadata"]]
    return Drained(
        evicted=progress.count,
        pods=tuple(sorted(progress.evicted.values())[:LIST_MAX]),
        left=tuple(f"{pod.name} ({pod.why})" for pod in staying[:LIST_MAX]),
        left_total=len(staying),
        blocked_by=tuple(sorted(progress.budgets)),
    )


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - LIST_MAX} more" if len(listed) > LIST_MAX else ""
    return ", ".join(listed[:LIST_MAX]) + more
