"""`nodemend doctor` on a live stack: one machine that is not as the others of its group is found among them."""

from pathlib import Path

import pytest
import yaml

from contract.names import ExitCode
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


def test_node_pool_that_has_the_name_of_an_auto_scaling_group_is_found_and_both_are_looked_at(
    acting: Acting, node_group: MakeNodeGroup, joined: list[str], tmp_path: Path
) -> None:
    group = node_group(1).name
    policy, objects = acts_on(tmp_path, group), install(acting, "karpenter")
    node, _ = karpenter_node(acting, objects, group)
    joined.append(node)
    _, found = examined(acting.stack, policy)
    told = {one["says"]: one["level"] for one in found[f"group {group}"]}
    assert told["a NodePool (1 node) and an Auto Scaling group (1 node) have this one name"] == "wrong"
    assert told["the NodePool is gone: nothing would be launched"] == "wrong"
    assert told["nothing keeps it from replacing a machine"] == "ok"
