"""Kinds of machines: each is given up through whoever keeps it, and one that nobody keeps is not given up."""

from datetime import timedelta
from typing import Any

import pytest

from activities.await_replacement import AwaitReplacementActivity
from activities.close import CloseActivity
from activities.identify import IdentifyNodeActivity
from activities.objects import Objects
from activities.replace import ReplaceActivity
from activities.verify import VerifyActivity
from contract.acts import (
    AwaitReplacement,
    CloseIncident,
    GroupSurvey,
    Identified,
    IdentifyNode,
    MarkUnhealthy,
    SurveyGroup,
    VerifyReplacement,
)
from contract.fault import RemediationRequest
from contract.identity import MachineKind, Target
from contract.names import REPLACED_BY_ANNOTATION, REPLACES_ANNOTATION, ErrorType
from contract.plan import Rung
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import ReplacementPolicy
from deploy.local.stack import CLUSTER
from tests.acting import Acting, refusal
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
from tests.runbook.world import finding
from workflows.assess import assess

ACTS = Policy(default=GroupPolicy(mode=Mode.ACT))
BY_HAND = Policy(default=GroupPolicy(mode=Mode.ACT, replacement=ReplacementPolicy(manual=True)))


def identified(acting: Acting, node: str, policy: Policy = ACTS) -> Target:
    """The machine as `identify` freezes it, claimed by this incident."""
    act = IdentifyNodeActivity(
        acting.cluster,
        acting.auto_scaling,
        lambda: policy,
        lambda _: pytest.fail("asked for a permit"),
        lambda *_: "",
        CLUSTER,
    )
    request = RemediationRequest(
        cluster=CLUSTER,
        node=node,
        instance_id=str(acting.cluster.node(node)["spec"]["providerID"]).rpartition("/")[2],  # type: ignore[index]
    )
    asked = IdentifyNode(
        request=request, reports=(), incident_id=acting.incident, run_id=acting.run, wants_permit=False
    )
    facts = acting.do(act.identify_node, asked)
    return acting.claim(node).model_copy(update={"identity": facts.identity})


def replace(acting: Acting, policy: Policy = ACTS) -> ReplaceActivity:
    return ReplaceActivity(acting.cluster, acting.auto_scaling, acting.machines, acting.memory, lambda: policy)


def look(acting: Acting, target: Target) -> GroupSurvey:
    made: GroupSurvey = acting.do(replace(acting).survey_group, SurveyGroup(target=target))
    return made


def follow(acting: Acting, target: Target, survey: GroupSurvey) -> Any:
    """Claim and prove the replacement, then see the old machine gone."""
    wait = AwaitReplacement(target=target, survey=survey, deadline=timedelta(seconds=20))
    act = AwaitReplacementActivity(acting.cluster, acting.auto_scaling, acting.machines, acting.records)
    found = acting.do(act.await_replacement, wait)
    proof = VerifyReplacement(target=target, replacement=found, soak=timedelta(0), deadline=timedelta(seconds=20))
    acting.do(VerifyActivity(acting.cluster, acting.auto_scaling, acting.memory).verify_replacement, proof)
    close = CloseIncident(target=target, deadline=timedelta(seconds=20))
    assert acting.do(CloseActivity(acting.cluster, acting.machines).close_incident, close).node_gone
    return found


# --- Karpenter ------------------------------------------------------------------------------------------------------


@pytest.fixture
def karpenter(acting: Acting) -> Objects:
    return install(acting, "karpenter")


def end_claim(acting: Acting, objects: Objects, name: str, node: str) -> None:
    """Be Karpenter: the instance is terminated, so Node and finalizer go."""
    objects.patch(f"{CLAIMS}/{name}", {"metadata": {"finalizers": None}})
    if found := acting.cluster.node(node):
        acting.admin.delete_node(node, found["metadata"]["uid"])


def test_karpenter_node_claim_is_deleted_and_the_next_one_is_followed(
    acting: Acting, karpenter: Objects, joined: list[str]
) -> None:
    pool = node_pool(karpenter)
    node, claim = karpenter_node(acting, karpenter, pool)
    name = claim["metadata"]["name"]
    joined.append(node)
    target = identified(acting, node)
    identity = target.identity
    assert (identity.kind, identity.group, identity.claim) == (MachineKind.KARPENTER, pool, name)
    assert identity.foreign_owners == ()
    assert assess([finding()], identity).rung is Rung.REPLACE
    survey = look(acting, target)
    assert survey.obstacles == ()

    mark = MarkUnhealthy(target=target, reason="HBM")
    assert acting.do(replace(acting).mark_instance_unhealthy, mark).already == ""
    deleted = karpenter.get(f"{CLAIMS}/{name}")
    assert deleted
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["annotations"][REPLACED_BY_ANNOTATION] == acting.incident
    assert acting.do(replace(acting).mark_instance_unhealthy, mark).already == "being deleted"

    end_claim(acting, karpenter, name, node)
    assert acting.do(replace(acting).mark_instance_unhealthy, mark).already == "deleted"
    successor, _ = karpenter_node(acting, karpenter, pool)
    joined.append(successor)
    assert follow(acting, target, survey).node == successor


def test_karpenter_pool_that_cannot_launch_is_told_before_anything_is_deleted(
    acting: Acting, karpenter: Objects, joined: list[str]
) -> None:
    pool = node_pool(karpenter)
    node, claim = karpenter_node(acting, karpenter, pool)
    joined.append(node)
    target = identified(acting, node)
    not_ready = {
        "type": "Ready",
        "status": "False",
        "reason": "NodeClassNotReady",
        "message": "the EC2NodeClass is gone",
        "lastTransitionTime": "2026-12-01T12:00:00Z",
    }
    karpenter.patch(f"{POOLS}/{pool}/status", {"status": {"conditions": [not_ready]}})
    assert any("EC2NodeClass is gone" in obstacle for obstacle in look(acting, target).obstacles)
    karpenter.delete(f"{POOLS}/{pool}")
    assert any("NodePool is gone" in obstacle for obstacle in look(acting, target).obstacles)
    assert "deletionTimestamp" not in (karpenter.get(f"{CLAIMS}/{claim['metadata']['name']}") or {})["metadata"]


def test_karpenter_node_without_a_claim_is_left_to_karpenter(
    acting: Acting, karpenter: Objects, joined: list[str]
) -> None:
    joined.append(join(acting, provider_id(), labels={"karpenter.sh/nodepool": "lost"}))
    identity = identified(acting, joined[0]).identity
    assert identity.group is None
    assert assess([finding()], identity.model_copy(update={"group": "x"})).rung is Rung.QUARANTINE


# --- Cluster API ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster_api(acting: Acting) -> Objects:
    return install(acting, "cluster-api")


def capi_node(acting: Acting, objects: Objects, namespace: str, owner: str) -> tuple[str, dict[str, Any]]:
    machine = machine_of(objects, namespace, owner, provider_id())
    return join_machine(acting, machine), machine


def path_of(machine: dict[str, Any]) -> str:
    metadata = machine["metadata"]
    return f"{capi(metadata['namespace'])}/machines/{metadata['name']}"


def test_cluster_api_machine_is_marked_for_remediation_and_the_next_one_is_followed(
    acting: Acting, cluster_api: Objects, namespace: str, joined: list[str]
) -> None:
    node, machine = capi_node(acting, cluster_api, namespace, "workers")
    joined.append(node)
    health_check(cluster_api, namespace, "workers")
    target = identified(acting, node)
    assert (target.identity.kind, target.identity.group) == (MachineKind.CLUSTER_API, "workers")
    assert assess([finding()], target.identity).rung is Rung.REPLACE
    survey = look(acting, target)
    assert survey.obstacles == ()

    mark = MarkUnhealthy(target=target, reason="HBM")
    assert acting.do(replace(acting).mark_instance_unhealthy, mark).already == ""
    marked = cluster_api.get(path_of(machine))
    assert marked
    assert "cluster.x-k8s.io/remediate-machine" in marked["metadata"]["annotations"]
    assert "deletionTimestamp" not in marked["metadata"]
    assert acting.do(replace(acting).mark_instance_unhealthy, mark).already == "marked for remediation"

    cluster_api.delete(path_of(machine))
    acting.admin.delete_node(node, target.identity.node_uid)
    successor, _ = capi_node(acting, cluster_api, namespace, "workers")
    joined.append(successor)
    assert follow(acting, target, survey).node == successor


PAUSED = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}}
SKIPPED = {"metadata": {"annotations": {"cluster.x-k8s.io/skip-remediation": ""}}}
OTHERS = {"spec": {"selector": {"matchExpressions": [{"key": "set", "operator": "NotIn", "values": ["workers"]}]}}}
TOO_MANY = {"type": "RemediationAllowed", "status": "False", "message": "2 of 2 are unhealthy"}


@pytest.mark.parametrize(
    ("of", "change", "says"),
    [
        ("check", OTHERS, "no MachineHealthCheck selects"),
        ("check", {"spec": {"clusterName": "another"}}, "no MachineHealthCheck selects"),
        ("check", PAUSED, "MachineHealthCheck workers is paused"),
        ("check/status", {"status": {"conditions": [TOO_MANY]}}, "no remediation now (2 of 2 are unhealthy)"),
        ("cluster", {"spec": {"paused": True}}, "Cluster train is paused"),
        ("machine", PAUSED, "remediation is switched off"),
        ("machine", SKIPPED, "remediation is switched off"),
        ("machine", {"metadata": {"ownerReferences": None}}, "no owner that would make another"),
    ],
)
def test_cluster_api_machine_that_nobody_would_replace_is_told(
    acting: Acting,
    cluster_api: Objects,
    namespace: str,
    joined: list[str],
    of: str,
    change: dict[str, Any],
    says: str,
) -> None:
    node, machine = capi_node(acting, cluster_api, namespace, "workers")
    joined.append(node)
    check = health_check(cluster_api, namespace, "workers")
    places = {"check": check, "check/status": f"{check}/status", "machine": path_of(machine)}
    places["cluster"] = cluster_of_machines(cluster_api, namespace)
    target = identified(acting, node)
    assert look(acting, target).obstacles == ()
    cluster_api.patch(places[of], change)
    assert any(says in obstacle for obstacle in look(acting, target).obstacles)


def test_cluster_api_machine_is_given_up_where_one_of_its_health_checks_works(
    acting: Acting, cluster_api: Objects, namespace: str, joined: list[str]
) -> None:
    node, _ = capi_node(acting, cluster_api, namespace, "workers")
    joined.append(node)
    cluster_api.patch(health_check(cluster_api, namespace, "workers"), PAUSED)
    target = identified(acting, node)
    assert look(acting, target).obstacles != ()
    everything = {"metadata": {"name": "all"}, "spec": {"clusterName": "train", "selector": {}}}
    kind = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineHealthCheck"}
    cluster_api.create(f"{capi(namespace)}/machinehealthchecks", {**kind, **everything})
    assert look(acting, target).obstacles == ()


def test_cluster_api_machine_that_another_cluster_keeps_is_told(
    acting: Acting, cluster_api: Objects, namespace: str, joined: list[str]
) -> None:
    node, machine = capi_node(acting, cluster_api, namespace, "workers")
    joined.append(node)
    target = identified(acting, node)
    cluster_api.delete(path_of(machine))
    assert any("management cluster" in obstacle for obstacle in look(acting, target).obstacles)


def test_v11_finding_on_a_replacement_that_is_being_proven_starts_no_incident_of_its_own(
    acting: Acting, joined: list[str]
) -> None:
    machine = provider_id()
    joined.append(join(acting, machine, annotations={REPLACES_ANNOTATION: "remediate-parent"}))
    act = IdentifyNodeActivity(
        acting.cluster, acting.auto_scaling, lambda: ACTS, lambda _: pytest.fail("asked"), lambda *_: "", CLUSTER
    )
    request = RemediationRequest(cluster=CLUSTER, node=joined[0], instance_id=machine.rpartition("/")[2])
    facts = acting.do(
        act.identify_node,
        IdentifyNode(request=request, reports=(finding(),), incident_id=acting.incident, run_id=acting.run),
    )
    assert facts.identified is Identified.HANDED_OVER
    assert "remediate-parent" in facts.explanation


# --- people, and nobody ---------------------------------------------------------------------------------------------


def test_machine_that_people_replace_waits_for_a_node_that_says_so(acting: Acting, joined: list[str]) -> None:
    joined.append(join(acting, provider_id()))
    target = identified(acting, joined[0], BY_HAND)
    assert target.identity.kind is MachineKind.MANUAL
    assert assess([finding()], target.identity).rung is Rung.REPLACE
    survey = look(acting, target)
    mark = MarkUnhealthy(target=target, reason="HBM")
    assert acting.do(replace(acting, BY_HAND).mark_instance_unhealthy, mark).already == ""

    # One that came for another reason is not believed to be it.
    joined.append(join(acting, provider_id()))
    wait = AwaitReplacement(target=target, survey=survey, deadline=timedelta(seconds=1))
    act = AwaitReplacementActivity(acting.cluster, acting.auto_scaling, acting.machines, acting.records)
    kind, says = refusal(lambda: acting.do(act.await_replacement, wait))
    assert (kind, f"{REPLACES_ANNOTATION}={acting.incident}" in says) == (ErrorType.NO_REPLACEMENT, True)

    joined.append(join(acting, provider_id(), annotations={REPLACES_ANNOTATION: acting.incident}))
    acting.admin.delete_node(joined[0], target.identity.node_uid)
    assert follow(acting, target, survey).node == joined[-1]


def test_machine_that_nobody_keeps_is_quarantined_and_explained(acting: Acting, joined: list[str]) -> None:
    joined.append(join(acting, provider_id()))
    plan = assess([finding()], identified(acting, joined[0]).identity)
    assert plan.rung is Rung.QUARANTINE
    assert "in no Auto Scaling group" in " ".join(plan.reasons)
