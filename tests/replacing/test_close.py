"""The end of the old machine: instance, Node and volumes, in that order; nothing is torn from one that runs (V12)."""

import dataclasses
from datetime import timedelta

from activities.close import CloseActivity
from activities.objects import Objects
from contract.acts import Closed, CloseIncident
from contract.identity import Target
from contract.names import ErrorType
from deploy.local.scene import nodes, wait_for
from tests.acting import Acting, meanwhile, refusal
from tests.conftest import MakeNodeGroup
from tests.replacing.test_await import marked

ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


def close(acting: Acting, target: Target, seconds: float = 30.0) -> Closed:
    argument = CloseIncident(target=target, deadline=timedelta(seconds=seconds))
    made: Closed = acting.do(CloseActivity(acting.cluster, acting.machines).close_incident, argument)
    return made


def test_v12_old_machine_is_gone_when_its_volumes_are_detached(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    objects, name = Objects(acting.admin), f"csi-{group.name}"
    objects.create(
        ATTACHMENTS,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            # As the CSI driver's attacher has it until the volume is off the machine.
            "metadata": {"name": name, "finalizers": ["external-attacher/ebs-csi-aws-com"]},
            "spec": {
                "attacher": "ebs.csi.aws.com",
                "nodeName": group.nodes[0],
                "source": {"persistentVolumeName": f"pv-{group.name}"},
            },
        },
    )
    target, _ = marked(acting, group.nodes[0])

    def detach() -> None:
        wait_for(lambda: any("'volumes': 1" in str(beat) for beat in acting.heartbeats), "the wait for the volume")
        objects.patch(f"{ATTACHMENTS}/{name}", {"metadata": {"finalizers": None}})
        objects.delete(f"{ATTACHMENTS}/{name}")

    with meanwhile(detach):
        assert close(acting, target).node_gone
    assert acting.cluster.node(group.nodes[0]) is None


def test_d23_node_of_a_machine_that_still_runs_is_left_alone(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.terminate_delay_s = 3600.0
    target, _ = marked(acting, group.nodes[0])
    kind, says = refusal(lambda: close(acting, target, seconds=2))
    assert (kind, "is running" in says) == (ErrorType.NO_REPLACEMENT, True)
    assert acting.cluster.node(group.nodes[0]) is not None


def names(acting: Acting, group: str) -> set[str]:
    return {node.metadata.name for node in nodes(acting.stack, group)}


def test_node_that_outlives_its_instance_is_removed_and_no_other(acting: Acting, node_group: MakeNodeGroup) -> None:
    """Where no cloud controller does it. It carries the claim, without which the API server would refuse."""
    group = node_group(2)
    acting.stack.fleet.knobs = dataclasses.replace(acting.stack.fleet.knobs, node_removal_delay_s=3600.0)
    target = acting.claim(group.nodes[0])
    acting.auto_scaling.mark_unhealthy(group.instance_ids[0])
    assert close(acting, target, seconds=60) == Closed(instance_state="terminated", node_gone=True)
    assert group.nodes[0] not in names(acting, group.name)
    assert group.nodes[1] in names(acting, group.name)


def test_node_that_goes_with_its_instance_is_waited_for(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    with meanwhile(lambda: acting.auto_scaling.mark_unhealthy(group.instance_ids[0])):
        assert close(acting, target).node_gone
    assert group.nodes[0] not in names(acting, group.name)
