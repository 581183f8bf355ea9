"""Reports that must destroy nothing: each has a stated outcome, and no instance but the reported one is touched."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from contract.names import INSTANCE_TYPE_LABEL, QUARANTINE_TAINT, Outcome, Phase
from deploy.local.scene import create_training_job, is_ready, nodes, wait_for
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import connect, report_about, send, until
from tests.refusing.conftest import Works


@pytest.fixture
def node_by_hand(local_stack: Stack) -> Iterator[Any]:
    """Makes a Node without any Auto Scaling group."""
    made: list[str] = []
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)

        def make(provider_id: str) -> str:
            name = f"by-hand-{uuid.uuid4().hex[:8]}"
            capacity = {"cpu": "8", "memory": "32Gi", "pods": "50"}
            core.create_node(
                {
                    "metadata": {"name": name, "labels": {INSTANCE_TYPE_LABEL: "trn1.32xlarge"}},
                    "spec": {"providerID": provider_id},
                    "status": {"capacity": capacity, "allocatable": capacity},
                }
            )
            made.append(name)
            wait_for(lambda: any(n.metadata.name == name and is_ready(n) for n in nodes(local_stack)), name)
            return name

        yield make
        for name in made:
            core.delete_node(name)


async def test_node_that_is_not_in_the_cluster(local_stack: Stack, worker_for: Works) -> None:
    worker_for(None)
    report = await (await send(await connect(local_stack), report_about(local_stack, "nobody"))).result()
    assert report.outcome is Outcome.NODE_GONE
    assert "There is no Node nobody" in report.summary


async def test_report_about_another_instance_touches_nothing(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    worker_for(group)
    fault = report_about(local_stack, group.nodes[0], instance_id="i-00000000000000bad")
    report = await (await send(await connect(local_stack), fault)).result()
    assert report.outcome is Outcome.STALE
    assert "i-00000000000000bad" in report.summary
    assert not any(node.spec.unschedulable for node in nodes(local_stack, group.name))


@pytest.mark.parametrize(
    ("provider_id", "instance_id", "says"),
    [
        ("kind://docker/local/worker", None, "names no EC2 instance"),
        ("aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa", "i-0aaaaaaaaaaaaaaaa", "in no Auto Scaling group"),
    ],
)
async def test_machine_that_no_group_replaces_is_quarantined_and_explained(
    local_stack: Stack, node_by_hand: Any, worker_for: Works, provider_id: str, instance_id: str | None, says: str
) -> None:
    name = node_by_hand(provider_id)
    worker_for(None)
    handle = await send(await connect(local_stack), report_about(local_stack, name, instance_id=instance_id))
    report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    assert says in report.summary
    (node,) = [n for n in nodes(local_stack) if n.metadata.name == name]
    assert node.spec.unschedulable
    assert QUARANTINE_TAINT in {taint.key for taint in node.spec.taints}
    await handle.signal("release", {"by": "test", "reason": "seen"})
    assert (await handle.result()).outcome is Outcome.RELEASED
    (node,) = [n for n in nodes(local_stack) if n.metadata.name == name]
    assert not node.spec.unschedulable
    assert not [taint for taint in node.spec.taints or [] if taint.key == QUARANTINE_TAINT]


async def test_finding_that_was_dealt_with_starts_nothing_again_and_a_new_one_does(
    local_stack: Stack, node_group: MakeNodeGroup, worker_for: Works
) -> None:
    group = node_group(2)
    worker_for(group, approve_before=["disrupt"])
    temporal = await connect(local_stack)
    fault = report_about(local_stack, group.nodes[0], seq=100)
    handle = await send(temporal, fault)
    await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
    await handle.signal("release", {"by": "test", "reason": "false alarm"})
    assert (await handle.result()).outcome is Outcome.RELEASED

    again = await (await send(temporal, fault)).result()
    assert again.outcome is Outcome.STALE
    assert "dealt with before" in again.summary

    new = await send(temporal, report_about(local_stack, group.nodes[0], seq=101))
    report = await until(new, lambda report: report.phase is Phase.NEEDS_HUMAN)
    assert report.outcome is None
    await new.signal("release", {"by": "test", "reason": "enough"})
    await new.result()


async def test_same_finding_twice_and_another_beside_it_replace_one_instance(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, worker_for: Works
) -> None:
    group = node_group(3)
    create_training_job(local_stack, "train", ranks=2, namespace=namespace, group=group.name)
    worker_for(group)
    terminated = len(local_stack.fleet.terminated)
    temporal = await connect(local_stack)
    fault = report_about(local_stack, group.nodes[0])
    handle = await send(temporal, fault)
    await send(temporal, fault)
    await send(temporal, report_about(local_stack, group.nodes[0], seq=200, signature="another device"))
    report = await handle.result()
    assert report.outcome is Outcome.REPLACED
    assert report.findings_total == 2
    assert local_stack.fleet.terminated[terminated:] == [group.instance_ids[0]]
