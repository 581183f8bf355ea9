"""The fleet plays Auto Scaling, machines and cloud controller: what it does, and what it leaves when told not to."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from contract.names import STARTUP_TAINT
from deploy.local.scene import NodeGroup, instances, is_ready, nodes, wait_for
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup

NEURON = "aws.amazon.com/neuron"


@pytest.fixture
def auto_scaling(local_stack: Stack) -> Iterator[Any]:
    service = local_stack.aws.client("autoscaling")
    yield service
    service.close()


def mark_unhealthy(auto_scaling: Any, instance_id: str) -> None:
    auto_scaling.set_instance_health(InstanceId=instance_id, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False)


def ids(stack: Stack, group: NodeGroup) -> set[str]:
    return {instance["InstanceId"] for instance in instances(stack, group.name)}


def desired(auto_scaling: Any, group: NodeGroup) -> int:
    (found,) = auto_scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group.name])["AutoScalingGroups"]
    return int(found["DesiredCapacity"])


def launched_into(stack: Stack, group: NodeGroup) -> set[str]:
    return ids(stack, group) - set(group.instance_ids)


def some_turns(stack: Stack) -> None:
    """Let the fleet look at the world twice, so that what it would do is done."""
    seen = stack.fleet.turns
    wait_for(lambda: stack.fleet.turns >= seen + 2, "the fleet's next turns")


def new_node(stack: Stack, group: NodeGroup) -> Any:
    return next((node for node in nodes(stack, group.name) if node.metadata.name not in group.nodes), None)


def test_an_unhealthy_instance_is_replaced_once_in_its_zone(
    local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any
) -> None:
    group = node_group(3)
    before = {node.metadata.name: node for node in nodes(local_stack, group.name)}
    failing, victim = group.nodes[0], group.instance_ids[0]
    mark_unhealthy(auto_scaling, victim)

    def replaced() -> bool:
        new = new_node(local_stack, group)
        return new is not None and is_ready(new) and NEURON in new.status.allocatable

    wait_for(replaced, "the replacement to be Ready with its devices")
    wait_for(lambda: len(nodes(local_stack, group.name)) == 3, "the old Node to go")
    some_turns(local_stack)
    new = new_node(local_stack, group)
    assert failing not in {node.metadata.name for node in nodes(local_stack, group.name)}
    assert launched_into(local_stack, group) == {new.spec.provider_id.rpartition("/")[2]}
    assert victim in local_stack.fleet.terminated
    assert len(ids(local_stack, group)) == desired(auto_scaling, group) == 3
    assert (
        new.metadata.labels["topology.kubernetes.io/zone"]
        == before[failing].metadata.labels["topology.kubernetes.io/zone"]
    )
    assert new.status.allocatable[NEURON] == "16"
    assert [(taint.key, taint.effect) for taint in new.spec.taints] == [(STARTUP_TAINT, "NoSchedule")]
    assert new.status.node_info.boot_id not in {node.status.node_info.boot_id for node in before.values()}


@pytest.mark.parametrize("process", ["ReplaceUnhealthy", "Terminate"])
def test_a_suspended_process_leaves_the_instance(
    local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any, process: str
) -> None:
    group = node_group(1)
    auto_scaling.suspend_processes(AutoScalingGroupName=group.name, ScalingProcesses=[process])
    mark_unhealthy(auto_scaling, group.instance_ids[0])
    some_turns(local_stack)
    assert ids(local_stack, group) == set(group.instance_ids)
    auto_scaling.resume_processes(AutoScalingGroupName=group.name, ScalingProcesses=[process])
    wait_for(lambda: len(launched_into(local_stack, group)) == 1, "the replacement after all")


def test_a_suspended_launch_leaves_the_group_short(
    local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any
) -> None:
    group = node_group(2)
    auto_scaling.suspend_processes(AutoScalingGroupName=group.name, ScalingProcesses=["Launch"])
    mark_unhealthy(auto_scaling, group.instance_ids[0])
    wait_for(lambda: ids(local_stack, group) == {group.instance_ids[1]}, "the termination")
    some_turns(local_stack)
    assert ids(local_stack, group) == {group.instance_ids[1]}
    assert desired(auto_scaling, group) == 2


def test_launches_fail_on_demand_and_the_wish_stays(
    local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any
) -> None:
    group = node_group(1)
    local_stack.fleet.knobs.fail_launches = True
    mark_unhealthy(auto_scaling, group.instance_ids[0])
    wait_for(lambda: not ids(local_stack, group), "the termination")
    some_turns(local_stack)
    assert not ids(local_stack, group)
    assert desired(auto_scaling, group) == 1
    local_stack.fleet.knobs.fail_launches = 2
    wait_for(lambda: len(ids(local_stack, group)) == 1, "the launch after two that failed")
    assert local_stack.fleet.knobs.fail_launches == 0


def test_a_machine_may_never_join_or_join_without_its_devices(
    local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any
) -> None:
    group = node_group(1)
    local_stack.fleet.knobs.register_nodes = False
    local_stack.fleet.knobs.devices_on_launch = 15
    mark_unhealthy(auto_scaling, group.instance_ids[0])
    wait_for(lambda: not nodes(local_stack, group.name) and bool(launched_into(local_stack, group)), "the launch")
    some_turns(local_stack)
    assert nodes(local_stack, group.name) == []
    local_stack.fleet.knobs.register_nodes = True
    wait_for(
        lambda: bool(found := nodes(local_stack, group.name)) and found[0].status.allocatable.get(NEURON) == "15",
        "a node with fifteen devices",
    )


def test_what_others_terminate_is_noticed(local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any) -> None:
    group = node_group(2)
    ec2 = local_stack.aws.client("ec2")
    ec2.terminate_instances(InstanceIds=[group.instance_ids[0]])
    ec2.close()
    auto_scaling.terminate_instance_in_auto_scaling_group(
        InstanceId=group.instance_ids[1], ShouldDecrementDesiredCapacity=True
    )
    wait_for(lambda: len(launched_into(local_stack, group)) == 1, "the one replacement")
    wait_for(
        lambda: len(found := nodes(local_stack, group.name)) == 1 and found[0].metadata.name not in group.nodes,
        "the old Nodes to go and the new one to come",
    )
    assert desired(auto_scaling, group) == 1


def test_a_detached_instance_keeps_its_node(local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any) -> None:
    group = node_group(1)
    auto_scaling.detach_instances(
        AutoScalingGroupName=group.name, InstanceIds=[group.instance_ids[0]], ShouldDecrementDesiredCapacity=False
    )
    wait_for(lambda: len(launched_into(local_stack, group)) == 1, "the replacement")
    wait_for(lambda: len(nodes(local_stack, group.name)) == 2, "both Nodes")
    assert group.instance_ids[0] not in local_stack.fleet.terminated


def test_the_group_follows_its_desired_capacity(
    local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any
) -> None:
    group = node_group(2)
    auto_scaling.set_desired_capacity(AutoScalingGroupName=group.name, DesiredCapacity=3)
    wait_for(lambda: len(ids(local_stack, group)) == 3, "one more instance")
    auto_scaling.set_desired_capacity(AutoScalingGroupName=group.name, DesiredCapacity=1)
    wait_for(lambda: len(ids(local_stack, group)) == 1, "two fewer instances")
    wait_for(lambda: len(nodes(local_stack, group.name)) == 1, "two fewer Nodes")


def test_trouble_is_told_and_passes(local_stack: Stack, node_group: MakeNodeGroup, auto_scaling: Any) -> None:
    group = node_group(1)
    # More than MaxSize cannot be attached, which is how a launch fails in moto.
    auto_scaling.update_auto_scaling_group(AutoScalingGroupName=group.name, MaxSize=1)
    auto_scaling.set_desired_capacity(AutoScalingGroupName=group.name, DesiredCapacity=2)
    wait_for(lambda: group.name in local_stack.fleet.error, "the fleet to say what is wrong")
    auto_scaling.update_auto_scaling_group(AutoScalingGroupName=group.name, MaxSize=2)
    wait_for(lambda: len(ids(local_stack, group)) == 2 and not local_stack.fleet.error, "it to pass")


def test_a_node_that_someone_else_named_is_left(local_stack: Stack, node_group: MakeNodeGroup) -> None:
    group = node_group(1)
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.delete_node(group.nodes[0])
        core.create_node({"metadata": {"name": group.nodes[0]}})
        local_stack.fleet.remove_group(group.name)
        assert core.read_node(group.nodes[0])
        core.delete_node(group.nodes[0])
