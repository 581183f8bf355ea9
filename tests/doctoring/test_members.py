"""What the doctor says of machines that are not as the others of their group, and of groups of one name."""

from typing import Any

import pytest

from activities.placement import RESERVATION
from cli.doctor import machines as doctor
from cli.doctor.findings import Finding, Level
from contract.identity import MachineKind, NodeIdentity
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import Answer, Found, GroupFinding

ACTING = Policy(groups={"trn1": GroupPolicy(mode=Mode.ACT)})


def machine(name: str, **more: Any) -> NodeIdentity:
    usual = {"cluster": "c", "node": name, "node_uid": name, "boot_id": "b", "instance_id": f"i-{name}"}
    return NodeIdentity(**{**usual, "group": "trn1", "instance_type": "trn1.32xlarge", **more})


def instances(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"InstanceId": f"i-{name}", "LifecycleState": "InService"} | more for name in names]


def found(finding: GroupFinding, says: str) -> Found:
    return Found(finding=finding, answer=Answer.ASK, explanation=says)


def says_all(one: Finding) -> bool:
    return bool(one.says and one.means and one.mend)


def test_machines_of_which_a_look_says_the_same_are_one_kind_and_the_commonest_is_first() -> None:
    odd = instances("standby", LifecycleState="Standby") + instances("guarded", ProtectedFromScaleIn=True)
    group = {"Instances": [*odd, *instances("a", "b", "old", "held")]}
    old, held = machine("old", image="ami-1"), machine("held", placement={RESERVATION: "cr-1"})
    same = [machine("a"), machine("b")]
    kinds = doctor.alike([machine("standby"), machine("guarded"), *same, old, held], group)
    assert kinds[0] == same
    assert [len(kind) for kind in kinds[1:]] == [1, 1, 1, 1]


def test_machines_that_auto_scaling_does_not_keep_are_one_kind() -> None:
    assert len(doctor.alike([machine("a", image="ami-1"), machine("b", image="ami-2")], None)) == 1


def test_what_holds_for_all_is_said_once_and_what_holds_for_some_with_their_names() -> None:
    usual, odd = [machine("a"), machine("b")], [machine("c")]
    everywhere = found(GroupFinding.AT_MAX, "it is at its maximum")
    here = found(GroupFinding.STANDBY, "somebody put i-c on standby")
    told = [one.explanation for one in doctor.together([(usual, [everywhere]), (odd, [everywhere, here])])]
    assert told == ["it is at its maximum", "somebody put i-c on standby (holds for c)"]


def test_finding_that_names_one_machine_names_those_like_it() -> None:
    alike = [machine("a"), machine("b")]
    (told,) = doctor.together([(alike, [found(GroupFinding.SCALE_IN_PROTECTED, "i-a is protected")])])
    assert told.explanation == "i-a is protected (holds for a, b)"


@pytest.mark.parametrize(("kinds", "left"), [(doctor.LOOKS_MAX, []), (doctor.LOOKS_MAX + 2, ["n4, n5"])])
def test_machines_that_no_look_stands_for_are_named(kinds: int, left: list[str]) -> None:
    told = list(doctor.of_unlooked("trn1", [[machine(f"n{number}")] for number in range(kinds)]))
    assert [one.says.partition("not looked at: ")[2] for one in told] == left
    assert all(says_all(one) for one in told)


def mixed(*overrides: dict[str, Any]) -> dict[str, Any]:
    return {"MixedInstancesPolicy": {"LaunchTemplate": {"Overrides": list(overrides)}}}


def test_group_of_several_types_is_told_whether_they_are_there_or_may_come() -> None:
    one, other = machine("a"), machine("b", instance_type="trn1n.32xlarge")
    assert list(doctor.of_types("trn1", [one, machine("c")], mixed({"InstanceType": "trn1.32xlarge"}))) == []
    may_come = mixed({"InstanceType": "trn1.32xlarge"}, {"InstanceType": "trn1n.32xlarge"})
    for machines, group in (([one, other], None), ([one], may_come)):
        (told,) = doctor.of_types("trn1", machines, group)
        assert told.says == "its machines are of several types: trn1.32xlarge, trn1n.32xlarge"
        assert (told.level, says_all(told)) == (Level.NOTE, True)
    (told,) = doctor.of_types("trn1", [one], mixed({"InstanceRequirements": {}}))
    assert "whatever else meets its instance requirements" in told.says


def test_machine_in_service_without_a_node_is_named_and_one_that_comes_or_goes_is_not() -> None:
    group = {"Instances": instances("a", "b") + instances("c", LifecycleState="Pending")}
    assert list(doctor.of_unjoined("trn1", group, ["i-a", "i-b", None])) == []
    (told,) = doctor.of_unjoined("trn1", group, ["i-a"])
    assert told.says == "1 of 2 machines in service have no Node: i-b"
    assert (told.level, says_all(told)) == (Level.NOTE, True)


def test_node_that_somebody_else_works_on_is_named_with_who_unless_nobody_keeps_it() -> None:
    busy = machine("a", foreign_owners=("cluster-autoscaler is removing it",))
    alone = machine("b", group=None, foreign_owners=("EKS Auto Mode manages it",))
    assert list(doctor.of_foreign([machine("c"), alone])) == []
    (told,) = doctor.of_foreign([busy, alone])
    assert told.says == "somebody else is at work on a (cluster-autoscaler is removing it)"
    assert (told.level, says_all(told)) == (Level.NOTE, True)


@pytest.mark.parametrize(("policy", "level"), [(ACTING, Level.WRONG), (Policy(), Level.NOTE)])
def test_node_pool_and_auto_scaling_group_of_one_name_are_told(policy: Policy, level: Level) -> None:
    pool = machine("k", kind=MachineKind.KARPENTER, claim="trn1-x")
    (told,) = doctor.of_clashes([machine("a"), machine("b"), pool], policy)
    assert (told.about, told.level) == ("group trn1", level)
    assert told.says == "a NodePool (1 node) and an Auto Scaling group (2 nodes) have this one name"
    assert says_all(told)


def test_groups_of_one_keeper_or_of_two_names_do_not_clash() -> None:
    pool = machine("k", group="trn2", kind=MachineKind.KARPENTER, claim="trn2-x")
    assert list(doctor.of_clashes([machine("a"), machine("b"), pool], ACTING)) == []


def test_owners_of_machines_in_two_namespaces_clash_by_their_name() -> None:
    one, other = (machine(name, kind=MachineKind.CLUSTER_API, claim=f"{name}/m") for name in ("blue", "green"))
    (told,) = doctor.of_clashes([one, other], Policy())
    assert "namespace blue (1 node) and an owner of Machines in namespace green (1 node)" in told.says
    assert list(doctor.of_clashes([one, one], Policy())) == []
