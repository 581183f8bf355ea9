"""Taking the work off a node through the Eviction API.

Rules D1 to D40 of the correctness reference: verdicts on all pods before the first eviction, the pod's UID as a
precondition, budgets named when they block, and waiting by UID. A retry goes on where the last try was, because the
state is the cluster's own.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio import activity

from activities import blockers
from activities.allowed import Allowed, always
from activities.blockers import Budgets, Progress
from activities.claim import annotations, claimed_node, mark_disrupting
from activities.cluster import Cluster, Json
from activities.errors import failure
from activities.eviction import Evictions, Refusal, Took
from activities.evidence import why_over
from activities.identities import foreign_owners, is_ready
from activities.last_resort import Limits, Resort, resort
from activities.leaving import held_back, next_wave
from activities.lifecycle import DRAINED, DRAINING, Lifecycle
from activities.load_balancers import Serving, serving
from activities.node_pods import NodePods
from activities.pod_filters import HANGS_AFTER, Filtered, Verdict, controller_of, filter_pod, grace_period_s
from activities.volumes import held_volumes
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import LIST_MAX, Drained, DrainNode
from contract.names import NO_LOAD_BALANCER_LABEL, SKIP_ANNOTATION, ActivityName, ErrorType
from contract.policy import DrainEscalation

_LOOK_EVERY_S: Final = 0.25
"""At the latest; a change among the pods is seen at once."""
_GATHER_S: Final = 0.05
_GATHER_PER_POD_S: Final = 0.005
_CHECK_EVERY_S: Final = 1.0
"""How old what is known of the node may be when a pod is evicted."""
_CHECK_IDLE_S: Final = 5.0
"""The same while nothing is done but waiting: fifty drains at once must not be a load of their own (D34)."""
_NAMESPACES_EVERY_S: Final = 5.0
"""As often as a refused pod is asked again."""
_DAEMON_SETS_EVERY_S: Final = 30.0
_SETTLED_AFTER_S: Final = 0.5
"""A pod may have been on its way when the node was closed: before, "nothing is left" is not believed (D20)."""
_VOLUMES_EVERY_S: Final = 5.0
_GONE_KUBELET_GRACE_S: Final = 1
"""On a silent node; never 0, which would let two pods of one name run at once (D24)."""


class DrainActivity:
    """The act ``drain_node``."""

    def __init__(self, cluster: Cluster, allowed: Allowed = always) -> None:
        """``allowed`` raises once the policy lets the node be touched no more."""
        self._cluster = cluster
        self._evictions = Evictions(cluster)
        self._lifecycle = Lifecycle(cluster)
        self._allowed = allowed

    @activity.defn(name=ActivityName.DRAIN_NODE, no_thread_cancel_exception=True)
    def drain_node(self, argument: DrainNode) -> Drained:
        """Evict every pod that may be evicted, and wait until they and their volumes are gone.

        Raises:
            ApplicationError: ``DrainForbidden`` or ``EvidenceOver`` before anything is evicted, ``DrainBlocked`` past
                the deadline, ``PolicyForbids`` where somebody else took the node on, or the policy allows it no more,
                or what ``claimed_node`` says.
        """
        drain = _Drain(self._cluster, self._evictions, argument, self._allowed, self._lifecycle)
        return drain.run()


class _Drain:
    """One drain."""

    def __init__(
        self, cluster: Cluster, evictions: Evictions, argument: DrainNode, allowed: Allowed, lifecycle: Lifecycle
    ) -> None:
        details = activity.info().heartbeat_details
        self._earlier: Json = details[0] if details and isinstance(details[0], dict) else {}
        self._progress = Progress(
            earlier=int(self._earlier.get("evicted", 0)), deleted=dict(self._earlier.get("deleted", {}))
        )
        self._details: Json = {}
        self._cluster = cluster
        self._evictions = evictions
        self._argument = argument
        self._allowed = allowed
        self._lifecycle = lifecycle
        self._name = argument.target.identity.node
        self._budgets = Budgets(cluster)
        self._grace: int | None = None
        self._node: Json = {}
        self._serving = Serving()
        self._served_until = _now()
        self._checked_at = -_CHECK_IDLE_S
        self._has_daemon_set = _Recently(self._look_for_daemon_set, _DAEMON_SETS_EVERY_S)
        self._has_opted_out = _Recently(self._look_for_opt_out, _NAMESPACES_EVERY_S)

    def run(self) -> Drained:
        """Drain the node."""
        started = time.monotonic()
        with NodePods(self._cluster, self._name) as followed:
            pods = self._judged(followed.now())
            _refuse_forbidden(pods)
            self._check()
            self._see_its_causes()
            mark_disrupting(self._cluster, self._argument.target, {NO_LOAD_BALANCER_LABEL: "true"})
            self._lifecycle.tell(self._node, **{DRAINING: True})
            patience = self._leave_balancers(pods)
            longest = timedelta(seconds=max((grace_period_s(pod.pod) for pod in pods), default=0))
            limits = Limits(self._end(longest + patience), longest)
            abandoned: list[Filtered] = []
            while True:
                pods = self._judged(followed.now())
                left = _left(pods)
                _refuse_forbidden(left)
                served = self._served()
                if not left:
                    if self._name not in served and time.monotonic() >= started + _SETTLED_AFTER_S and self._is_empty():
                        break
                elif self._resort(left, limits) is Resort.ABANDON:
                    abandoned = left
                    break
                self._progress.held = {**held_back(left), **served}
                due = next_wave(left, _now(), self._progress.held)
                self._evict([pod for pod in due if self._progress.is_due(pod)])
                told = blockers.waiting(left, self._progress, self._budgets)
                self._show(waiting_total=len(left), waiting=told or list(served.values()))
                self._check(_CHECK_IDLE_S)
                followed.wait(_LOOK_EVERY_S)
                # A look costs as much as there are pods: with many of them, changes gather first.
                pause(min(_GATHER_S, len(left) * _GATHER_PER_POD_S))
        staying = [pod for pod in pods if pod.verdict is Verdict.STAYS]
        volumes = self._await_volumes(staying, abandoned)
        self._lifecycle.tell(self._node, **{DRAINING: False, DRAINED: not abandoned})
        return self._drained(staying, abandoned, volumes)

    def _end(self, longest: timedelta) -> datetime:
        end = deadline(self._argument.deadline + longest)
        # No worker may have been there until now: the pods are asked, and have their time, before they are given up.
        return _now() + longest + HANGS_AFTER if overdue(end) else end

    # --- the load balancers -----------------------------------------------------------------------------------------

    def _leave_balancers(self, pods: list[Filtered]) -> timedelta:
        """Look, once, what sends to the node that was just taken out of them; and how much longer the drain may take.

        A silent node is asked nothing: its load balancers have found it dead already.
        """
        patience = self._argument.load_balancers
        if patience and self._grace is None:
            self._serving = serving(self._cluster.load_balanced_services(), pods)
        if not self._serving:
            return timedelta(0)
        # Kept for the next try: a worker that dies restarts no clock (D28).
        since = self._earlier.get("left_load_balancers_at") or _now().isoformat()
        self._served_until = datetime.fromisoformat(since) + patience
        self._show(left_load_balancers_at=since)
        return patience

    def _served(self) -> dict[str, str]:
        """What load balancers may send to still: pods by UID, and the node itself; each with what it waits for."""
        return {} if overdue(self._served_until) else self._serving.words(self._name, self._served_until)

    # --- the steps of a look ----------------------------------------------------------------------------------------

    def _judged(self, pods: list[Json]) -> list[Filtered]:
        return [
            filter_pod(
                pod,
                daemon_set_exists=self._has_daemon_set(*_daemon_set_key(pod)),
                evict_unmanaged=self._argument.evict_unmanaged_pods,
                evict_local_storage=self._argument.evict_local_storage_pods,
                opted_out=self._opted_out(pod),
            )
            for pod in pods
        ]

    def _opted_out(self, pod: Json) -> bool:
        # Of a pod that leaves already nobody needs to know.
        return "deletionTimestamp" not in pod["metadata"] and self._has_opted_out(pod["metadata"]["namespace"])

    def _is_empty(self) -> bool:
        """A list of its own, beside what was followed: two in a row (D20)."""
        return not _left(self._judged(self._cluster.pods_on(self._name)))

    def _check(self, no_older_than_s: float = _CHECK_EVERY_S) -> None:
        """Go on only while the node is ours and nobody else's, as seen a moment ago."""
        go_on()
        if time.monotonic() < self._checked_at + no_older_than_s:
            return
        self._node, _ = claimed_node(self._cluster, self._argument.target)
        self._allowed(self._argument.target.identity, self._argument.drill)
        node = self._node
        self._checked_at = time.monotonic()
        if SKIP_ANNOTATION in annotations(node):
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"Node {self._name} carries {SKIP_ANNOTATION} now: nothing more is evicted. Remove it and press "
                "`resume`, or press `release`.",
            )
        # Those that it had when it was identified were decided on then.
        identity = self._argument.target.identity
        if others := set(foreign_owners(node, identity.kind)) - set(identity.foreign_owners):
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"Another controller acts on Node {self._name} now: {'; '.join(sorted(others))}. Two do not drain one "
                "node: nothing more is evicted. Let it finish and press `abort`, or stop it and press `resume`.",
            )
        self._grace = None if is_ready(node) else _GONE_KUBELET_GRACE_S

    def _see_its_causes(self) -> None:
        """Before anything is evicted, by this try or one before it: is it still so (D31)?"""
        if not self._progress.count and (over := why_over(self._argument.causes, self._node)):
            raise failure(
                ErrorType.EVIDENCE_OVER,
                f"What was found on Node {self._name} holds no more: {over}. Nothing was evicted.",
            )

    def _evict(self, due: list[Filtered]) -> None:
        if not due or self._evictions.closed_for_s() > 0:
            return
        self._check()
        try:
            self._evictions.ask(due, self._grace, before_each=self._check, answer=self._take)
        finally:
            self._show()

    def _take(self, pod: Filtered, answer: Took | Refusal) -> None:
        match answer:
            case Took.EVICTED:
                self._progress.evicted[pod.uid] = pod.name
                self._progress.refused.pop(pod.uid, None)
            case Took.GONE:
                self._progress.refused.pop(pod.uid, None)
            case Refusal():
                self._progress.refuse(pod.uid, answer)
                if answer.permanent and self._argument.escalation in _ASKS:
                    raise failure(ErrorType.DRAIN_BLOCKED, self._two_budgets(pod))
            case Took.LOOK_AGAIN:
                pass

    def _resort(self, left: list[Filtered], limits: Limits) -> Resort:
        decided = resort(left, limits, self._argument.escalation, _now())
        if decided is Resort.ASK_HUMAN:
            raise failure(ErrorType.DRAIN_BLOCKED, blockers.overdue(left, self._progress, self._budgets))
        if decided is Resort.DELETE:
            for pod in next_wave(left, _now(), self._progress.held):
                if pod.uid in self._progress.refused and pod.uid not in self._progress.deleted:
                    self._check()
                    why = blockers.why_left(pod, self._progress, self._budgets)
                    self._delete(pod, why)
        return decided

    def _delete(self, pod: Filtered, why: str) -> None:
        # Told before it is done: the record of a worker that dies here would not know of it.
        self._cluster.record_event(
            self._node,
            "NodemendDeletesPod",
            f"Deleting {pod.name}, as the policy says (drain_escalation: delete): {why}.",
            key=f"deletes-{pod.uid}",
            warning=True,
        )
        if self._cluster.delete_pod(pod.pod):
            self._progress.deleted[pod.uid] = f"{pod.name} ({why})"

    def _two_budgets(self, pod: Filtered) -> str:
        return (
            f"{pod.name} is covered by more than one PodDisruptionBudget "
            f"({', '.join(self._budgets.overlapping(pod))}), which Kubernetes refuses to evict. Make their selectors "
            "disjoint and press `resume`."
        )

    # --- the volumes ------------------------------------------------------------------------------------------------

    def _await_volumes(self, staying: list[Filtered], abandoned: list[Filtered]) -> tuple[str, ...]:
        """Wait until the node's volumes are detached. What is returned is left to the end of the instance."""
        leaves = self._argument.escalation is DrainEscalation.TERMINATE_INSTANCE
        since = datetime.fromisoformat(self._earlier.get("emptied_at") or _now().isoformat())
        end = since + self._argument.detach_deadline
        kept = [pod.pod for pod in (*staying, *abandoned)]
        while held := held_volumes(self._cluster, self._name, kept):
            if overdue(end):
                if leaves:
                    break
                raise failure(
                    ErrorType.DRAIN_BLOCKED,
                    f"The pods are gone, and volumes are still attached: {blockers.listed(held)}. Were the instance to "
                    "end now, what is not written yet could be lost and their next pods could not start. See to the "
                    "attacher, and press `resume`; or set drain_escalation: terminate-instance.",
                )
            self._show(waiting_total=len(held), waiting=held[:LIST_MAX], emptied_at=since.isoformat())
            self._check(_CHECK_IDLE_S)
            pause(_VOLUMES_EVERY_S)
        return held

    # --- what people see --------------------------------------------------------------------------------------------

    def _show(self, **news: Any) -> None:
        """In *Pending Activities*, where the next try finds it if this worker goes away."""
        done = {"evicted": self._progress.count, "deleted": dict(self._progress.deleted)}
        self._details = {**self._details, **done, **news}
        report_progress(self._details)

    def _drained(self, staying: list[Filtered], abandoned: list[Filtered], volumes: tuple[str, ...]) -> Drained:
        # A pod that has ended and waits to be removed stays with nobody.
        stay = [pod for pod in staying if "deletionTimestamp" not in pod.pod["metadata"]]
        progress = self._progress
        left = [f"{pod.name} ({blockers.why_left(pod, progress, self._budgets)})" for pod in abandoned] + list(volumes)
        deleted = sorted(progress.deleted.values())
        return Drained(
            evicted=progress.count,
            pods=tuple(sorted(progress.evicted.values())[:LIST_MAX]),
            left=tuple(f"{pod.name} ({pod.why})" for pod in stay[:LIST_MAX]),
            left_total=len(stay),
            blocked_by=tuple(sorted(progress.budgets)),
            deleted=tuple(deleted[:LIST_MAX]),
            deleted_total=len(deleted),
            abandoned=tuple(left[:LIST_MAX]),
            abandoned_total=len(left),
        )

    # --- what is looked up ------------------------------------------------------------------------------------------

    def _look_for_daemon_set(self, *key: str) -> bool:
        if not key:
            return False
        namespace, name, uid = key
        found = self._cluster.daemon_set(namespace, name)
        return found is not None and found["metadata"]["uid"] == uid

    def _look_for_opt_out(self, namespace: str) -> bool:
        found = self._cluster.namespace(namespace)
        return found is not None and SKIP_ANNOTATION in annotations(found)


class _Recently:
    """Remembers an answer for a moment."""

    def __init__(self, look: Callable[..., bool], keep_s: float) -> None:
        self._look = look
        self._keep_s = keep_s
        self._known: dict[tuple[str, ...], tuple[float, bool]] = {}

    def __call__(self, *key: str) -> bool:
        looked_at, answer = self._known.get(key, (-self._keep_s, False))
        if time.monotonic() >= looked_at + self._keep_s:
            answer = self._look(*key)
            self._known[key] = time.monotonic(), answer
        return answer


_ASKS: Final = (DrainEscalation.WAIT, DrainEscalation.NEEDS_HUMAN)


def _left(pods: list[Filtered]) -> list[Filtered]:
    return [pod for pod in pods if pod.verdict is not Verdict.STAYS]


def _refuse_forbidden(pods: list[Filtered]) -> None:
    if refused := [pod for pod in pods if pod.verdict is Verdict.FORBIDDEN]:
        raise failure(ErrorType.DRAIN_FORBIDDEN, blockers.forbidden(refused))


def _daemon_set_key(pod: Json) -> tuple[str, ...]:
    """Of the DaemonSet that controls a pod; empty where none does."""
    owner = controller_of(pod)
    if owner is None or owner["kind"] != "DaemonSet":
        return ()
    return pod["metadata"]["namespace"], owner["name"], owner["uid"]


def _now() -> datetime:
    return datetime.now(UTC)
