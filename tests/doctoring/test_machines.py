"""`nodemend doctor` on machines of Karpenter and Cluster API: who would not bring another one, and why.

Their kinds and objects are on the real API server; their controllers are not there, for the doctor asks none of them.
"""

import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from activities.objects import Objects
from contract.names import ExitCode
from tests.acting import Acting
from tests.doctoring.examining import examined
from tests.replacing.custom_machines import (
    CLAIMS,
    POOLS,
    capi,
    cluster_of_machines,
    health_check,
    install,
    join,
    join_machine,
    karpenter_node,
    machine_of,
    node_pool,
    provider_id,
)

pytestmark = pytest.mark.stack

PAUSED = "cluster.x-k8s.io/paused"
CHECK = "machinehealthchecks/{owner}"
WELL = "nothing keeps it from replacing a machine"


@pytest.fixture
def objects(acting: Acting) -> Objects:
    install(acting, "karpenter")
    return install(acting, "cluster-api")


def acts_on(folder: Path, *groups: str) -> Path:
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump({"groups": {group: {"mode": "act"} for group in groups}}))
    return policy


def told(found: dict[str, list[dict[str, Any]]], group: str) -> str:
    """What is said of a group: that all is well, or what is wrong, with its meaning and its remedy."""
    (one,) = found[f"group {group}"]
    if one["level"] != "ok":
        assert (one["level"], bool(one["means"]), bool(one["mend"])) == ("wrong", True, True), one
    return str(one["says"])


def test_node_pool_that_launches_nothing_is_found_and_is_well_once_mended(
    acting: Acting, objects: Objects, joined: list[str], tmp_path: Path
) -> None:
    whole, unready, gone, leaving = (node_pool(objects) for _ in range(4))
    claims = {}
    for pool in (whole, unready, gone, leaving):
        node, claim = karpenter_node(acting, objects, pool)
        joined.append(node)
        claims[pool] = claim["metadata"]["name"]
    policy = acts_on(tmp_path, *claims)
    ready = {"type": "Ready", "reason": "x", "message": "", "lastTransitionTime": "2026-12-01T12:00:00Z"}

    def be(status: str, message: str = "") -> None:
        condition = {**ready, "status": status, "message": message}
        objects.patch(f"{POOLS}/{unready}/status", {"status": {"conditions": [condition]}})

    be("False", "the EC2NodeClass is gone")
    objects.delete(f"{POOLS}/{gone}")
    objects.delete(f"{CLAIMS}/{claims[leaving]}")
    code, found = examined(acting.stack, policy)
    assert code == ExitCode.FAILED
    assert {pool: told(found, pool) for pool in claims} == {
        whole: WELL,
        unready: "the NodePool is not ready: the EC2NodeClass is gone",
        gone: "the NodePool is gone: nothing would be launched",
        leaving: f"NodeClaim {claims[leaving]} is being deleted already, by somebody else",
    }

    be("True")
    kind = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": gone}}
    objects.create(POOLS, {**kind, "spec": {"template": {"spec": {}}}})
    _, found = examined(acting.stack, policy)
    assert {told(found, pool) for pool in (whole, unready, gone)} == {WELL}
    assert [one["level"] for one in found["policy"]] == ["ok"]


def test_machines_whose_mark_nobody_would_believe_are_found_and_are_well_once_mended(
    acting: Acting, objects: Objects, namespace: str, joined: list[str], tmp_path: Path
) -> None:
    def annotated(value: str | None) -> dict[str, Any]:
        return {"metadata": {"annotations": {PAUSED: value}}}

    def selecting(*values: str) -> dict[str, Any]:
        beside = {"key": "set", "operator": "In", "values": list(values)}
        return {"spec": {"selector": {"matchExpressions": [beside]}}}

    def allowing(status: str) -> dict[str, Any]:
        allowed = {"type": "RemediationAllowed", "status": status, "message": "3 of 4 are unhealthy"}
        return {"status": {"conditions": [allowed]}}

    # For each set of Machines: which of its objects is broken, how it is mended, and what is said meanwhile.
    # Sets are told by their names, and the stack is not this test's alone.
    whole, other, idle, full, halted, held = (f"{n}-{uuid.uuid4().hex[:6]}" for n in ("a", "b", "c", "d", "e", "f"))
    stopped, going = {"spec": {"paused": True}}, {"spec": {"paused": False}}
    broken: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
        other: (CHECK, selecting("x"), selecting(other), "no MachineHealthCheck selects the Machine"),
        idle: (CHECK, annotated("true"), annotated(None), f"MachineHealthCheck {idle} is paused ({PAUSED})"),
        full: (f"{CHECK}/status", allowing("False"), allowing("True"), "no remediation now (3 of 4 are unhealthy)"),
        halted: ("clusters/{owner}", stopped, going, f"Cluster {halted} is paused (spec.paused)"),
        held: ("machines/{machine}", annotated("true"), annotated(None), f"the Machine carries {PAUSED}"),
    }
    machines = {}
    for owner in (whole, *broken):
        made = machine_of(objects, namespace, owner, provider_id(), cluster=owner)
        machines[owner] = made["metadata"]["name"]
        joined.append(join_machine(acting, made))
        cluster_of_machines(objects, namespace, owner)
        health_check(objects, namespace, owner, cluster=owner)

    def change(which: int) -> None:
        for owner, each in broken.items():
            place = each[0].format(owner=owner, machine=machines[owner])
            assert objects.patch(f"{capi(namespace)}/{place}", each[which])

    policy = acts_on(tmp_path, *machines)
    change(1)
    code, found = examined(acting.stack, policy)
    assert code == ExitCode.FAILED
    assert told(found, whole) == WELL
    for owner, (*_, says) in broken.items():
        assert says in told(found, owner)

    change(2)
    _, found = examined(acting.stack, policy)
    assert {owner: told(found, owner) for owner in machines} == dict.fromkeys(machines, WELL)


def test_node_that_nobody_replaces_is_found_unless_people_do(
    acting: Acting, objects: Objects, namespace: str, joined: list[str], tmp_path: Path
) -> None:
    nodegroup = f"by-hand-{uuid.uuid4().hex[:6]}"
    labels = {"eks.amazonaws.com/nodegroup": nodegroup}
    alone = join(acting, provider_id(), labels=labels)
    lost = join(acting, provider_id(), labels={**labels, "karpenter.sh/nodepool": "lost"})
    joined += [alone, lost]
    policy = tmp_path / "policy.yaml"

    def unkept(**holds: Any) -> dict[str, list[str]]:
        policy.write_text(yaml.safe_dump({"groups": {nodegroup: holds}}))
        _, found = examined(acting.stack, policy)
        said: dict[str, list[str]] = {"wrong": [], "note": []}
        for one in found["nodes"]:
            assert one["means"]
            assert one["mend"]
            said[one["level"]] += [name for name in (alone, lost) if name in one["says"]]
        return said

    assert unkept(mode="act") == {"wrong": [alone, lost], "note": []}
    # What is left to people says nothing of a NodePool's node whose NodeClaim is lost.
    assert unkept(mode="act", replacement={"manual": True}) == {"wrong": [lost], "note": []}
    assert unkept(mode="shadow") == {"wrong": [], "note": [alone, lost]}


def test_karpenter_is_a_rival_while_its_node_repair_is_switched_on(
    acting: Acting, namespace: str, tmp_path: Path
) -> None:
    gates = {"name": "FEATURE_GATES", "value": "ReservedCapacity=true,NodeRepair=true"}
    controller: dict[str, Any] = {"name": "controller", "image": "karpenter/controller:1.8.0", "env": [gates]}
    labels = {"app": "karpenter"}
    deployment = {
        "metadata": {"name": "karpenter"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [controller]}},
        },
    }
    apps: Any = client.AppsV1Api(acting.admin.api)

    def rivals() -> list[dict[str, Any]]:
        _, found = examined(acting.stack, acts_on(tmp_path))
        return [one for one in found.get("other repairers", []) if f"{namespace}/karpenter" in one["says"]]

    apps.create_namespaced_deployment(namespace, deployment)
    (rival,) = rivals()
    assert (rival["level"], "NodeRepair" in rival["says"]) == ("wrong", True)
    assert "settings.featureGates.nodeRepair=false" in rival["mend"]
    # The option goes before the variable.
    controller["args"] = ["--feature-gates", "NodeRepair=false"]
    apps.replace_namespaced_deployment("karpenter", namespace, deployment)
    assert rivals() == []


def test_node_pool_whose_machines_karpenter_ends_by_itself_is_a_rival_until_it_lets_them_be(
    acting: Acting, objects: Objects, joined: list[str], tmp_path: Path
) -> None:
    pool = node_pool(objects)
    joined.append(karpenter_node(acting, objects, pool)[0])
    policy = acts_on(tmp_path, pool)

    def rivals() -> dict[str, str]:
        _, found = examined(acting.stack, policy)
        return {
            str(one["says"]): str(one["level"])
            for one in found.get("other repairers", [])
            if f"NodePool {pool} " in one["says"]
        }

    assert rivals() == {
        f"Karpenter consolidates NodePool {pool} (WhenEmptyOrUnderutilized, consolidateAfter 0s)": "wrong",
        f"Karpenter ends each machine of NodePool {pool} 720h after its launch (expireAfter)": "note",
    }
    endless = {"template": {"spec": {"expireAfter": "Never"}}, "disruption": {"consolidateAfter": "Never"}}
    assert objects.patch(f"{POOLS}/{pool}", {"spec": endless})
    assert rivals() == {}
