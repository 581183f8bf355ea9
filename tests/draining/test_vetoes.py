"""Whoever has a say over the node, or over a pod, and says no while it is being drained, is obeyed (D30, A23)."""

from datetime import timedelta
from typing import Any

import pytest

from activities import managed_groups
from activities.allowed import always, by_policy
from activities.cluster import Json
from activities.drain import DrainActivity
from activities.managed_groups import ManagedGroups
from activities.quarantine import QuarantineActivity
from contract.acts import DrainNode, QuarantineNode
from contract.identity import MachineKind
from contract.names import DO_NOT_DISRUPT_ANNOTATION, OWNER_ANNOTATION, SKIP_ANNOTATION, ErrorType
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import Answer, GroupFinding, ReplacementPolicy
from deploy.local.scene import NodeGroup
from deploy.local.work import STUCK_ANNOTATION
from tests.acting import Acting, meanwhile, refusal
from tests.draining.scene import MERGE, budget, drain, pod, says, unmanaged


def taint(key: str) -> Json:
    return {"key": key, "effect": "NoSchedule", "value": "x"}


def add_taint(acting: Acting, node: str, key: str) -> None:
    found = acting.cluster.node(node)
    assert found
    acting.patch(node, {"spec": {"taints": [*found["spec"].get("taints", []), taint(key)]}})


@pytest.mark.parametrize(
    ("veto", "kind", "says_what"),
    [
        ({"spec": {"unschedulable": None}}, ErrorType.HUMAN_VETO, "uncordoned"),
        ({"metadata": {"annotations": {OWNER_ANNOTATION: None}}}, ErrorType.HUMAN_VETO, "was removed by somebody"),
        ({"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}}, ErrorType.POLICY_FORBIDS, SKIP_ANNOTATION),
        ({"metadata": {"labels": {"karpenter.sh/nodepool": "gpu"}}}, ErrorType.POLICY_FORBIDS, "Karpenter NodePool"),
        ("ToBeDeletedByClusterAutoscaler", ErrorType.POLICY_FORBIDS, "cluster-autoscaler is removing it"),
        ("karpenter.sh/disrupted", ErrorType.POLICY_FORBIDS, "Karpenter is disrupting it"),
        (
            "aws-node-termination-handler/scheduled-maintenance",
            ErrorType.POLICY_FORBIDS,
            "aws-node-termination-handler is draining it",
        ),
        (
            {"metadata": {"labels": {"aws-node-termination-handler/event-id": "reboot-1"}}},
            ErrorType.POLICY_FORBIDS,
            "aws-node-termination-handler is draining it",
        ),
        (
            {
                "status": {
                    "conditions": [{"type": "MaintenanceInProgress", "status": "True", "reason": "FirmwareWindow"}]
                }
            },
            ErrorType.POLICY_FORBIDS,
            "it is under maintenance (condition MaintenanceInProgress, reason FirmwareWindow)",
        ),
    ],
    ids=[
        "uncordoned",
        "claim removed",
        "skip",
        "nodepool",
        "cluster-autoscaler",
        "karpenter",
        "termination handler",
        "termination handler without taints",
        "C17 lifecycle condition",
    ],
)
def test_d30_a23_no_in_mid_drain_stops_it_and_is_stated(
    acting: Acting, group: NodeGroup, namespace: str, veto: Any, kind: ErrorType, says_what: str
) -> None:
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "stuck", annotations={STUCK_ANNOTATION: "yes"})
    # Kept by a budget until after the veto: it must never be asked again.
    unmanaged(acting, node, namespace, "kept", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    target = acting.claim(node)

    def say_no() -> None:
        says(acting, "keep-web")
        if isinstance(veto, str):
            add_taint(acting, node, veto)
        elif "status" in veto:
            acting.core.patch_node_status(node, veto, _content_type="application/strategic-merge-patch+json")
        else:
            acting.patch(node, veto)

    with meanwhile(say_no):
        seen, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True))
    assert seen == kind
    assert says_what in message
    assert pod(acting, namespace, "kept").metadata.deletion_timestamp is None


def test_other_controller_that_was_there_at_the_start_was_decided_on_then(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "p")
    acting.claim(group.nodes[0])
    add_taint(acting, group.nodes[0], "karpenter.sh/disrupted")
    target = acting.target(group.nodes[0], foreign_owners=("Karpenter is disrupting it",))
    assert drain(acting, target, evict_unmanaged_pods=True).evicted == 1


def test_karpenter_that_replaces_the_machine_on_our_behalf_is_no_other_controller(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    node = group.nodes[0]
    acting.patch(node, {"metadata": {"labels": {"karpenter.sh/nodepool": "gpu"}}})
    unmanaged(acting, node, namespace, "p")
    acting.claim(node)
    target = acting.target(node, kind=MachineKind.KARPENTER)
    assert drain(acting, target, evict_unmanaged_pods=True).evicted == 1


def test_a23_eks_repair_that_is_switched_on_in_mid_drain_stops_it(
    acting: Acting, group: NodeGroup, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EKS's answer is a function here: moto knows no node repair (test_reads.py holds the real call to EKS's API)."""
    monkeypatch.setattr(managed_groups, "_LOOK_EVERY_S", 0.0)
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "kept", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    acting.claim(node)
    target = acting.target(node, nodegroup="ng")
    nodegroup: Json = {"nodegroupName": "ng", "status": "ACTIVE", "nodeRepairConfig": {"enabled": False}}
    asking = ReplacementPolicy(answers={GroupFinding.OTHER_REPAIRER: Answer.ASK})
    policy = Policy(default=GroupPolicy(replacement=asking))
    beside_eks = ManagedGroups(always, lambda _: nodegroup, lambda: policy)
    argument = DrainNode(
        target=target, evict_unmanaged_pods=True, evict_local_storage_pods=True, deadline=timedelta(minutes=5)
    )

    def switch_on() -> None:
        says(acting, "keep-web")
        nodegroup["nodeRepairConfig"] = {"enabled": True}

    with meanwhile(switch_on):
        kind, message = refusal(
            lambda: acting.do(DrainActivity(acting.cluster, beside_eks.allowed).drain_node, argument)
        )
    assert kind == ErrorType.POLICY_FORBIDS
    assert "EKS repairs nodes of ng too" in message
    assert pod(acting, namespace, "kept").metadata.deletion_timestamp is None


def test_our_own_markers_are_nobody_elses(acting: Acting, group: NodeGroup) -> None:
    target = acting.claim(group.nodes[0])
    found = acting.cluster.node(group.nodes[0])
    assert found
    assert found["metadata"]["annotations"][DO_NOT_DISRUPT_ANNOTATION] == "true"
    assert drain(acting, target).evicted == 0


@pytest.mark.parametrize("on", ["pod", "namespace"])
def test_pod_that_opts_out_in_mid_drain_is_not_evicted(
    acting: Acting, group: NodeGroup, namespace: str, on: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "kept", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    target = acting.claim(group.nodes[0])
    skip = {"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}}

    def say_no() -> None:
        says(acting, "keep-web")
        if on == "pod":
            acting.core.patch_namespaced_pod("kept", namespace, skip, _content_type=MERGE)
        else:
            acting.core.patch_namespace(namespace, skip, _content_type=MERGE)

    with meanwhile(say_no):
        kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True))
    assert kind == ErrorType.DRAIN_FORBIDDEN
    assert f"{namespace}/kept (it or its namespace carries {SKIP_ANNOTATION})" in message
    assert pod(acting, namespace, "kept").metadata.deletion_timestamp is None


def test_policy_that_is_tightened_in_mid_drain_stops_it_and_closes_no_other_node(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    """DESIGN §3: tightening holds at once, not at the next incident."""
    node = group.nodes[0]
    unmanaged(acting, node, namespace, "stuck", annotations={STUCK_ANNOTATION: "yes"})
    unmanaged(acting, node, namespace, "kept", labels={"kind": "web"})
    budget(acting, namespace, "keep-web", {"matchLabels": {"kind": "web"}})
    policies = [Policy(default=GroupPolicy(mode=Mode.ACT))]
    allowed = by_policy(lambda: policies[-1])
    target = acting.claim(node)
    argument = DrainNode(
        target=target, evict_unmanaged_pods=True, evict_local_storage_pods=True, deadline=timedelta(minutes=5)
    )

    def tighten() -> None:
        says(acting, "keep-web")
        policies.append(Policy(default=GroupPolicy(mode=Mode.OBSERVE)))

    with meanwhile(tighten):
        seen, message = refusal(lambda: acting.do(DrainActivity(acting.cluster, allowed).drain_node, argument))
    assert seen == ErrorType.POLICY_FORBIDS
    assert f"({policies[-1].version}) says observe" in message
    assert pod(acting, namespace, "kept").metadata.deletion_timestamp is None

    closing = QuarantineNode(target=acting.target(group.nodes[1]), rule="r", reason="R")
    kind, _ = refusal(lambda: acting.do(QuarantineActivity(acting.cluster, allowed).quarantine_node, closing))
    assert kind == ErrorType.POLICY_FORBIDS
    other = acting.cluster.node(group.nodes[1])
    assert other
    assert "unschedulable" not in other["spec"]
