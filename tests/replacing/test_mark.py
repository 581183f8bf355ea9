"""The point of no return: every reason not to is found just before the call, and the call is made once (A1 to A9)."""

from typing import Any

import pytest

from activities.replace import ReplaceActivity
from contract.acts import MarkedUnhealthy, MarkUnhealthy, SurveyGroup
from contract.names import SKIP_ANNOTATION, ErrorType
from contract.policy import GroupPolicy, Mode, Policy
from deploy.local.scene import instances, wait_for
from tests.acting import Acting, refusal
from tests.conftest import MakeNodeGroup

ACTS = Policy(default=GroupPolicy(mode=Mode.ACT))


def replace(acting: Acting, policy: Policy = ACTS) -> ReplaceActivity:
    return ReplaceActivity(acting.cluster, acting.auto_scaling, acting.machines, acting.memory, lambda: policy)


def mark(acting: Acting, target: Any, policy: Policy = ACTS, *, drill: bool = False) -> MarkedUnhealthy:
    made: MarkedUnhealthy = acting.do(
        replace(acting, policy).mark_instance_unhealthy, MarkUnhealthy(target=target, drill=drill)
    )
    return made


def health(acting: Acting, group: str) -> dict[str, str]:
    return {i["InstanceId"]: i["HealthStatus"] for i in instances(acting.stack, group)}


def test_a2_grace_period_is_not_respected_and_the_frozen_instance_is_named(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    sent: dict[str, Any] = {}
    events = acting.auto_scaling._groups.meta.events
    events.register("provide-client-params.autoscaling.SetInstanceHealth", lambda params, **_: sent.update(params))
    done = mark(acting, acting.claim(group.nodes[0]))
    assert done.already == ""
    assert sent == {
        "InstanceId": group.instance_ids[0],
        "HealthStatus": "Unhealthy",
        "ShouldRespectGracePeriod": False,
    }


def test_a9_second_try_makes_no_second_call_whatever_became_of_the_instance(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.terminate_delay_s = 3600.0
    target = acting.claim(group.nodes[0])
    mark(acting, target)
    assert mark(acting, target).already == "Unhealthy"
    acting.stack.fleet.knobs.terminate_delay_s = 0.0
    wait_for(lambda: acting.cluster.node(group.nodes[0]) is None, "the Node's end")
    launched = [i for i in health(acting, group.name) if i not in group.instance_ids]
    assert mark(acting, target).already == "terminated"
    assert all(health(acting, group.name)[i] == "Healthy" for i in launched)


@pytest.mark.parametrize(
    ("policy", "drill"),
    [
        (Policy(default=GroupPolicy(mode=Mode.SHADOW)), False),
        (Policy(default=GroupPolicy(mode=Mode.ACT)), True),
    ],
    ids=["policy changed", "drill"],
)
def test_policy_is_asked_at_the_last_moment(
    acting: Acting, node_group: MakeNodeGroup, policy: Policy, drill: bool
) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    kind, message = refusal(lambda: mark(acting, target, policy, drill=drill))
    assert kind == ErrorType.POLICY_FORBIDS
    assert "shadow" in message
    assert set(health(acting, group.name).values()) == {"Healthy"}


def test_every_veto_on_the_node_is_seen_at_the_last_moment(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    acting.patch(group.nodes[0], {"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}})
    assert refusal(lambda: mark(acting, target))[0] == ErrorType.POLICY_FORBIDS
    acting.patch(
        group.nodes[0], {"metadata": {"annotations": {SKIP_ANNOTATION: None}}, "spec": {"unschedulable": None}}
    )
    assert refusal(lambda: mark(acting, target))[0] == ErrorType.HUMAN_VETO
    assert set(health(acting, group.name).values()) == {"Healthy"}


def test_a1_instance_that_left_its_group_is_not_marked(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    acting.stack.aws.client("autoscaling").detach_instances(
        AutoScalingGroupName=group.name,
        InstanceIds=[group.instance_ids[0]],
        ShouldDecrementDesiredCapacity=True,
    )
    kind, message = refusal(lambda: mark(acting, target))
    assert kind == ErrorType.INSTANCE_NOT_IN_GROUP
    assert group.instance_ids[0] in message
    survey = acting.do(replace(acting).survey_group, SurveyGroup(target=target))
    assert any("not in it any more" in obstacle for obstacle in survey.obstacles)


def test_instance_of_another_group_is_not_marked(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    claimed = acting.claim(group.nodes[0])
    target = claimed.model_copy(update={"identity": claimed.identity.model_copy(update={"group": "another"})})
    assert refusal(lambda: mark(acting, target))[0] == ErrorType.WRONG_INSTANCE
    assert set(health(acting, group.name).values()) == {"Healthy"}


def test_survey_tells_what_was_there_before(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(3)
    survey = acting.do(replace(acting).survey_group, SurveyGroup(target=acting.claim(group.nodes[0])))
    assert set(survey.instances) == set(group.instance_ids)
    assert (survey.desired, survey.obstacles) == (3, ())
