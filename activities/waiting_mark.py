"""A soft taint on a node whose quarantine has to wait: the scheduler avoids it where it can, and nothing is lost.

``PreferNoSchedule`` takes no capacity away, so it needs no permit. `quarantine_node` turns it into ``NoSchedule``.
"""

import logging
from typing import Final

from temporalio.exceptions import ApplicationError

from activities.claim import annotations, conditional, read_owner
from activities.cluster import Cluster, Json, retry_on_conflict
from contract.names import QUARANTINE_TAINT, SKIP_ANNOTATION

_log = logging.getLogger(__name__)
_SOFT: Final = "PreferNoSchedule"


class WaitingMark:
    """Puts the mark on and takes it off, by the node's name and uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def put(self, name: str, uid: str) -> None:
        """Mark the node. What cannot be marked now is tried again with the next ask: waiting must not fail for it."""
        try:
            retry_on_conflict(lambda: self._put(name, uid))
        except ApplicationError as error:
            _log.warning("Node %s could not be marked as waiting for its quarantine: %s", name, error)

    def take(self, name: str, uid: str) -> None:
        """Take the mark away, if it is there.

        Raises:
            ApplicationError: the API's refusals, or ``Conflict`` while somebody changes the node all the time.
        """
        retry_on_conflict(lambda: self._take(name, uid))

    def _put(self, name: str, uid: str) -> None:
        node = self._node(name, uid)
        if node is None or SKIP_ANNOTATION in annotations(node) or read_owner(node) or _ours(node):
            return
        taint = {"key": QUARANTINE_TAINT, "value": "waiting", "effect": _SOFT}
        self._cluster.patch_node(name, conditional(node, {}, taints=[*node["spec"].get("taints", []), taint]))

    def _take(self, name: str, uid: str) -> None:
        node = self._node(name, uid)
        if node is None or not (ours := _ours(node)):
            return
        others = [taint for taint in node["spec"]["taints"] if taint not in ours]
        self._cluster.patch_node(name, conditional(node, {}, taints=others or None))

    def _node(self, name: str, uid: str) -> Json | None:
        node = self._cluster.node(name) if uid else None
        return node if node and node["metadata"]["uid"] == uid else None


def _ours(node: Json) -> list[Json]:
    return [
        taint
        for taint in node["spec"].get("taints", [])
        if taint["key"] == QUARANTINE_TAINT and taint["effect"] == _SOFT
    ]
