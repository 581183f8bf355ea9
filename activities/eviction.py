"""Asking for evictions, bounded for a node and for the whole process, and reading what the API server answers.

Rules D1 to D10 and D34 of the correctness reference.
"""

import contextlib
import contextvars
import json
import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kubernetes.client import ApiException

from activities.cluster import Cluster, Json
from activities.errors import failure
from activities.pod_filters import Filtered
from contract.names import ErrorType

EVICTIONS_AT_ONCE: Final = 40
"""Of all drains of one process together: more would trip API Priority and Fairness (D34)."""
_EVICTIONS_AT_ONCE_ON_A_NODE: Final = 16
_BLOCKED_FLOOR_S: Final = 5.0
"""Wait after a budget said no, where the API server names no time (kubectl waits as long)."""
_OVERLOAD_FLOOR_S: Final = 1.0
"""What API Priority and Fairness names when it rejects a request."""
_CAP_S: Final = 30.0
_TWO_BUDGETS: Final = "more than one PodDisruptionBudget"
_PASSING: Final = frozenset({403, 429, 500, 502, 503, 504})
"""403 where the namespace is terminating (D8); a missing right is told apart before."""
_DENIED: Final = re.compile(r"denied (?:the )?request")
"""By an admission webhook or policy, with whatever status that chose (k8s.io/apiserver, ToStatusErr)."""
_DENIAL_MAX: Final = 300


@dataclass(frozen=True)
class Refusal:
    """Why a pod was not evicted now."""

    why: str
    wait_s: float
    budgets: dict[str, str] = field(default_factory=dict)
    """Budgets that said no, each in words."""
    overload: bool = False
    """The API server has too much to do: a reason for every drain to wait, not for this pod alone."""
    denied: bool = False
    """An admission webhook or policy of the cluster does not let it go."""
    permanent: bool = False
    """More than one budget covers it: Kubernetes will never evict it (D7)."""


class Took(StrEnum):
    """An answer that is no refusal."""

    EVICTED = "evicted"
    GONE = "gone"
    LOOK_AGAIN = "look again"
    """Another pod has the name, or the API server was writing DisruptionTarget: the next look tells (D1, D10)."""


Answer = Callable[[Filtered, Took | Refusal], None]
"""Told of each pod what came of asking."""


class Evictions:
    """The evictions of one process: whoever drains asks here."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pool = ThreadPoolExecutor(EVICTIONS_AT_ONCE, thread_name_prefix="evict")
        self._slots = threading.BoundedSemaphore(EVICTIONS_AT_ONCE)
        self._lock = threading.Lock()
        self._closed_until = 0.0

    def ask(
        self, pods: Sequence[Filtered], grace_period_s: int | None, *, before_each: Callable[[], None], answer: Answer
    ) -> None:
        """Ask for the eviction of pods, in their order, several at once; and wait for all answers.

        Args:
            pods: which.
            grace_period_s: instead of their own; None for their own.
            before_each: whether to go on; what it raises ends this once the calls that run are answered.
            answer: called with each answer, from several threads.

        Raises:
            ApplicationError: the API server cannot be reached, or the worker lacks a right.
        """
        room = threading.BoundedSemaphore(_EVICTIONS_AT_ONCE_ON_A_NODE)
        asked: list[Future[None]] = []
        try:
            for pod in pods:
                room.acquire()
                # A thread is free from here on: what is checked now holds when the call is made, however many drains
                # wait for theirs. A veto meanwhile would be seen too late by a call that stands in a queue (D30).
                with self._slot() as slot:
                    before_each()
                    if self.closed_for_s() > 0:
                        break
                    future = self._pool.submit(contextvars.copy_context().run, self._ask, pod, grace_period_s, answer)
                    slot.pop_all()
                future.add_done_callback(lambda _: self._slots.release())
                future.add_done_callback(lambda _: room.release())
                asked.append(future)
        finally:
            wait(asked)
        for future in asked:
            future.result()

    def _slot(self) -> contextlib.ExitStack:
        """One of the process's evictions; given back at the end of the block, unless it is handed on."""
        self._slots.acquire()
        slot = contextlib.ExitStack()
        slot.callback(self._slots.release)
        return slot

    def closed_for_s(self) -> float:
        """How long nobody asks, because the API server said that it has too much to do."""
        with self._lock:
            return max(0.0, self._closed_until - time.monotonic())

    def _ask(self, pod: Filtered, grace_period_s: int | None, answer: Answer) -> None:
        try:
            self._cluster.evict(pod.pod, grace_period_s)
        except ApiException as error:
            told = read_answer(error, pod.name)
            if isinstance(told, Refusal) and told.overload:
                with self._lock:
                    self._closed_until = max(self._closed_until, time.monotonic() + told.wait_s)
            answer(pod, told)
        else:
            answer(pod, Took.EVICTED)


def read_answer(error: ApiException, name: str) -> Took | Refusal:
    """What an answer other than success means.

    Raises:
        ApplicationError: ``Unreachable`` for an answer that means nothing here: the act is tried again.
    """
    status = _status(error)
    if error.status == 404:
        return Took.GONE
    if error.status == 409:
        return Took.LOOK_AGAIN
    if _DENIED.search(message := str(status.get("message", ""))):
        # Of this pod alone, even as 429: others drain on. KubeVirt answers so while it moves a machine away.
        return Refusal(f"refused by {message[:_DENIAL_MAX]}", _wait_s(error, status, _BLOCKED_FLOOR_S), denied=True)
    if error.status == 403 and (budget := _broken_budget(status)):
        return Refusal(budget[1], _wait_s(error, status, _CAP_S), dict([budget]))
    if error.status == 429 and (budgets := _budgets(status)):
        return Refusal("; ".join(budgets.values()), _wait_s(error, status, _BLOCKED_FLOOR_S), budgets)
    if error.status == 500 and _TWO_BUDGETS in str(error.body):
        return Refusal("more than one PodDisruptionBudget covers it", _CAP_S, permanent=True)
    if error.status == 429:
        return Refusal(
            "the API server has too much to do (429): every drain of this worker waits",
            _wait_s(error, status, _OVERLOAD_FLOOR_S),
            overload=True,
        )
    if error.status in _PASSING:
        why = f"the API server answered {error.status} {error.reason}"
        return Refusal(why, _wait_s(error, status, _BLOCKED_FLOOR_S))
    raise failure(
        ErrorType.UNREACHABLE, f"Evicting {name} was answered {error.status} {error.reason}: it is tried again."
    )


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


def _broken_budget(status: Json) -> tuple[str, str] | None:
    """A budget that cannot be counted with (registry/core/pod/storage/eviction.go), by name, in words."""
    details = status.get("details") or {}
    if details.get("kind") != "poddisruptionbudget":
        return None
    why = str(status.get("message", "")).rpartition("is forbidden: ")[2]
    return str(details["name"]), f"PodDisruptionBudget {details['name']} cannot be counted with: {why}"


def _wait_s(error: ApiException, status: Json, floor_s: float) -> float:
    """The server's word is a floor; jitter keeps many drains from coming back together (D6)."""
    named = (status.get("details") or {}).get("retryAfterSeconds") or (error.headers or {}).get("Retry-After") or 0
    try:
        seconds = float(named)
    except ValueError:
        seconds = 0.0
    return min(max(seconds, floor_s), _CAP_S) * random.uniform(1.0, 1.3)  # noqa: S311
