"""What a drain is told, from the policy of its group."""

from collections.abc import Sequence

from contract.acts import Cause, DrainNode
from contract.fault import EvidenceEnd, FaultReport
from contract.identity import Target
from contract.names import ClusterSource
from contract.policy import GroupPolicy
from workflows.step_orders import Deadline


def drain_order(
    target: Target, policy: GroupPolicy, deadline: Deadline, findings: Sequence[FaultReport], *, drill: bool
) -> DrainNode:
    """The argument of ``drain_node`` for the act that starts now; ``findings`` are those that must hold still."""
    return DrainNode(
        target=target,
        evict_unmanaged_pods=policy.evict_unmanaged_pods,
        evict_local_storage_pods=policy.evict_local_storage_pods,
        deadline=deadline.now,
        escalation=policy.drain_escalation,
        detach_deadline=policy.deadlines.detach,
        load_balancers=policy.deadlines.load_balancers,
        causes=tuple(dict.fromkeys(map(_cause, findings))),
        drill=drill,
    )


def _cause(finding: FaultReport) -> Cause:
    if finding.evidence_end is not EvidenceEnd.BOOT:
        return Cause()
    if finding.source == ClusterSource.NOT_READY:
        return Cause(boot_id=finding.boot_id, condition="Ready", bad_status="False")
    if finding.source != ClusterSource.CONDITION:
        return Cause(boot_id=finding.boot_id)
    status = finding.fields.get("condition.status", "")
    return Cause(boot_id=finding.boot_id, condition=finding.condition_type, bad_status=status)
