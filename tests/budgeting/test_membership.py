"""Groups of every kind on the real API server: whose each node is, how many there should be, and what budgets see."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.claim import annotations
from activities.identities import IdentityReader
from activities.machines.membership import Membership
from activities.objects import Objects
from contract.names import REPLACES_ANNOTATION, STARTUP_TAINT
from contract.permit import ClusterCount
from contract.policy import GroupPolicy, Policy
from deploy.local.stack import CLUSTER
from tests.acting import Acting
from tests.budgeting.test_counting import counted, of, own
from tests.budgeting.world import WIDE, decide, held, queued, why
from tests.conftest import MakeNodeGroup
from tests.replacing.custom_machines import (
    CLAIMS,
    POOLS,
    install,
    join,
    join_machine,
    karpenter_node,
    machine_of,
    node_claim,
    node_pool,
    provider_id,
)

pytestmark = pytest.mark.stack


@pytest.fixture
def karpenter(acting: Acting) -> Objects:
    return install(acting, "karpenter")


@pytest.fixture
def cluster_api(acting: Acting) -> Objects:
    return install(acting, "cluster-api")


def pool_of(acting: Acting, karpenter: Objects, joined: list[str], size: int) -> tuple[str, list[str]]:
    """A NodePool with its nodes, whose NodeClaims know the Nodes they became."""
    pool, nodes = node_pool(karpenter), []
    for _ in range(size):
        node, claim = karpenter_node(acting, karpenter, pool)
        joined.append(node)
        nodes.append(node)
        karpenter.patch(f"{CLAIMS}/{claim['metadata']['name']}/status", {"status": {"nodeName": node}})
    ready(acting, nodes)
    return pool, nodes


def machines_of(
    acting: Acting, cluster_api: Objects, namespace: str, joined: list[str], size: int
) -> tuple[str, list[str]]:
    owner = f"set-{uuid.uuid4().hex[:6]}"
    nodes = [join_machine(acting, machine_of(cluster_api, namespace, owner, provider_id())) for _ in range(size)]
    joined += nodes
    ready(acting, nodes)
    return owner, nodes


def ready(acting: Acting, nodes: list[str]) -> None:
    """Open to work, as a node is once its agents run."""
    for node in nodes:
        acting.patch(node, {"spec": {"taints": None}})
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
        acting.core.patch_node_status(node, {"status": {"conditions": [condition]}})


def waits(count: ClusterCount, group: str, node: str) -> str:
    """Why a disruption of the node waits; empty when it is granted."""
    admission = decide(count.model_copy(update={"policy": WIDE}), [queued(node, group=group)])
    return "" if admission.granted else why(admission, node)


# --- whose a node is ------------------------------------------------------------------------------------------------


async def test_each_node_is_a_member_of_the_group_that_its_identity_names_and_of_no_other(
    acting: Acting,
    karpenter: Objects,
    cluster_api: Objects,
    namespace: str,
    joined: list[str],
    node_group: MakeNodeGroup,
) -> None:
    group = node_group(2)
    pool, _ = pool_of(acting, karpenter, joined, 2)
    owner, _ = machines_of(acting, cluster_api, namespace, joined, 2)
    unowned, on_premises = provider_id(), f"kind://{uuid.uuid4().hex}"
    node_claim(karpenter, pool, unowned)
    ownerless = machine_of(cluster_api, namespace, "gone", provider_id())
    named = {"cluster.x-k8s.io/machine": ownerless["metadata"]["name"], "cluster.x-k8s.io/cluster-namespace": namespace}
    in_the_group = acting.cluster.node(group.nodes[0])
    assert in_the_group
    joined += [
        join(acting, unowned, labels={"karpenter.sh/nodepool": pool}),
        join(acting, provider_id(), labels={"karpenter.sh/nodepool": pool}),
        join(acting, ownerless["spec"]["providerID"], annotations=named),
        join(acting, provider_id()),
        join(acting, on_premises),
    ]
    nodes = acting.cluster.nodes()
    reader = IdentityReader(acting.cluster, acting.auto_scaling)
    expected: dict[str, set[str]] = {}
    for node in nodes:
        expected.setdefault(reader.of(CLUSTER, node).group or "", set()).add(node["metadata"]["name"])
    found = Membership(acting.cluster, acting.auto_scaling).of(sorted(expected), nodes)
    seen = {name: {node["metadata"]["name"] for node in members.nodes} for name, members in found.items()}
    assert seen == expected
    assert {name: len(members.nodes) for name, members in found.items()} == {n: len(m) for n, m in expected.items()}
    assert {group.name, pool, owner, ""} <= set(expected)
    assert len(expected[pool]) == 3
    assert {name for name, members in found.items() if members.open_ended} >= {"", pool}
    assert not found[group.name].open_ended


async def test_pool_and_auto_scaling_group_of_one_name_are_one_group(
    acting: Acting, karpenter: Objects, joined: list[str], node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    node, _ = karpenter_node(acting, karpenter, group.name)
    joined.append(node)
    ready(acting, [node])
    mine = of(await counted(acting, groups=(group.name,)), group.name)
    assert mine.desired == 3
    assert set(mine.working) == {*group.nodes, node}


async def test_group_that_is_gone_has_no_nodes_and_nobody_else_s(acting: Acting, node_group: MakeNodeGroup) -> None:
    node_group(2)
    mine = of(await counted(acting, groups=("gone",), nodes=("n",), groups_of_nodes=(0,)), "gone")
    assert (mine.desired, mine.working, mine.others_working) == (1, (), 0)


async def test_managed_group_without_a_node_left_keeps_its_policy(acting: Acting, node_group: MakeNodeGroup) -> None:
    """Its policy may be written under the name that EKS knows it by, which nodes tell in a label."""
    group = node_group(1)
    acting.stack.aws.client("autoscaling").create_or_update_tags(
        Tags=[
            {
                "ResourceId": group.name,
                "ResourceType": "auto-scaling-group",
                "Key": "eks:nodegroup-name",
                "Value": "managed",
                "PropagateAtLaunch": True,
            }
        ]
    )
    acting.core.delete_node(group.nodes[0])
    policy = Policy(groups={"managed": GroupPolicy(max_concurrent=7)})
    assert of(await counted(acting, policy, groups=(group.name,)), group.name).limits.max_concurrent == 7


# --- how many there should be, and what is left of them ---------------------------------------------------------------


async def test_limits_hold_in_a_node_pool(acting: Acting, karpenter: Objects, joined: list[str]) -> None:
    pool, nodes = pool_of(acting, karpenter, joined, 4)
    asked: dict[str, Any] = {"groups": (pool,), "nodes": tuple(sorted(nodes)), "groups_of_nodes": (0,) * 4}
    spare = Policy(groups={pool: GroupPolicy(max_concurrent=4, max_disrupted_share=1.0, min_working=4)})
    assert "must keep 4" in waits(await counted(acting, spare, **asked), pool, nodes[0])
    half = Policy(groups={pool: GroupPolicy(max_concurrent=4, max_disrupted_share=0.5)})
    for number, expected in enumerate(("", "", "2 of 4 nodes")):
        assert expected in waits(await counted(acting, half, **asked), pool, nodes[3])
        own(acting, nodes[number], since=datetime.now(UTC), disrupting=True)
    assert of(await counted(acting, half, **asked), pool).desired == 4


async def test_limits_hold_among_the_machines_of_an_owner(
    acting: Acting, cluster_api: Objects, namespace: str, joined: list[str]
) -> None:
    owner, nodes = machines_of(acting, cluster_api, namespace, joined, 3)
    policy = Policy(groups={owner: GroupPolicy(max_concurrent=3, max_disrupted_share=0.34)})
    count = await counted(acting, policy, groups=(owner,), nodes=(nodes[0],))
    mine = of(count, owner)
    assert (mine.desired, mine.working, mine.others_working) == (3, (nodes[0],), 2)
    acting.core.delete_node(nodes[1])
    count = await counted(acting, policy, groups=(owner,), nodes=(nodes[0],))
    assert of(count, owner).desired == 3
    assert "1 of 3 nodes" in waits(count, owner, nodes[0])


async def test_machines_of_another_cluster_count_by_their_nodes(acting: Acting, joined: list[str]) -> None:
    """Cluster API is in its management cluster more often than in this one."""
    told = {"machine": "m", "cluster-namespace": "elsewhere", "owner-kind": "MachineSet", "owner-name": "far"}
    annotated = {f"cluster.x-k8s.io/{key}": value for key, value in told.items()}
    nodes = [join(acting, provider_id(), annotations=annotated) for _ in range(2)]
    joined += nodes
    ready(acting, nodes)
    count = await counted(acting, groups=("far",), nodes=("lost", *nodes), groups_of_nodes=(0, 0, 0))
    assert of(count, "far").desired == 3
    assert set(of(count, "far").working) == set(nodes)


async def test_static_pool_wants_its_replicas(acting: Acting, karpenter: Objects, joined: list[str]) -> None:
    pool, nodes = pool_of(acting, karpenter, joined, 2)
    karpenter.patch(f"{POOLS}/{pool}", {"spec": {"replicas": 5}})
    count = await counted(acting, groups=(pool,), nodes=("lost", nodes[0]), groups_of_nodes=(0, 0))
    assert of(count, pool).desired == 5


async def test_replacement_in_a_pool_is_one_place_from_beginning_to_end(
    acting: Acting, karpenter: Objects, joined: list[str]
) -> None:
    """Karpenter wants what its pods want, so an incident's machine counts as missing for as long as the incident."""
    pool, nodes = pool_of(acting, karpenter, joined, 3)
    sick, incident = nodes[0], f"remediate-{CLUSTER}-{nodes[0]}"
    policy = Policy(groups={pool: GroupPolicy(max_concurrent=3, max_disrupted_share=0.67)})
    whole = await counted(acting, policy, groups=(pool,))
    seen: list[tuple[int, int, int]] = []

    async def look() -> None:
        names = tuple(sorted({sick, *nodes}))
        count = await counted(acting, policy, groups=(pool,), nodes=names, groups_of_nodes=(0,) * len(names))
        mine = of(count, pool)
        admission = decide(
            count.model_copy(update={"policy": WIDE}),
            [queued(nodes[1], group=pool)],
            [held(sick, group=pool, incident=incident)],
        )
        assert admission.granted, "one of the two that it may lose is lost, and no more"
        assert count.cluster
        assert whole.cluster
        seen.append((mine.desired, len(mine.working), count.cluster.desired - whole.cluster.desired))

    own(acting, sick, since=datetime.now(UTC), disrupting=True)
    await look()
    # Its pods wait, so that Karpenter has launched another before the old one is gone.
    fresh, _ = karpenter_node(acting, karpenter, pool)
    joined.append(fresh)
    ready(acting, [fresh])
    unproven = {"metadata": {"annotations": {REPLACES_ANNOTATION: incident}}}
    acting.patch(fresh, {**unproven, "spec": {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}})
    await look()
    # Karpenter keeps the NodeClaim until the instance is terminated.
    old = next(c for c in karpenter.list(CLAIMS) if c.get("status", {}).get("nodeName") == sick)
    karpenter.delete(f"{CLAIMS}/{old['metadata']['name']}")
    acting.core.delete_node(sick)
    await look()
    karpenter.patch(f"{CLAIMS}/{old['metadata']['name']}", {"metadata": {"finalizers": None}})
    await look()
    assert seen == [(3, 2, 0)] * 4
    acting.patch(fresh, {"spec": {"taints": None}})
    nodes.remove(sick)
    done = of(await counted(acting, groups=(pool,), nodes=tuple(nodes), groups_of_nodes=(0,) * 2), pool)
    assert (done.desired, len(done.working) + done.others_working) == (3, 3)


async def test_pool_misses_a_node_whose_machine_it_still_has(
    acting: Acting, karpenter: Objects, joined: list[str]
) -> None:
    pool, nodes = pool_of(acting, karpenter, joined, 3)
    acting.core.delete_node(nodes[0])
    mine = of(await counted(acting, groups=(pool,)), pool)
    assert (mine.desired, len(mine.working)) == (3, 2)
    for claim in karpenter.list(CLAIMS, labelSelector=f"karpenter.sh/nodepool={pool}"):
        if claim.get("status", {}).get("nodeName") == nodes[0]:
            karpenter.delete(f"{CLAIMS}/{claim['metadata']['name']}")
    mine = of(await counted(acting, groups=(pool,)), pool)
    assert (mine.desired, len(mine.working)) == (2, 2)


async def test_node_that_nobody_keeps_is_missed_while_an_incident_is_about_it(
    acting: Acting, joined: list[str]
) -> None:
    before = of(await counted(acting, groups=("",)), "").desired
    nodes = [join(acting, provider_id()), join(acting, f"kind://{uuid.uuid4().hex}")]
    joined += nodes
    ready(acting, nodes)
    mine = of(await counted(acting, groups=("",), nodes=("lost", *nodes), groups_of_nodes=(0, 0, 0)), "")
    assert mine.desired == len([*mine.working, *mine.quarantined]) + mine.others_working + 1
    assert set(nodes) <= set(mine.working)
    assert mine.desired >= before


# --- replacements -----------------------------------------------------------------------------------------------------


async def test_replacement_is_at_work_once_it_is_proven_and_holds_nothing_for_ever(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(3)
    fresh = group.nodes[0]
    unproven = {"metadata": {"annotations": {REPLACES_ANNOTATION: "remediate-x"}}}
    acting.patch(fresh, {**unproven, "spec": {"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}})
    count = await counted(acting, groups=(group.name,), nodes=group.nodes)
    assert (of(count, group.name).desired, set(of(count, group.name).working)) == (3, set(group.nodes[1:]))
    budget = Policy().budget.model_copy(update={"given_up_after": timedelta(microseconds=1)})
    late = of(await counted(acting, Policy(budget=budget), groups=(group.name,), nodes=group.nodes), group.name)
    assert (late.desired, late.given_up) == (2, 1)
    acting.patch(fresh, {"spec": {"taints": None}})
    node = acting.cluster.node(fresh)
    assert node
    assert annotations(node)[REPLACES_ANNOTATION]
    count = await counted(acting, groups=(group.name,), nodes=group.nodes)
    assert set(of(count, group.name).working) == set(group.nodes)
