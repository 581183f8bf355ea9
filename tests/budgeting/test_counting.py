"""Counting on the real API server and Auto Scaling: what works, is closed, lost or given up, and what nodes share."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.budget import BudgetActivities
from activities.identify import IdentifyNodeActivity
from activities.quarantine import QuarantineActivity
from activities.waiting_mark import WaitingMark
from contract import acts
from contract.fault import RemediationRequest
from contract.identity import Ownership
from contract.names import OWNER_ANNOTATION, QUARANTINE_TAINT, SKIP_ANNOTATION
from contract.permit import ClusterCount, CountCluster, GroupCount, PermitAnswer, PermitRequest
from contract.policy import GroupPolicy, Mode, Policy
from deploy.local.scene import create_training_job
from deploy.local.stack import CLUSTER, Stack
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.harness import connect, report_about

pytestmark = pytest.mark.stack


async def counted(acting: Acting, policy: Policy | None = None, **argument: Any) -> ClusterCount:
    activities = BudgetActivities(
        await connect(acting.stack), acting.cluster, acting.auto_scaling, lambda: policy or Policy()
    )
    count: ClusterCount = await ActivityEnvironment().run(activities.count_cluster, CountCluster(**argument))
    return count


def of(count: ClusterCount, group: str) -> GroupCount:
    (found,) = [item for item in count.groups if item.group == group]
    return found


def own(acting: Acting, node: str, *, since: datetime, disrupting: bool) -> None:
    claim = Ownership(
        incident="remediate-x", run="r", epoch=1, rule="hbm", since=since, disrupting=disrupting
    ).model_dump_json()
    acting.patch(node, {"metadata": {"annotations": {OWNER_ANNOTATION: claim}}, "spec": {"unschedulable": True}})


async def test_only_nodes_that_matter_are_named_and_all_are_counted(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(4)
    count = await counted(acting, groups=(group.name,), nodes=(group.nodes[0], "nobody"))
    mine = of(count, group.name)
    assert (mine.desired, mine.working, mine.others_working) == (4, (group.nodes[0],), 3)
    assert count.absent == ("nobody",)
    assert count.cluster is not None
    assert count.cluster.desired >= 4
    zones = {zone.name: zone for zone in count.zones}
    assert sum(zone.desired for zone in zones.values()) == count.cluster.desired
    assert sum(group.nodes[0] in zone.working for zone in zones.values()) == 1


async def test_count_without_names_names_all_as_older_budgets_need(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    mine = of(await counted(acting, groups=(group.name,)), group.name)
    assert set(mine.working) == set(group.nodes)
    assert mine.others_working == 0


async def test_claimed_nodes_are_closed_then_lost_then_given_up(acting: Acting, node_group: MakeNodeGroup) -> None:
    """Pitfall 3: what is parked for days holds nothing shut, and what still works is not lost."""
    group = node_group(4)
    now = datetime.now(UTC)
    own(acting, group.nodes[0], since=now, disrupting=False)
    own(acting, group.nodes[1], since=now, disrupting=True)
    own(acting, group.nodes[2], since=now - timedelta(days=2), disrupting=True)
    own(acting, group.nodes[3], since=now - timedelta(days=2), disrupting=False)
    mine = of(await counted(acting, groups=(group.name,), nodes=group.nodes), group.name)
    assert mine.quarantined == (group.nodes[0],)
    assert mine.working == (group.nodes[3],)
    assert mine.given_up == 1
    assert mine.desired == 3


async def test_machine_that_is_gone_and_not_replaced_is_missing_from_group_and_cluster(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    before = await counted(acting, groups=(group.name,))
    acting.core.delete_node(group.nodes[0])
    after = await counted(acting, groups=(group.name,))
    assert of(after, group.name).desired == 2
    assert len(of(after, group.name).working) == 1
    assert before.cluster is not None
    assert after.cluster is not None
    assert after.cluster.desired == before.cluster.desired


async def test_healthy_nodes_tell_how_common_a_trait_is(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(3)
    for node, driver in zip(group.nodes, ("new", "old", "old"), strict=True):
        acting.patch(node, {"metadata": {"labels": {"test/driver": driver}}})
    budget = Policy().budget
    labelled = budget.correlation.model_copy(update={"trait_labels": {"driver": "test/driver"}})
    policy = Policy(budget=budget.model_copy(update={"correlation": labelled}))
    count = await counted(acting, policy, groups=(group.name,), nodes=(group.nodes[0],))
    assert count.healthy.traits["driver"] == {}
    count = await counted(acting, policy, groups=(group.name,), nodes=(group.nodes[1],))
    assert count.healthy.traits["driver"] == {"old": 1}
    assert count.healthy.total >= 2


async def test_where_else_a_job_runs_is_counted_when_asked(
    acting: Acting, node_group: MakeNodeGroup, namespace: str, local_stack: Stack
) -> None:
    group = node_group(3)
    create_training_job(local_stack, "train", ranks=3, namespace=namespace, group=group.name)
    job = identified(acting, group.nodes[0])["job"]
    count = await counted(acting, groups=(group.name,), nodes=(group.nodes[0],), jobs=(job,))
    assert count.healthy.traits["job"] == {job: 2}
    assert max(count.healthy.traits["image"].values()) == 2


def identified(acting: Acting, node: str) -> dict[str, str]:
    """The traits that `identify` asks with."""
    asked: list[PermitRequest] = []

    def ask(request: PermitRequest) -> PermitAnswer:
        asked.append(request)
        return PermitAnswer(token=request.token, granted=True)

    report = report_about(acting.stack, node, detector_version="0.3.0")
    policy = Policy(default=GroupPolicy(mode=Mode.ACT))
    act = IdentifyNodeActivity(acting.cluster, acting.auto_scaling, lambda: policy, ask, lambda *_: "", CLUSTER)
    facts = acting.do(
        act.identify_node,
        acts.IdentifyNode(
            request=RemediationRequest(cluster=CLUSTER, node=node, instance_id=report.instance_id),
            reports=(report,),
            incident_id=acting.incident,
            run_id=acting.run,
        ),
    )
    assert asked[0].traits == facts.traits
    assert asked[0].rule == report.rule
    return dict(facts.traits)


def test_request_carries_what_the_node_may_share_with_others(
    acting: Acting, node_group: MakeNodeGroup, namespace: str, local_stack: Stack
) -> None:
    group = node_group(2)
    create_training_job(local_stack, "train", ranks=2, namespace=namespace, group=group.name)
    traits = identified(acting, group.nodes[0])
    assert traits["job"].startswith(f"{namespace}/")
    assert traits["detector version"] == "0.3.0"
    assert {"kernel", "instance type", "zone", "image"} <= set(traits)


# --- the mark of waiting ----------------------------------------------------------------------------------------------


def taints(acting: Acting, node: str) -> list[tuple[str, str]]:
    found = acting.cluster.node(node)
    assert found is not None
    ours = [taint for taint in found["spec"].get("taints", []) if taint["key"] == QUARANTINE_TAINT]
    return [(taint["value"], taint["effect"]) for taint in ours]


def test_node_that_waits_is_avoided_and_quarantine_makes_it_firm(acting: Acting, node_group: MakeNodeGroup) -> None:
    node = node_group(2).nodes[0]
    target, mark = acting.target(node), WaitingMark(acting.cluster)
    for _ in range(2):
        mark.put(node, target.identity.node_uid)
    assert taints(acting, node) == [("waiting", "PreferNoSchedule")]
    acting.claim(node)
    assert taints(acting, node) == [("test-rule", "NoSchedule")]
    mark.take(node, target.identity.node_uid)
    mark.put(node, target.identity.node_uid)
    assert taints(acting, node) == [("test-rule", "NoSchedule")]
    given = acts.GiveBackNode(target=target, by="ada", reason="test", handled_seq=1)
    acting.do(QuarantineActivity(acting.cluster).give_back_node, given)
    assert taints(acting, node) == []


def test_mark_is_taken_away_and_others_taints_stay(acting: Acting, node_group: MakeNodeGroup) -> None:
    node = node_group(2).nodes[0]
    uid = acting.target(node).identity.node_uid
    acting.patch(node, {"spec": {"taints": [{"key": "theirs", "value": "x", "effect": "NoSchedule"}]}})
    mark = WaitingMark(acting.cluster)
    mark.put(node, uid)
    mark.take(node, uid)
    mark.take(node, uid)
    found = acting.cluster.node(node)
    assert found is not None
    assert [taint["key"] for taint in found["spec"]["taints"]] == ["theirs"]


def test_mark_goes_on_no_other_node_and_on_none_that_opted_out(acting: Acting, node_group: MakeNodeGroup) -> None:
    one, two = node_group(2).nodes
    mark = WaitingMark(acting.cluster)
    mark.put(one, "another-uid")
    acting.patch(two, {"metadata": {"annotations": {SKIP_ANNOTATION: ""}}})
    mark.put(two, acting.target(two).identity.node_uid)
    assert taints(acting, one) == taints(acting, two) == []
