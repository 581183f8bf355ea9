"""Machines that people replace: nothing is called, and the incident waits for the proof that they did.

The proof is on the new Node, for nothing else can tell it from one that came for another reason: its annotation
``nodemend.io/replaces`` names the incident.
"""

from datetime import UTC, datetime

from activities.claim import annotations
from activities.cluster import Cluster
from activities.machines.kind import Launches
from contract.acts import AwaitReplacement, GroupSurvey, MarkUnhealthy, SurveyGroup
from contract.identity import NodeIdentity
from contract.names import REPLACES_ANNOTATION


class ManualReplacer:
    """What ``activities.machines.kind.Replacer`` asks for, by a human."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def survey(self, argument: SurveyGroup, failed_repairs: int) -> GroupSurvey:  # noqa: ARG002 - the seam's
        """Nothing stands in a human's way that could be seen here."""
        return GroupSurvey(group="a human", desired=0, instances=(), at=datetime.now(UTC))

    def over(self, argument: MarkUnhealthy) -> str:
        """Whether the machine left the cluster already."""
        return "terminated" if self.state(argument.target.identity) == "terminated" else ""

    def replace(self, argument: MarkUnhealthy) -> None:
        """Ask: on the Node, where whoever works on the machine looks."""
        identity, incident = argument.target.identity, argument.target.fence.incident_id
        node = self._cluster.node(identity.node)
        if node is not None:
            self._cluster.record_event(
                node,
                "NodemendReplaceByHand",
                f"Replace this machine ({argument.reason}), annotate the new Node with "
                f"{REPLACES_ANNOTATION}={incident}, and delete this one.",
                key=f"nodemend-by-hand-{argument.target.fence.run_id[:12]}",
                warning=True,
            )

    def launched(self, argument: AwaitReplacement) -> Launches:
        """The Node that says that it is the replacement."""
        incident, old = argument.target.fence.incident_id, argument.target.identity.node_uid
        named = [
            node["spec"].get("providerID", "").rpartition("/")[2]
            for node in self._cluster.nodes()
            if annotations(node).get(REPLACES_ANNOTATION) == incident and node["metadata"]["uid"] != old
        ]
        found = tuple(sorted(filter(None, named)))
        return Launches(found, "" if found else f"a human to annotate a new Node with {REPLACES_ANNOTATION}={incident}")

    def state(self, identity: NodeIdentity) -> str:
        """A machine whose Node is gone is gone, as far as can be seen here."""
        node = self._cluster.node(identity.node)
        return "terminated" if node is None or node["metadata"]["uid"] != identity.node_uid else "there"
