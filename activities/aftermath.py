"""What became of a node that an incident only decided about: one look, by the Node object alone. It writes nothing."""

from collections.abc import Callable

from temporalio import activity

from activities.cluster import Cluster, Json
from activities.identities import foreign_owners, is_ready
from activities.node_facts import boot_id
from contract.aftermath import Fate, SeeAftermath, Seen
from contract.identity import NodeIdentity
from contract.names import ActivityName
from contract.policy import Mode, Policy


class AftermathActivity:
    """The act ``see_aftermath``."""

    def __init__(self, cluster: Cluster, policy: Callable[[], Policy]) -> None:
        self._cluster = cluster
        self._policy = policy

    @activity.defn(name=ActivityName.SEE_AFTERMATH, no_thread_cancel_exception=True)
    def see_aftermath(self, argument: SeeAftermath) -> Seen:
        """Look at the node, and at what the policy says by now.

        Raises:
            ApplicationError: as the API.
        """
        identity = argument.identity
        fate, explanation = fate_of(self._cluster.node(identity.node), identity)
        rules = self._policy().for_node(identity.group, identity.nodegroup)
        return Seen(fate=fate, explanation=explanation, acts_now=rules.mode is Mode.ACT)


def fate_of(node: Json | None, identity: NodeIdentity) -> tuple[Fate, str]:
    """What a Node says about the machine that stood behind it once, with a sentence. Pure."""
    name = identity.node
    if node is None:
        return Fate.REPLACED, f"Node {name} is gone: somebody else took the machine away."
    provider_id = node["spec"].get("providerID", "")
    if node["metadata"]["uid"] != identity.node_uid or provider_id != identity.provider_id:
        now = provider_id or "one without a provider id"
        return Fate.REPLACED, f"Node {name} is another machine now ({now}): somebody else did that."
    others = foreign_owners(node, identity.kind)
    if others or node["spec"].get("unschedulable", False):
        who = "; ".join(others) or "somebody cordoned it, and nothing on it says who"
        return Fate.CORDONED, f"Node {name} is closed to new work: {who}."
    if not is_ready(node):
        return Fate.STILL_FAILING, f"Node {name} is not Ready."
    if boot_id(node) != identity.boot_id:
        return Fate.REBOOTED, f"Node {name} was rebooted, and is Ready."
    return Fate.RECOVERED, f"Node {name} went on as it was, and is Ready."
