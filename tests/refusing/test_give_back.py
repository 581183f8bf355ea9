"""Given back is given back: at every place where an incident can be released, the node is as it was before (D32)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from temporalio.client import WorkflowHandle

from contract.incident import IncidentReport
from contract.names import (
    DO_NOT_DISRUPT_ANNOTATION,
    FINDING_DIGESTS_ANNOTATION,
    HANDLED_ANNOTATION,
    INCIDENT_LABEL,
    NO_LOAD_BALANCER_LABEL,
    OWNER_ANNOTATION,
    QUARANTINE_TAINT,
    SCALE_DOWN_DISABLED_ANNOTATION,
    ActivityName,
    Outcome,
    Phase,
)
from deploy.local.scene import add_pod, nodes
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, until, write_policy
from tests.refusing.conftest import Works

NOT_OF_THE_INCIDENT = (HANDLED_ANNOTATION, FINDING_DIGESTS_ANNOTATION)
"""What the incident leaves on purpose, and what the node's detector says."""
OTHERS = {
    "metadata": {
        "labels": {"example.com/rack": "7"},
        "annotations": {"example.com/note": "mine", SCALE_DOWN_DISABLED_ANNOTATION: "false"},
    },
    "spec": {"taints": [{"key": "example.com/mine", "value": "x", "effect": "PreferNoSchedule"}]},
}


def as_others_left_it(stack: Stack, name: str) -> dict[str, Any]:
    """What is not ours to change, and what is ours and must be gone."""
    (node,) = [n for n in nodes(stack) if n.metadata.name == name]
    annotations = {k: v for k, v in (node.metadata.annotations or {}).items() if k not in NOT_OF_THE_INCIDENT}
    # The control plane's own, which come and go with the node's heartbeat.
    annotations = {k: v for k, v in annotations.items() if not k.startswith(("node.alpha", "volumes.", "kwok"))}
    taints = {(t.key, t.value, t.effect) for t in node.spec.taints or [] if not t.key.startswith("node.kubernetes.io")}
    return {
        "labels": dict(node.metadata.labels),
        "annotations": annotations,
        "taints": taints,
        "unschedulable": bool(node.spec.unschedulable),
    }


@pytest.mark.parametrize("place", ["disrupt gate", "forbidden drain", "suspended process", "replace gate"])
async def test_released_node_is_exactly_as_it_was(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, worker_for: Works, place: str
) -> None:
    group = node_group(2)
    name = group.nodes[0]
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.patch_node(name, OTHERS, _content_type="application/merge-patch+json")
    before = as_others_left_it(local_stack, name)
    gates = {"disrupt gate": ["disrupt"], "replace gate": ["replace"]}.get(place, [])
    if place == "forbidden drain":
        add_pod(local_stack, "alone", node=name, namespace=namespace)
    if place == "suspended process":
        local_stack.aws.client("autoscaling").suspend_processes(
            AutoScalingGroupName=group.name, ScalingProcesses=["Launch"]
        )
    worker_for(group, approve_before=gates)
    handle = await send(await connect(local_stack), report_about(local_stack, name))
    await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    held = as_others_left_it(local_stack, name)
    assert held["unschedulable"]
    assert (
        held["annotations"][DO_NOT_DISRUPT_ANNOTATION] == held["annotations"][SCALE_DOWN_DISABLED_ANNOTATION] == "true"
    )

    await handle.signal("release", {"by": "test", "reason": "seen"})
    report = await handle.result()

    assert report.outcome is Outcome.RELEASED
    assert as_others_left_it(local_stack, name) == before
    assert group.instance_ids[0] not in local_stack.fleet.terminated


BEFORE_THE_POINT_OF_NO_RETURN = [
    # It closes the node too, where the fleet can spare it.
    ActivityName.IDENTIFY_NODE,
    ActivityName.PRESERVE_EVIDENCE,
    ActivityName.SURVEY_GROUP,
    ActivityName.FIND_JOBS,
    ActivityName.DRAIN_NODE,
]


async def halted(handle: WorkflowHandle[Any, IncidentReport], act: ActivityName) -> None:
    """Wait until the worker halts behind an act."""
    async with asyncio.timeout(60):
        while True:
            described = await handle.describe()
            for pending in described.raw_description.pending_activities:
                details = await described.data_converter.decode(pending.heartbeat_details.payloads)
                if pending.activity_type.name == act and details and "halted" in details[0]:
                    return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("press", ["release", "abort"])
@pytest.mark.parametrize("act", BEFORE_THE_POINT_OF_NO_RETURN)
async def test_d32_whatever_was_done_last_release_undoes_it_all_and_abort_only_leaves_what_is_ours(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path, press: str, act: ActivityName
) -> None:
    group = node_group(2)
    name = group.nodes[0]
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.patch_node(name, OTHERS, _content_type="application/merge-patch+json")
    before = as_others_left_it(local_stack, name)
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: QUICK_POLICY})
    with running_worker(
        local_stack, policy, tmp_path, module="tests.refusing.halting_worker", TEST_HALT_AFTER=str(act)
    ):
        handle = await send(await connect(local_stack), report_about(local_stack, name))
        await halted(handle, act)
        if act is ActivityName.DRAIN_NODE:
            assert as_others_left_it(local_stack, name)["labels"][NO_LOAD_BALANCER_LABEL] == "true"
        await handle.signal(press, {"by": "test", "reason": "seen"})
        report = await handle.result()

    after = as_others_left_it(local_stack, name)
    assert group.instance_ids[0] not in local_stack.fleet.terminated
    if press == "release":
        assert report.outcome is Outcome.RELEASED
        assert after == before
    else:
        assert report.outcome is Outcome.ABORTED
        assert after["unschedulable"]
        assert without_ours(after) == without_ours(before)


def without_ours(node: dict[str, Any]) -> dict[str, Any]:
    """What others have on a node."""
    labels = {k: v for k, v in node["labels"].items() if k not in (INCIDENT_LABEL, NO_LOAD_BALANCER_LABEL)}
    ours = (OWNER_ANNOTATION, DO_NOT_DISRUPT_ANNOTATION, SCALE_DOWN_DISABLED_ANNOTATION)
    annotations = {k: v for k, v in node["annotations"].items() if k not in ours}
    return {
        "labels": labels,
        "annotations": annotations,
        "taints": {t for t in node["taints"] if t[0] != QUARANTINE_TAINT},
    }
