"""Whoever holds Temporal's credentials can send a report about any node: without that node's own word it is nothing."""

import pytest
from kubernetes import client

from contract.fault import Verdict
from contract.names import FINDING_DIGESTS_ANNOTATION, QUARANTINE_TAINT, Outcome, Phase, incident_id
from contract.proof import digest
from deploy.local.scene import nodes
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, prove, report_about, send, until
from tests.refusing.conftest import Works

SOON = {"deadlines": {**QUICK_POLICY["deadlines"], "proof": "PT1S"}}


def forget_proof(stack: Stack, node: str) -> None:
    """The Node as it is when its own detector said nothing."""
    with stack.kubernetes.connected() as api:
        client.CoreV1Api(api).patch_node(node, {"metadata": {"annotations": {FINDING_DIGESTS_ANNOTATION: None}}})


def untouched(stack: Stack, node: str) -> bool:
    (found,) = [n for n in nodes(stack) if n.metadata.name == node]
    return not found.spec.unschedulable and QUARANTINE_TAINT not in {t.key for t in found.spec.taints or []}


async def test_report_that_the_node_does_not_confirm_is_refused_and_recorded(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    worker_for(group, **SOON)
    forged = report_about(local_stack, group.nodes[0])
    forget_proof(local_stack, group.nodes[0])
    report = await (await send(await connect(local_stack), forged)).result()
    assert report.outcome is Outcome.REFUSED
    assert FINDING_DIGESTS_ANNOTATION in report.summary
    assert "Nothing was done" in report.summary
    assert untouched(local_stack, group.nodes[0])


@pytest.mark.parametrize(
    "change", [{"verdict": Verdict.HARDWARE}, {"drill": True}, {"seq": 77}, {"boot_id": "another"}, {"source": "other"}]
)
async def test_proof_of_one_finding_proves_no_other(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works, change: dict[str, object]
) -> None:
    """A node that carries a harmless finding does not thereby confirm a grave one made of it."""
    group = node_group(1)
    worker_for(group, drills="act", **SOON)
    true = report_about(local_stack, group.nodes[0], verdict=Verdict.AMBIGUOUS, seq=5)
    report = await (await send(await connect(local_stack), true.model_copy(update=change))).result()
    assert report.outcome is Outcome.REFUSED
    assert untouched(local_stack, group.nodes[0])


async def test_finding_that_joins_counts_once_its_node_confirms_it(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    """An ambiguous fault waits for a human; a forged grave one must not decide in the human's place."""
    group = node_group(2)
    worker_for(group, approve_before=["disrupt"], **SOON)
    temporal = await connect(local_stack)
    mild = report_about(local_stack, group.nodes[0], verdict=Verdict.AMBIGUOUS, signature="mild", seq=5)
    handle = await send(temporal, mild)
    await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    forged = mild.model_copy(update={"verdict": Verdict.HARDWARE, "signature": "grave", "seq": 6})
    await send(temporal, forged)
    report = await until(handle, lambda report: any("left out" in note for note in report.notes))
    assert [finding.signature for finding in report.findings] == ["mild"]
    assert report.plan is not None
    assert report.plan.rung == "quarantine"

    # The same words from the node itself are another matter. They wait half a minute: rounds have a pause.
    real = forged.model_copy(update={"seq": 7})
    prove(local_stack, real)
    await send(temporal, real)
    report = await until(handle, lambda report: report.plan is not None and report.plan.rung == "replace", 90.0)
    assert {finding.signature for finding in report.findings} == {"mild", "grave"}
    await handle.signal("release", {"by": "test", "reason": "seen"})
    await handle.result()


async def test_real_finding_is_not_kept_waiting_by_a_forged_one_before_it(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(1)
    worker_for(group, approve_before=["disrupt"])
    temporal = await connect(local_stack)
    forged = report_about(local_stack, group.nodes[0], seq=900, signature="forged")
    forget_proof(local_stack, group.nodes[0])
    handle = await send(temporal, forged)
    real = report_about(local_stack, group.nodes[0], seq=5)
    await send(temporal, real)
    report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    assert real.signature in {finding.signature for finding in report.findings}
    assert "forged" not in {finding.signature for finding in report.findings}
    await handle.signal("release", {"by": "test", "reason": "seen"})
    await handle.result()


async def test_detector_that_does_not_know_its_machine_starts_no_second_incident(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(1)
    worker_for(group, approve_before=["disrupt"])
    temporal = await connect(local_stack)
    nameless = report_about(local_stack, group.nodes[0], instance_id=None)
    first = await (await send(temporal, nameless)).result()
    right = incident_id(nameless.cluster, nameless.node, group.instance_ids[0])
    assert first.outcome is Outcome.STALE
    assert right in first.summary
    handle = temporal.get_workflow_handle(right)
    report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)  # type: ignore[arg-type]
    assert {digest(finding) for finding in report.findings} == {digest(nameless)}
    await handle.signal("release", {"by": "test", "reason": "seen"})
    await handle.result()
