"""D31: what a machine was closed for is looked at again right before its first pod is evicted."""

from typing import Any

import pytest

from activities.evidence import why_over
from contract.acts import Cause
from contract.fault import EvidenceEnd
from contract.identity import Fence, Target
from contract.names import ClusterSource, ErrorType
from contract.policy import GroupPolicy
from deploy.local.scene import NodeGroup
from tests.acting import Acting, refusal
from tests.draining.scene import drain, pod, unmanaged
from tests.runbook.world import finding, identity
from workflows.draining import drain_order
from workflows.step_orders import Deadline

SILICON = Cause()
HANG = Cause(boot_id="boot-1")
DEADLOCK = Cause(boot_id="boot-1", condition="KernelDeadlock", bad_status="True")
AWAY = Cause(boot_id="boot-1", condition="Ready", bad_status="False")
EKS = Cause(boot_id="boot-1", condition="AcceleratedHardwareReady", bad_status="False")


def node(boot: str = "boot-1", **conditions: str) -> dict[str, Any]:
    told = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"status": {"nodeInfo": {"bootID": boot}, "conditions": told}}


@pytest.mark.parametrize(
    ("causes", "now", "says"),
    [
        ((), node("boot-2"), ""),
        ((SILICON,), node("boot-2"), ""),
        ((HANG,), node(), ""),
        ((HANG,), node(""), ""),
        ((HANG,), node("boot-2"), "it has booted anew since (boot boot-2, and the fault was of boot boot-1)"),
        ((HANG, SILICON), node("boot-2"), ""),
        ((DEADLOCK,), node(KernelDeadlock="True"), ""),
        ((DEADLOCK,), node(KernelDeadlock="Unknown"), ""),
        ((DEADLOCK,), node(), ""),
        ((DEADLOCK,), node(KernelDeadlock="False"), "its condition KernelDeadlock is False again"),
        ((DEADLOCK, HANG), node(KernelDeadlock="False"), ""),
        # The other polarity (C10).
        ((EKS,), node(AcceleratedHardwareReady="False"), ""),
        ((AWAY,), node(Ready="False"), ""),
        ((AWAY,), node(Ready="Unknown"), ""),
        ((AWAY,), node(Ready="True"), "its condition Ready is True again"),
        ((EKS,), node(AcceleratedHardwareReady="True"), "its condition AcceleratedHardwareReady is True again"),
    ],
)
def test_evidence_is_over_only_when_all_of_it_is_and_somebody_says_so(
    causes: tuple[Cause, ...], now: dict[str, Any], says: str
) -> None:
    assert why_over(causes, now) == says


def test_drain_is_told_what_each_finding_stands_on() -> None:
    cleared = {"source": ClusterSource.CONDITION, "condition_type": "KernelDeadlock"}
    findings = (
        finding(evidence_end=EvidenceEnd.REPLACEMENT),
        finding(evidence_end=EvidenceEnd.BOOT),
        finding(evidence_end=EvidenceEnd.BOOT, fields={"condition.status": "True"}, **cleared),
        finding(evidence_end=EvidenceEnd.BOOT, source=ClusterSource.NOT_READY, condition_type="Ready"),
    )
    target = Target(identity=identity(), fence=Fence(incident_id="i", run_id="r"))
    deadline = Deadline(GroupPolicy().deadlines.drain)
    order = drain_order(target, GroupPolicy(), deadline, findings, drill=False)
    assert order.causes == (SILICON, HANG, DEADLOCK, AWAY)


def test_node_that_booted_anew_while_its_incident_waited_keeps_its_pods(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    target = acting.claim(group.nodes[0])
    causes = (Cause(boot_id="of-before"),)
    kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, causes=causes))
    assert kind == ErrorType.EVIDENCE_OVER
    assert f"holds no more: it has booted anew since (boot {target.identity.boot_id}" in message
    assert pod(acting, namespace, "p").metadata.deletion_timestamp is None
    # A drain that another worker had begun goes on: half a drain helps nobody.
    done = drain(acting, target, details=[{"evicted": 1}], evict_unmanaged_pods=True, causes=causes)
    assert done.evicted == 2
    causes = (Cause(boot_id=target.identity.boot_id),)
    assert drain(acting, target, evict_unmanaged_pods=True, causes=causes).evicted == 0
