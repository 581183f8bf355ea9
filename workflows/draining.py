"""What a drain is told, from the policy of its group."""

from contract.acts import DrainNode
from contract.identity import Target
from contract.policy import GroupPolicy
from workflows.step_orders import Deadline


def drain_order(target: Target, policy: GroupPolicy, deadline: Deadline, *, drill: bool) -> DrainNode:
    """The argument of ``drain_node`` for the act that starts now."""
    return DrainNode(
        target=target,
        evict_unmanaged_pods=policy.evict_unmanaged_pods,
        evict_local_storage_pods=policy.evict_local_storage_pods,
        deadline=deadline.now,
        escalation=policy.drain_escalation,
        detach_deadline=policy.deadlines.detach,
        load_balancers=policy.deadlines.load_balancers,
        drill=drill,
    )
