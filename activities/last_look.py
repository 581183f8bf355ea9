"""The last look before a machine is disturbed or given up: policy, claim, identity and veto, as they are now."""

from collections.abc import Callable

from activities.allowed import by_policy
from activities.claim import annotations, claimed_node
from activities.cluster import Cluster
from activities.errors import failure
from contract.identity import Target
from contract.names import SKIP_ANNOTATION, ErrorType
from contract.policy import Policy


class LastLook:
    """Looks whether a machine may still be touched."""

    def __init__(self, cluster: Cluster, policy: Callable[[], Policy]) -> None:
        self._cluster = cluster
        self._allowed = by_policy(policy)

    def __call__(self, target: Target, *, drill: bool) -> str:
        """Look, and return the version of the policy that allows it.

        Raises:
            ApplicationError: why it may not be touched; then nothing was done.
        """
        identity = target.identity
        version = self._allowed(identity, drill)
        node, _ = claimed_node(self._cluster, target)
        if node["spec"].get("providerID", "") != identity.provider_id:
            raise failure(
                ErrorType.WRONG_INSTANCE,
                f"Node {identity.node} is {node['spec'].get('providerID')} now, and was {identity.provider_id}.",
            )
        if SKIP_ANNOTATION in annotations(node):
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"Node {identity.node} carries {SKIP_ANNOTATION} now. Remove it and press `resume`, or `release`.",
            )
        return version
