"""Which detectors have fallen silent: each renews a Lease in our namespace every few minutes (``detector.node_side``).

Looked at now and then rather than watched: half an hour of silence is what matters, and a fleet of ten thousand
renews fifty Leases a second.
"""

from typing import Final

from contract.names import DETECTOR_LEASE_PREFIX
from detector.cluster.api import Api
from detector.cluster.view import seconds

SILENT_AFTER: Final = 3
"""Durations of its Lease."""


class Heartbeats:
    """When each detector's Lease was seen to change; clocks of nodes are not compared with ours."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float, float]] = {}
        """By node: renewal as written, when that was seen here, and how long it holds."""

    def look(self, api: Api, namespace: str, now: float) -> None:
        """Read all Leases.

        Raises:
            Trouble: the API server cannot be reached or refuses.
        """
        found: dict[str, tuple[str, float, float]] = {}
        for page in api.pages("leases", namespace):
            for lease in page["items"]:
                name = lease["metadata"]["name"]
                if name.startswith(DETECTOR_LEASE_PREFIX):
                    spec = lease["spec"]
                    node = str(spec.get("holderIdentity") or name.removeprefix(DETECTOR_LEASE_PREFIX))
                    found[node] = self._take(
                        node, str(spec.get("renewTime") or ""), float(spec.get("leaseDurationSeconds") or 600), now
                    )
        self._seen = found

    def _take(self, node: str, renewed: str, duration: float, now: float) -> tuple[str, float, float]:
        known = self._seen.get(node)
        if known is None:
            # All that there is to go by at first: what the node wrote.
            return renewed, min(seconds(renewed), now), duration
        return (renewed, now, duration) if renewed != known[0] else (renewed, known[1], duration)

    def silent(self, now: float) -> dict[str, float]:
        """Nodes whose detector is silent, with the time of its last renewal."""
        return {
            node: seconds(renewed)
            for node, (renewed, seen, duration) in self._seen.items()
            if now - seen > SILENT_AFTER * duration
        }

    @property
    def known(self) -> int:
        """How many detectors there are."""
        return len(self._seen)
