"""The point of no return: every reason not to is found just before the call, and the call is made once (A1 to A9)."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.replace import ReplaceActivity
from contract.acts import MarkedUnhealthy, MarkUnhealthy, RaiseSpare, SurveyGroup
from contract.memory import Failure
from contract.names import SKIP_ANNOTATION, ErrorType
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import Answer, GroupFinding, ReplaceCall, ReplacementPolicy
from deploy.local.scene import instances, wait_for
from tests.acting import Acting, meanwhile, refusal
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


def test_a21_throttled_and_lost_answers_make_one_call_that_counts_and_no_error(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    """A lost answer: AWS did what was asked, and the connection broke before it said so."""
    group = node_group(3)
    target = acting.claim(group.nodes[0])
    acting.stack.aws.note(
        throttle={"DescribeAutoScalingInstances": 2, "SetInstanceHealth": 2},
        lose_reply={"SetInstanceHealth": 1},
    )
    mark(acting, target)
    wait_for(lambda: acting.cluster.node(group.nodes[0]) is None, "the Node's end")
    acting.stack.aws.note(lose_reply={"DescribeInstances": 1})
    assert mark(acting, target).already == "terminated"
    seen = acting.stack.fleet.turns
    wait_for(lambda: acting.stack.fleet.turns >= seen + 2, "the fleet's next turns")
    assert [i for i in acting.stack.fleet.terminated if i in group.instance_ids] == [group.instance_ids[0]]
    assert set(health(acting, group.name).values()) == {"Healthy"}


def test_a7_instance_is_ended_by_name_and_the_group_keeps_its_size(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    acting.stack.aws.client("autoscaling").suspend_processes(
        AutoScalingGroupName=group.name, ScalingProcesses=["ReplaceUnhealthy"]
    )
    target = acting.claim(group.nodes[0])
    acting.stack.aws.note(lose_reply={"TerminateInstanceInAutoScalingGroup": 1})
    act = replace(acting).mark_instance_unhealthy
    argument = MarkUnhealthy(target=target, call=ReplaceCall.TERMINATE)
    # The lost answer is asked for again by the client, of an instance that is gone: the act's own retry finds it so.
    with suppress(ApplicationError):
        acting.do(act, argument)
    assert acting.do(act, argument).already
    wait_for(lambda: len(health(acting, group.name)) == 2, "the group whole again")
    (after,) = acting.stack.aws.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[group.name])[
        "AutoScalingGroups"
    ]
    assert after["DesiredCapacity"] == 2
    assert group.instance_ids[1] in health(acting, group.name)


def test_a22_bad_hardware_is_reported_while_the_instance_runs(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    argument = MarkUnhealthy(target=acting.claim(group.nodes[0]), report_to_ec2=True, reason="HBM")
    done = acting.do(replace(acting).mark_instance_unhealthy, argument)
    assert done.reported
    assert group.instance_ids[0] in acting.stack.aws.note()["reported"]
    assert group.instance_ids[1] not in acting.stack.aws.note()["reported"]


def test_machine_is_remembered_before_it_is_given_up(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    argument = MarkUnhealthy(target=acting.claim(group.nodes[0]), reason="HBM", serials=("sn-1",))
    acting.do(replace(acting).mark_instance_unhealthy, argument)
    (known,) = [m for m in acting.memory.all() if m.instance_id == group.instance_ids[0]]
    assert (known.failure, known.group, known.serials) == (Failure.GIVEN_UP, group.name, ("sn-1",))


def standby(acting: Acting, target: Any) -> Any:
    return acting.do(replace(acting).raise_spare, RaiseSpare(target=target))


def test_a5_spare_is_raised_once_beside_the_old_machine_whatever_answers_are_lost(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    acting.stack.aws.note(lose_reply={"EnterStandby": 1})
    assert standby(acting, target).already == ""
    assert standby(acting, target).already == "Standby"
    wait_for(lambda: len(health(acting, group.name)) == 3, "the spare")
    seen = acting.stack.fleet.turns
    wait_for(lambda: acting.stack.fleet.turns >= seen + 2, "the fleet's next turns")
    assert len(health(acting, group.name)) == 3
    assert (
        acting.stack.aws.client("ec2").describe_instances(InstanceIds=[group.instance_ids[0]])["Reservations"][0][
            "Instances"
        ][0]["State"]["Name"]
        == "running"
    )
    # Given up after all, it is ended by name, and nothing else goes or comes.
    acting.do(replace(acting).mark_instance_unhealthy, MarkUnhealthy(target=target, spare_is_up=True))
    wait_for(lambda: group.instance_ids[0] not in health(acting, group.name), "its end")
    seen = acting.stack.fleet.turns
    wait_for(lambda: acting.stack.fleet.turns >= seen + 2, "the fleet's next turns")
    assert len(health(acting, group.name)) == 2


def test_spare_is_left_beside_a_machine_that_is_given_back(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    standby(acting, target)
    lower = replace(acting).lower_spare
    assert acting.do(lower, RaiseSpare(target=target)).already == ""
    assert acting.do(lower, RaiseSpare(target=target)).already == "InService"


@pytest.mark.parametrize("answer", [Answer.ASK, Answer.GO_ON])
def test_policy_decides_what_a_suspended_process_means(
    acting: Acting, node_group: MakeNodeGroup, answer: Answer
) -> None:
    group = node_group(2)
    acting.stack.aws.client("autoscaling").suspend_processes(
        AutoScalingGroupName=group.name, ScalingProcesses=["ReplaceUnhealthy"]
    )
    rules = ReplacementPolicy(answers={GroupFinding.REPLACE_UNHEALTHY_SUSPENDED: answer})
    argument = SurveyGroup(target=acting.claim(group.nodes[0]), rules=rules)
    survey = acting.do(replace(acting).survey_group, argument)
    assert bool(survey.obstacles) == (answer is Answer.ASK)
    assert survey.call is ReplaceCall.TERMINATE


def test_a19_instance_refresh_is_waited_for_until_it_is_over(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)

    def refreshes(status: str) -> None:
        runs = {"InstanceRefreshes": [{"InstanceRefreshId": "r-1", "Status": status}]}
        acting.stack.aws.note(answers={"DescribeInstanceRefreshes": runs})

    def finish() -> None:
        wait_for(lambda: any("r-1" in str(beat) for beat in acting.heartbeats), "the wait")
        refreshes("Successful")

    refreshes("InProgress")
    argument = SurveyGroup(target=acting.claim(group.nodes[0]), patience=timedelta(minutes=1))
    with meanwhile(finish):
        survey = acting.do(replace(acting).survey_group, argument)
    assert survey.obstacles == ()


def test_a16_a17_held_capacity_is_looked_at_where_the_template_names_it(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    """Moto's instances carry no reservation; the template of the group names one, and its state comes from a page."""
    group = node_group(2)
    ec2 = acting.stack.aws.client("ec2")
    name = f"{group.name}-template"
    held: Any = {"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}}
    ec2.create_launch_template_version(LaunchTemplateName=name, SourceVersion="1", LaunchTemplateData=held)
    ec2.modify_launch_template(LaunchTemplateName=name, DefaultVersion="2")
    gone = {"CapacityReservationId": "cr-1", "State": "expired"}
    acting.stack.aws.note(answers={"DescribeCapacityReservations": {"CapacityReservations": [gone]}})
    survey = acting.do(replace(acting).survey_group, SurveyGroup(target=acting.claim(group.nodes[0])))
    assert any("cr-1" in obstacle and "expired" in obstacle for obstacle in survey.obstacles)
