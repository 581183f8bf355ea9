"""`nodemend doctor` on a live stack: one machine that is not as the others of its group is found among them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from contract.identity import Ownership
from contract.names import NODEGROUP_LABEL, OWNER_ANNOTATION, ExitCode
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.doctoring.examining import examined
from tests.replacing.custom_machines import install, karpenter_node

pytestmark = pytest.mark.stack


def acts_on(folder: Path, group: str) -> Path:
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump({"groups": {group: {"mode": "act"}}}))
    return policy


def test_machine_that_is_not_as_the_others_of_its_group_is_found(
    acting: Acting, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    made = node_group(4)
    policy, scaling = acts_on(tmp_path, made.name), acting.stack.aws.client("autoscaling")
    by_instance = dict(zip(made.instance_ids, made.nodes, strict=True))
    standing_by, guarded, lost, _ = made.instance_ids

    _, found = examined(acting.stack, policy)
    assert {one["level"] for one in found[f"group {made.name}"]} <= {"ok", "note"}

    scaling.enter_standby(
        AutoScalingGroupName=made.name, InstanceIds=[standing_by], ShouldDecrementDesiredCapacity=True
    )
    scaling.set_instance_protection(AutoScalingGroupName=made.name, InstanceIds=[guarded], ProtectedFromScaleIn=True)
    acting.core.delete_node(by_instance[lost])
    code, found = examined(acting.stack, policy)

    assert code == ExitCode.FAILED
    told = {one["says"]: one["level"] for one in found[f"group {made.name}"]}
    (standby,) = (says for says in told if f"put {standing_by} on standby" in says)
    assert standby.endswith(f"(holds for {by_instance[standing_by]})")
    assert told[standby] == "wrong"
    assert [level for says, level in told.items() if f"{guarded} is protected from scale-in" in says] == ["note"]
    assert told[f"1 of 3 machines in service have no Node: {lost}"] == "note"


def test_machine_that_an_incident_holds_is_told_by_the_incident_alone(
    acting: Acting, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    made = node_group(2)
    policy, scaling = acts_on(tmp_path, made.name), acting.stack.aws.client("autoscaling")
    # As while its spare is raised, and while Karpenter ends a machine whose NodeClaim an incident deleted.
    scaling.enter_standby(
        AutoScalingGroupName=made.name, InstanceIds=[made.instance_ids[0]], ShouldDecrementDesiredCapacity=False
    )
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    acting.patch(made.nodes[0], {"spec": {"taints": [taint]}})

    def told() -> list[str]:
        _, found = examined(acting.stack, policy)
        every = [*found[f"group {made.name}"], *found.get("nodes", [])]
        return [one["says"] for one in every if made.instance_ids[0] in one["says"] or made.nodes[0] in one["says"]]

    standby, foreign = told()
    assert f"put {made.instance_ids[0]} on standby" in standby
    assert "Karpenter is disrupting it" in foreign

    owner = Ownership(incident="remediate-x", run="r", epoch=1, rule="hbm", since=datetime.now(UTC), disrupting=True)
    acting.patch(made.nodes[0], {"metadata": {"annotations": {OWNER_ANNOTATION: owner.model_dump_json()}}})
    assert told() == []


def test_node_pool_that_has_the_name_of_an_auto_scaling_group_is_found_and_both_are_looked_at(
    acting: Acting, node_group: MakeNodeGroup, joined: list[str], tmp_path: Path
) -> None:
    made = node_group(1)
    group, nodegroup = made.name, f"of-{made.name}"
    policy, objects = acts_on(tmp_path, nodegroup), install(acting, "karpenter")
    acting.patch(made.nodes[0], {"metadata": {"labels": {NODEGROUP_LABEL: nodegroup}}})
    node, _ = karpenter_node(acting, objects, group)
    joined.append(node)
    _, found = examined(acting.stack, policy)
    # The policy names the group by its EKS node group, which the NodePool has not.
    assert [one["says"] for one in found["policy"]] == [f"acts on {group}"]
    told = {one["says"]: one["level"] for one in found[f"group {group}"]}
    assert told["a NodePool (1 node) and an Auto Scaling group (1 node) have this one name"] == "wrong"
    assert told["the NodePool is gone: nothing would be launched"] == "wrong"
    assert [level for says, level in told.items() if "it balances its zones" in says] == ["note"]
