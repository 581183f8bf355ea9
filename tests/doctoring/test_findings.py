"""What the doctor says of each thing that is wrong: what it is, what it means, how it is mended."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.doctor import findings as doctor
from cli.doctor.findings import Finding, Level
from contract.names import DETECTOR_LEASE_PREFIX, SearchAttribute
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import Answer, Found, GroupFinding
from deploy.rights.calls import Call
from worker.temporal import mistyped

NOW = datetime(2026, 12, 2, tzinfo=UTC)


def node(name: str, *conditions: dict[str, str], accelerators: bool = True) -> dict[str, Any]:
    capacity = {"cpu": "8", **({"aws.amazon.com/neurondevice": "16"} if accelerators else {})}
    return {"metadata": {"name": name}, "status": {"capacity": capacity, "conditions": list(conditions)}}


def lease(name: str, age: timedelta = timedelta()) -> dict[str, Any]:
    spec = {"renewTime": (NOW - age).isoformat().replace("+00:00", "Z"), "leaseDurationSeconds": 600}
    return {"metadata": {"name": f"{DETECTOR_LEASE_PREFIX}{name}"}, "spec": spec}


def agent(recovery: str) -> dict[str, Any]:
    containers = [
        {"name": "node-problem-detector"},
        {"name": "node-recovery", "env": [{"name": "NODE_NAME"}, {"name": "ENABLE_RECOVERY", "value": recovery}]},
    ]
    metadata = {"namespace": "neuron-healthcheck-system", "name": "node-problem-detector"}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers}}}}


def says_all(found: Finding) -> bool:
    return bool(found.says and found.means and found.mend)


def test_node_with_accelerators_and_no_detector_is_wrong_and_one_without_is_not() -> None:
    (found,) = doctor.of_detectors([node("a"), node("b"), node("cpu", accelerators=False)], [lease("a")], NOW)
    assert (found.level, found.says) == (Level.WRONG, "none on b")
    assert says_all(found)


@pytest.mark.parametrize(("minutes", "level"), [(29, Level.OK), (31, Level.WRONG)])
def test_detector_is_silent_after_three_durations_of_its_lease(minutes: int, level: Level) -> None:
    (found,) = doctor.of_detectors([node("a")], [lease("a", timedelta(minutes=minutes))], NOW)
    assert found.level is level


def test_detector_that_sees_nothing_is_named_with_its_reason() -> None:
    blind = {"type": "KernelLogHealth", "status": "True", "reason": "KernelLogUnreadable"}
    (found,) = doctor.of_detectors([node("a", blind)], [lease("a")], NOW)
    assert "a (KernelLogUnreadable)" in found.says
    assert says_all(found)


@pytest.mark.parametrize(("recovery", "rivals"), [("true", 1), ("false", 0)])
def test_neuron_recovery_agent_is_a_rival_only_where_it_recovers(recovery: str, rivals: int) -> None:
    found = list(doctor.of_rivals([agent(recovery)]))
    assert len(found) == rivals
    assert all(says_all(one) for one in found)


@pytest.mark.parametrize(
    "image",
    ["docker.io/planetlabs/draino:v0.5", "ghcr.io/kubereboot/kured:1.16", "quay.io/medik8s/self-node-remediation:1"],
)
def test_other_repairers_are_known_by_their_image(image: str) -> None:
    metadata = {"namespace": "ops", "name": "rival"}
    workload = {"metadata": metadata, "spec": {"template": {"spec": {"containers": [{"name": "x", "image": image}]}}}}
    (found,) = doctor.of_rivals([workload])
    assert found.level is Level.WRONG
    assert "ops/rival" in found.says
    assert says_all(found)


def test_neuron_recovery_agent_is_known_by_its_image_too() -> None:
    workload = agent("true")
    container = workload["spec"]["template"]["spec"]["containers"][1]
    container |= {"name": "recovery", "image": "public.example/neuron/neuron-node-recovery:1.12.0"}
    assert len(list(doctor.of_rivals([workload]))) == 1


def test_right_that_is_missing_is_named() -> None:
    found = doctor.of_rights("nodemend-worker", [Call("nodemend-worker", "", "pods/eviction", "create")], 40)
    assert (found.level, found.says) == (Level.WRONG, "may not create pods/eviction")
    assert says_all(found)


def test_group_of_the_policy_that_no_node_belongs_to_is_wrong_with_what_there_is() -> None:
    policy = Policy(groups={"trn1-trainig": GroupPolicy(mode=Mode.ACT)})
    found = list(doctor.of_policy(policy, {"trn1-training": None}))
    assert [one.level for one in found] == [Level.WRONG, Level.NOTE]
    assert "trn1-trainig" in found[0].says
    assert "trn1-training" in found[0].mend


def test_policy_may_name_an_eks_node_group() -> None:
    policy = Policy(groups={"workers": GroupPolicy(mode=Mode.ACT)})
    (found,) = doctor.of_policy(policy, {"eks-workers-1234": "workers"})
    assert (found.level, found.says) == (Level.OK, "acts on eks-workers-1234")


@pytest.mark.parametrize(
    ("answer", "level"), [(Answer.ASK, Level.WRONG), (Answer.WAIT, Level.WRONG), (Answer.GO_ON, Level.NOTE)]
)
def test_what_the_policy_would_stop_at_is_wrong(answer: Answer, level: Level) -> None:
    told = Found(finding=GroupFinding.LAUNCH_SUSPENDED, answer=answer, explanation="its process Launch is suspended")
    (found,) = doctor.of_group("trn1", [told])
    assert found.level is level
    assert says_all(found)


def test_nobody_who_polls_and_attributes_that_are_missing_are_wrong() -> None:
    for found in (doctor.of_pollers("nodemend", 0), doctor.of_search_attributes({"NodeName"}, "default")):
        assert found.level is Level.WRONG
        assert says_all(found)


def test_search_attribute_of_another_type_is_wrong_though_none_is_missing() -> None:
    found = doctor.of_search_attributes((), "default", mistyped(dict.fromkeys(SearchAttribute, 1)))
    assert (found.level, "NeedsHuman" in found.says) == (Level.WRONG, True)
    assert says_all(found)
