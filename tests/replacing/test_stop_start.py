"""The reboot rung on other hardware: stopped and started where that is safe, else rebooted in place and told why."""

from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from activities.node_facts import boot_id
from activities.other_hardware import why_not_stopped
from contract.identity import MachineKind, Target
from contract.names import SKIP_ANNOTATION, ErrorType
from contract.replacement import RebootBy
from deploy.local.machine import MachineShape
from deploy.local.scene import NodeGroup
from tests.acting import Acting, refusal
from tests.conftest import MakeNodeGroup
from tests.replacing.test_mend import mend, node, reboots
from tests.runbook.world import NOW, identity

WITHOUT_DISKS = MachineShape(instance_type="inf2.48xlarge", devices=12)
MOVABLE = identity(launched_at=NOW)
ON_EBS: dict[str, Any] = {"RootDeviceType": "ebs", "InstanceType": "inf2.48xlarge"}
IN_SERVICE: dict[str, Any] = {"AutoScalingGroupName": "trn1", "LifecycleState": "InService"}
NOT_LOOKED_AT = {"HealthCheck"}


@dataclass(frozen=True)
class Case:
    """What is known of a machine, and what keeps it from being stopped."""

    says: str
    who: Any = MOVABLE
    instance: Any = None
    member: Any = None
    suspended: frozenset[str] = frozenset(NOT_LOOKED_AT)
    has_disks: bool = False


CASES = {
    "alone": Case(""),
    "not looked at": Case("", member=IN_SERVICE),
    "on standby": Case("", member={**IN_SERVICE, "LifecycleState": "Standby"}, suspended=frozenset()),
    "by hand": Case("", who=identity(launched_at=NOW, kind=MachineKind.MANUAL)),
    "forgotten": Case("does not say when", instance={}),
    "identified before": Case("does not say when", who=identity()),
    "instance-store root": Case("no EBS volume", instance={"RootDeviceType": "instance-store"}),
    "instance-store disks": Case("erases the instance-store disks", has_disks=True),
    "spot": Case("spot instance", instance={**ON_EBS, "InstanceLifecycle": "spot"}),
    "bound to its host": Case("start there again", instance={**ON_EBS, "Placement": {"Affinity": "host"}}),
    "Karpenter": Case("karpenter keeps it", who=identity(launched_at=NOW, kind=MachineKind.KARPENTER)),
    "Cluster API": Case("cluster-api keeps it", who=identity(launched_at=NOW, kind=MachineKind.CLUSTER_API)),
    "in service": Case("trn1 would replace it", member=IN_SERVICE, suspended=frozenset()),
    "A4: marked, and replaced on resume": Case(
        "trn1 would replace it", member=IN_SERVICE, suspended=frozenset({"ReplaceUnhealthy", "Terminate"})
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_machine_that_a_stop_would_cost_is_not_stopped_and_it_is_said_why(case: Case) -> None:
    instance = ON_EBS if case.instance is None else case.instance or None
    found = why_not_stopped(case.who, instance, case.member, set(case.suspended), has_disks=case.has_disks)
    assert case.says in found
    assert bool(found) == bool(case.says)


def claim(acting: Acting, name: str) -> Target:
    """As `identify` freezes it, with EC2's launch time."""
    target = acting.claim(name)
    instance = acting.auto_scaling.ec2.instance(target.identity.instance_id or "")
    assert instance
    frozen = target.identity.model_copy(update={"launched_at": instance["LaunchTime"]})
    return target.model_copy(update={"identity": frozen})


def overlooked(acting: Acting, group: NodeGroup) -> None:
    """Have the group overlook that an instance is off."""
    with closing(acting.stack.aws.client("autoscaling")) as client:
        client.suspend_processes(AutoScalingGroupName=group.name, ScalingProcesses=["HealthCheck"])


def starts(acting: Acting, instance_id: str) -> int:
    return int(acting.stack.aws.note()["starts"].count(instance_id))


def test_machine_is_stopped_and_started_once_though_the_act_is_tried_again(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2, WITHOUT_DISKS)
    overlooked(acting, group)
    target = claim(acting, group.nodes[0])
    acting.stack.aws.note(lose_reply={"StopInstances": 1, "StartInstances": 1})
    for _ in range(2):
        done = mend(acting, target, by=RebootBy.STOP_START)
        assert done.whole, done.explanation
        assert "stop and a start" in done.explanation
    assert done.boot_id == boot_id(node(acting, group.nodes[0])) != target.identity.boot_id
    assert acting.auto_scaling.state(group.instance_ids[0]) == "running"
    assert starts(acting, group.instance_ids[0]) >= 1
    assert reboots(acting, group.instance_ids[0]) == 0
    assert starts(acting, group.instance_ids[1]) == 0


def test_machine_that_its_group_would_replace_meanwhile_is_rebooted_in_place(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2, WITHOUT_DISKS)
    done = mend(acting, claim(acting, group.nodes[0]), by=RebootBy.STOP_START)
    assert done.whole, done.explanation
    assert f"{group.name} would replace it" in done.explanation
    assert (reboots(acting, group.instance_ids[0]), starts(acting, group.instance_ids[0])) == (1, 0)


def test_machine_that_was_stopped_is_started_whoever_objects_meanwhile(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2, WITHOUT_DISKS)
    overlooked(acting, group)
    target = claim(acting, group.nodes[0])
    acting.stack.fleet.knobs.reboot_delay_s = 3600.0
    mend(acting, target, by=RebootBy.STOP_START, deadline=timedelta(seconds=3))
    with closing(acting.stack.aws.client("ec2")) as client:
        client.stop_instances(InstanceIds=[group.instance_ids[0]])
    acting.patch(group.nodes[0], {"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}})
    mend(acting, target, by=RebootBy.STOP_START, deadline=timedelta(seconds=3))
    assert acting.auto_scaling.state(group.instance_ids[0]) == "running"
    assert starts(acting, group.instance_ids[0]) == 2


def test_machine_that_somebody_else_stopped_is_not_started_over_a_veto(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2, WITHOUT_DISKS)
    target = claim(acting, group.nodes[0])
    with closing(acting.stack.aws.client("ec2")) as client:
        client.stop_instances(InstanceIds=[group.instance_ids[0]])
    acting.patch(group.nodes[0], {"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}})
    kind, _ = refusal(lambda: mend(acting, target, by=RebootBy.STOP_START))
    assert kind == ErrorType.POLICY_FORBIDS
    assert starts(acting, group.instance_ids[0]) == 0
