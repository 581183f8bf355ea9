"""Volumes are detached before the instance may end: real VolumeAttachments on the real API server."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes import client

from contract.names import ErrorType
from contract.policy import DrainEscalation
from deploy.local.scene import NodeGroup, create_daemonset, running_pods, wait_for
from tests.acting import Acting, meanwhile, refusal
from tests.draining.scene import MERGE, drain, says, unmanaged
from workflows import sentences

ATTACHER = "ebs.csi.example.com"
Attach = Callable[[str, str], str]


@pytest.fixture
def attach(acting: Acting) -> Iterator[Attach]:
    """Attach a PersistentVolume to a node, as the attach-detach controller does; what is left goes at the end."""
    storage: Any = client.StorageV1Api(acting.core.api_client)
    made: list[str] = []

    def make(volume: str, node: str) -> str:
        made.append(f"csi-{uuid.uuid4().hex[:8]}")
        storage.create_volume_attachment(
            {
                "metadata": {"name": made[-1]},
                "spec": {"attacher": ATTACHER, "nodeName": node, "source": {"persistentVolumeName": volume}},
            }
        )
        return made[-1]

    yield make
    there = {one.metadata.name for one in storage.list_volume_attachment().items}
    for name in there & set(made):
        storage.delete_volume_attachment(name)


def detach(acting: Acting, attachment: str) -> None:
    client.StorageV1Api(acting.core.api_client).delete_volume_attachment(attachment)


def test_volume_is_waited_for_and_named_until_it_is_detached(
    acting: Acting, group: NodeGroup, namespace: str, attach: Attach
) -> None:
    node, other = group.nodes
    unmanaged(acting, node, namespace, "p")
    attachment = attach("pv-1", node)
    attach("pv-2", other)

    def let_go() -> None:
        says(acting, f"PersistentVolume pv-1 (attached: VolumeAttachment {attachment} of {ATTACHER})")
        assert acting.cluster.pods_on(node) == []
        assert not any("pv-2" in str(beat) for beat in acting.heartbeats)
        detach(acting, attachment)

    with meanwhile(let_go):
        done = drain(acting, acting.claim(node), evict_unmanaged_pods=True)
    assert (done.evicted, done.abandoned_total) == (1, 0)


def test_volume_that_is_not_detached_in_time_asks_a_human_with_what_its_attacher_says(
    acting: Acting, group: NodeGroup, attach: Attach
) -> None:
    attachment = attach("pv-1", group.nodes[0])
    client.StorageV1Api(acting.core.api_client).patch_volume_attachment_status(
        attachment,
        {"status": {"attached": True, "detachError": {"message": "volume is busy"}}},
        _content_type=MERGE,
    )
    target = acting.claim(group.nodes[0])
    kind, message = refusal(lambda: drain(acting, target, detach_deadline=timedelta(seconds=0.5)))
    assert kind == ErrorType.DRAIN_BLOCKED
    assert f"pv-1 (attached: VolumeAttachment {attachment} of {ATTACHER}, which says: volume is busy)" in message
    assert "terminate-instance" in message


def test_terminate_instance_leaves_the_volume_to_the_end_of_the_instance_and_names_it(
    acting: Acting, group: NodeGroup, attach: Attach
) -> None:
    attach("pv-1", group.nodes[0])
    done = drain(
        acting,
        acting.claim(group.nodes[0]),
        detach_deadline=timedelta(seconds=0.5),
        escalation=DrainEscalation.TERMINATE_INSTANCE,
    )
    assert done.abandoned_total == 1
    assert "Left to the end of the instance: PersistentVolume pv-1" in sentences.drained(done)


def test_d28_deadline_for_volumes_is_not_begun_anew_by_another_worker(
    acting: Acting, group: NodeGroup, attach: Attach
) -> None:
    attach("pv-1", group.nodes[0])
    earlier = {"evicted": 2, "emptied_at": (datetime.now(UTC) - timedelta(hours=1)).isoformat()}
    target = acting.claim(group.nodes[0])
    kind, _ = refusal(lambda: drain(acting, target, details=[earlier], detach_deadline=timedelta(minutes=59)))
    assert kind == ErrorType.DRAIN_BLOCKED


def test_volume_of_a_pod_that_stays_by_right_stays_with_it(
    acting: Acting, group: NodeGroup, namespace: str, attach: Attach
) -> None:
    node = group.nodes[0]
    volume = f"pv-{uuid.uuid4().hex[:8]}"
    claim_and_volume(acting, namespace, "cache", volume)
    create_daemonset(acting.stack, "agent", namespace=namespace, group=group.name)
    apps: Any = client.AppsV1Api(acting.core.api_client)
    volumes = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]
    apps.patch_namespaced_daemon_set("agent", namespace, {"spec": {"template": {"spec": {"volumes": volumes}}}})

    def with_volume() -> bool:
        pods = running_pods(acting.stack, "agent", namespace)
        return len(pods) == 2 and all(any(v.name == "cache" for v in pod.spec.volumes or []) for pod in pods)

    wait_for(with_volume, "the DaemonSet with its volume")
    attach(volume, node)
    # Of nobody who stays: what the drain waits for beside it.
    done = drain(acting, acting.claim(node), detach_deadline=timedelta(seconds=0.5))
    assert (done.left_total, done.abandoned_total) == (1, 0)
    core: Any = acting.core
    core.delete_namespaced_persistent_volume_claim("cache", namespace)
    core.delete_persistent_volume(volume)


def claim_and_volume(acting: Acting, namespace: str, claim: str, volume: str) -> None:
    core: Any = acting.core
    size = {"storage": "1Gi"}
    core.create_persistent_volume(
        {
            "metadata": {"name": volume},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "csi": {"driver": ATTACHER, "volumeHandle": volume},
                "claimRef": {"namespace": namespace, "name": claim},
            },
        }
    )
    core.create_namespaced_persistent_volume_claim(
        namespace,
        {
            "metadata": {"name": claim},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "resources": {"requests": size},
                "volumeName": volume,
            },
        },
    )
    wait_for(
        lambda: core.read_namespaced_persistent_volume_claim(claim, namespace).status.phase == "Bound", "the claim"
    )
