"""The search for the culprit of a hang: every other node of the complaining node's jobs, looked at once.

The culprit is named, on its own Node and to a human. Where the policy says so, and its own conditions say so too, an
incident of its own is opened for it, which decides by the policy of its own group; nothing is done to it here.
"""

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from temporalio import activity

from activities.accusation import REASON, accusation
from activities.cluster import Cluster, Json
from activities.culprit import against_node, likeliest, signs, suspect
from activities.gang_reader import pods_of
from activities.gangs import Gang, gang_of, is_work
from contract.culprit import CulpritSearch, Suspect
from contract.fault import FaultReport, RemediationRequest, Verdict
from contract.identity import NodeIdentity

_NODES_MAX: Final = 128
"""Two reads each. Of a larger job the first by name are looked at, and the answer says how many."""
_MARKING: Final = "naming the culprit"
_OWN_FAULT: Final = frozenset({Verdict.HARDWARE, Verdict.REPAIRABLE, Verdict.AMBIGUOUS})


class CulpritFinder:
    """Searches for ``identify``."""

    def __init__(
        self, cluster: Cluster, hand_over: Callable[[RemediationRequest, tuple[FaultReport, ...]], str] | None = None
    ) -> None:
        """Without ``hand_over`` nothing is opened."""
        self._cluster = cluster
        self._hand_over = hand_over

    def search(
        self, identity: NodeIdentity, reports: Sequence[FaultReport], *, asks: bool, opens: bool = False
    ) -> CulpritSearch | None:
        """Who made the node's job hang; None where nothing says that one did, or no job spans nodes.

        Args:
            identity: the node that complains.
            reports: its findings.
            asks: whether a human will be asked, so that an Event tells the others of the job to ask no more.
            opens: whether the policy has an incident opened for the culprit, where it is one alone.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``.
        """
        hangs = [report for report in reports if report.verdict is Verdict.ELSEWHERE]
        if not hangs or any(report.verdict in _OWN_FAULT for report in reports):
            return None
        gangs = {gang_of(pod) for pod in self._cluster.pods_on(identity.node) if is_work(pod)}
        spanning = sorted((gang for gang in gangs if gang.gang), key=lambda gang: gang.job)
        moment = min(report.first_seen for report in hangs)
        searches = [self._of(gang, identity.node, moment) for gang in spanning]
        best = next((found for found in searches if found.suspects), searches[0] if searches else None)
        if best is None or not asks or not best.suspects or any(found.incident for found in best.suspects):
            return best
        first = self._mark(best, hangs[0].reason, identity.node)
        if opens and first and (opened := self._open(best, hangs)):
            return best.model_copy(update={"suspects": (opened,)})
        return best.model_copy(update={"others_ask": not first})

    def _of(self, gang: Gang, complaining: str, moment: datetime) -> CulpritSearch:
        ranks: dict[str, list[Json]] = {}
        for pod in pods_of(self._cluster, gang):
            if name := pod["spec"].get("nodeName"):
                ranks.setdefault(name, []).append(pod)
        ranks.pop(complaining, None)
        looked = sorted(ranks)[:_NODES_MAX]
        nodes = {name: self._cluster.node(name) for name in looked}
        now = datetime.now(UTC)
        members = {name: signs(node, self._cluster.node_lease(name), ranks[name], now) for name, node in nodes.items()}
        found = likeliest(members, complaining, moment)
        suspects = tuple(suspect(name, nodes[name], against) for name, against in found)
        return CulpritSearch(job=gang.job, nodes=len(looked), suspects=suspects)

    def _mark(self, found: CulpritSearch, reason: str, complaining: str) -> bool:
        """Say it on the suspects' own Nodes. Returns whether this incident is the first of the job to say so.

        Whoever is tried again may have said it itself: then it asks again, for two questions are better than none.
        """
        first = _MARKING in activity.info().heartbeat_details
        activity.heartbeat(_MARKING)
        for item in found.suspects:
            if node := self._cluster.node(item.node):
                first |= self._tell(node, item, found.job, reason, complaining)
        return first

    def _open(self, found: CulpritSearch, hangs: Sequence[FaultReport]) -> Suspect | None:
        """Open the one suspect's own incident, where its Node still says that something is wrong with it.

        Which of several it is, nobody knows; and that a rank ended there, or a heartbeat is late, is no fault yet.
        """
        accused = found.suspects[0]
        node = self._cluster.node(accused.node)
        if self._hand_over is None or len(found.suspects) != 1 or node is None or not against_node(node):
            return None
        says = _says(accused, found.job, hangs[0].reason, hangs[0].node)
        report = accusation(hangs, found.job, accused, node, says)
        request = RemediationRequest(
            cluster=report.cluster, node=report.node, instance_id=report.instance_id, drill=report.drill
        )
        return accused.model_copy(update={"incident": self._hand_over(request, (report,))})

    def _tell(self, node: Json, item: Suspect, job: str, reason: str, complaining: str) -> bool:
        # An Event lives for an hour, and one name is one Event: so the hundred others of the job find it said.
        key = hashlib.sha256(f"{job}/{reason}".encode()).hexdigest()[:16]
        return self._cluster.record_event(
            node,
            REASON,
            _says(item, job, reason, complaining),
            key=key,
            warning=True,
        )


def _says(accused: Suspect, job: str, reason: str, complaining: str) -> str:
    return (
        f"{job} hangs ({reason}, told by {complaining}), and this node is the likely culprit: "
        f"{'; '.join(accused.evidence)}."
    )
