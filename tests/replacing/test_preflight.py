"""The look before the point of no return: each thing that has cost somebody a machine is found, said and answered."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from activities.preflight import GroupFacts, findings, passes_by_itself, survey
from contract.replacement import USUAL_ANSWERS, Answer, GroupFinding, ReplaceCall, ReplacementPolicy
from tests.replacing.facts import NOW, OLD, activity, facts, group, member, reservation

USUAL = ReplacementPolicy()


def suspended(name: str, reason: str = "User suspended at 2026-12-01T11:00:00Z") -> GroupFacts:
    return facts(group=group(SuspendedProcesses=[{"ProcessName": name, "SuspensionReason": reason}]))


def failed_launch(minutes: float, message: str = "VcpuLimitExceeded") -> dict[str, Any]:
    return activity(
        "Launching a new EC2 instance.  Status Reason: quota",
        "",
        StatusCode="Failed",
        StatusMessage=message,
        StartTime=NOW - timedelta(minutes=minutes),
    )


OWN_TEMPLATES = {"LaunchTemplate": {"Overrides": [{"InstanceType": "p5", "LaunchTemplateSpecification": {}}]}}


@pytest.mark.parametrize(
    ("seen", "image"),
    [
        (facts(template={"ImageId": "ami-2"}), "ami-2"),
        (facts(template={"ImageId": "resolve:ssm:/aws/eks"}), ""),
        (facts(template=None), ""),
        (facts(group=group(MixedInstancesPolicy=OWN_TEMPLATES)), ""),
    ],
)
def test_v2_image_that_the_group_launches_is_told_where_one_is_known_for_all(seen: GroupFacts, image: str) -> None:
    assert survey(seen, USUAL).image == image


HOOK_OUT = {
    "LifecycleHookName": "Terminate-LC-Hook",
    "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
    "HeartbeatTimeout": 1800,
}
HOOK_IN = {**HOOK_OUT, "LifecycleHookName": "in", "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING"}
LAUNCH_FIRST = {"MinHealthyPercentage": 100, "MaxHealthyPercentage": 110}

CASES: dict[str, tuple[GroupFacts, GroupFinding, str]] = {
    "A1 group": (facts(group=None), GroupFinding.GROUP_GONE, "by hand"),
    "A1 instance": (facts(group=group(Instances=[])), GroupFinding.INSTANCE_GONE, "not in it any more"),
    "A4 ReplaceUnhealthy": (
        suspended("ReplaceUnhealthy"),
        GroupFinding.REPLACE_UNHEALTHY_SUSPENDED,
        "leave the unhealthy instance alone",
    ),
    "A4 Terminate": (suspended("Terminate"), GroupFinding.TERMINATE_SUSPENDED, "all that gathered at once"),
    "A4 Launch": (suspended("Launch"), GroupFinding.LAUNCH_SUSPENDED, "launch none"),
    "A4 HealthCheck": (suspended("HealthCheck"), GroupFinding.HEALTH_CHECK_SUSPENDED, "still takes our mark"),
    "A11": (
        suspended("HealthCheck", "Administrative suspension"),
        GroupFinding.ADMINISTRATIVELY_SUSPENDED,
        "AWS itself",
    ),
    "A18": (facts(group=group(AvailabilityZones=["a", "b"])), GroupFinding.AZ_REBALANCE, "another zone"),
    "fewer": (facts(group=group(DesiredCapacity=1)), GroupFinding.WANTS_FEWER, "it has 2 and wants 1"),
    "max": (facts(group=group(MaxSize=2)), GroupFinding.AT_MAX, "maximum of 2"),
    "min": (facts(group=group(MinSize=2)), GroupFinding.AT_MIN, "minimum of 2"),
    "A5": (
        facts(group=group(InstanceMaintenancePolicy=LAUNCH_FIRST)),
        GroupFinding.MAINTENANCE_POLICY,
        "launch before it terminates",
    ),
    "A6": (
        facts(group=group(Instances=[member(OLD, ProtectedFromScaleIn=True)])),
        GroupFinding.SCALE_IN_PROTECTED,
        "does not keep it",
    ),
    "standby": (facts(group=group(Instances=[member(OLD, LifecycleState="Standby")])), GroupFinding.STANDBY, "standby"),
    "template": (facts(template=None), GroupFinding.TEMPLATE_MISSING, "launch template"),
    "image": (facts(image=None), GroupFinding.IMAGE_MISSING, "ami-1 is gone"),
    "image off": (facts(image={"State": "disabled"}), GroupFinding.IMAGE_MISSING, "switched off"),
    "V2 image": (facts(template={"ImageId": "ami-2"}), GroupFinding.IMAGE_CHANGED, "launches ami-2"),
    "A12": (facts(hooks=[HOOK_OUT]), GroupFinding.TERMINATION_HOOK, "holds the old instance up for 1800 s"),
    "A13": (facts(hooks=[HOOK_IN]), GroupFinding.LAUNCH_HOOK, "holds the new instance up"),
    "A16 full": (
        facts(reservation_id="cr-1", reservation=reservation(AvailableInstanceCount=0)),
        GroupFinding.RESERVATION_FULL,
        "minutes after this instance is gone",
    ),
    "A16 ending": (
        facts(reservation_id="cr-1", reservation=reservation(EndDate=NOW + timedelta(minutes=59))),
        GroupFinding.RESERVATION_ENDING,
        "taken back at once",
    ),
    "A17": (
        facts(reservation_id="cr-1", reservation=reservation(State="expired")),
        GroupFinding.RESERVATION_GONE,
        "expired",
    ),
    "A17 gone": (facts(reservation_id="cr-1"), GroupFinding.RESERVATION_GONE, "is gone"),
    "A19 refresh": (
        facts(refreshes=[{"InstanceRefreshId": "r-1", "Status": "InProgress"}]),
        GroupFinding.INSTANCE_REFRESH,
        "r-1",
    ),
    "A19 EKS": (
        facts(nodegroup={"nodegroupName": "ng", "status": "UPDATING"}),
        GroupFinding.NODEGROUP_UPDATING,
        "EKS is updating",
    ),
    "A20": (
        facts(group=group(WarmPoolConfiguration={"MinSize": 1})),
        GroupFinding.WARM_POOL,
        "warm pool",
    ),
    "A23": (
        facts(nodegroup={"nodegroupName": "ng", "status": "ACTIVE", "nodeRepairConfig": {"enabled": True}}),
        GroupFinding.OTHER_REPAIRER,
        "EKS repairs nodes",
    ),
    "A10": (facts(activities=[failed_launch(5)]), GroupFinding.LAUNCHES_FAIL, "quota"),
    "A10 capacity": (
        facts(activities=[failed_launch(5, "InsufficientInstanceCapacity")]),
        GroupFinding.NO_CAPACITY,
        "goes on trying",
    ),
    "V11": (facts(failed_repairs=3), GroupFinding.FAILED_REPAIRS, "failed within a day"),
}


@pytest.mark.parametrize(("seen", "finding", "says"), CASES.values(), ids=CASES)
def test_each_finding_is_told_with_what_it_would_lead_to(seen: GroupFacts, finding: GroupFinding, says: str) -> None:
    found = {one.finding: one for one in findings(seen, USUAL)}
    assert says in found[finding].explanation
    assert found[finding].answer is USUAL_ANSWERS[finding]


def test_every_finding_has_a_case_and_a_usual_answer() -> None:
    assert {finding for _, finding, _ in CASES.values()} == set(GroupFinding) == set(USUAL_ANSWERS)


def test_nothing_is_found_where_nothing_stands_in_the_way() -> None:
    looked = survey(facts(), USUAL)
    assert (looked.findings, looked.obstacles, looked.desired) == ((), (), 2)
    assert (looked.call, looked.spare_first, looked.reboot_first) == (ReplaceCall.SET_HEALTH, False, False)


def test_a11_suspension_by_a_user_is_not_called_aws_own() -> None:
    found = {one.finding for one in findings(suspended("Launch"), USUAL)}
    assert GroupFinding.ADMINISTRATIVELY_SUSPENDED not in found


def test_a10_launch_that_failed_long_ago_or_was_made_good_is_no_finding() -> None:
    good = activity("Launching a new EC2 instance: i-0bbbbbbbbbbbbbbbb", "")
    for activities in ([failed_launch(61)], [good, failed_launch(5)]):
        assert not findings(facts(activities=activities), USUAL)


def test_instances_on_standby_or_already_unhealthy_do_not_make_a_group_look_too_large() -> None:
    others = [member("i-0b", LifecycleState="Standby"), member("i-0c", HealthStatus="Unhealthy")]
    seen = facts(group=group(Instances=[member(OLD), member("i-0a"), *others]))
    assert GroupFinding.WANTS_FEWER not in {one.finding for one in findings(seen, USUAL)}


def test_a7_instance_is_ended_by_name_where_the_group_does_not_look_at_its_health() -> None:
    allows = ReplacementPolicy(answers={GroupFinding.REPLACE_UNHEALTHY_SUSPENDED: Answer.GO_ON})
    looked = survey(suspended("ReplaceUnhealthy"), allows)
    assert (looked.obstacles, looked.call) == ((), ReplaceCall.TERMINATE)


def test_a16_no_spare_is_raised_where_held_capacity_is_full() -> None:
    full = facts(reservation_id="cr-1", reservation=reservation(AvailableInstanceCount=0))
    spare = ReplacementPolicy(spare_first=True)
    assert survey(facts(), spare).spare_first
    assert not survey(full, spare).spare_first


def test_a19_only_what_passes_by_itself_is_waited_for() -> None:
    refresh = facts(refreshes=[{"InstanceRefreshId": "r-1", "Status": "InProgress"}])
    both = facts(refreshes=refresh.refreshes, template=None)
    assert passes_by_itself(survey(refresh, USUAL))
    assert not passes_by_itself(survey(both, USUAL))
    assert not passes_by_itself(survey(facts(), USUAL))


@given(
    answers=st.dictionaries(st.sampled_from(GroupFinding), st.sampled_from(Answer)), case=st.sampled_from(list(CASES))
)
def test_policy_decides_every_finding_and_nothing_it_asks_about_is_passed_over(
    answers: dict[GroupFinding, Answer], case: str
) -> None:
    seen, finding, _ = CASES[case]
    try:
        rules = ReplacementPolicy(answers=answers)
    except ValidationError:
        return
    looked = survey(seen, rules)
    in_the_way = [one for one in looked.findings if one.answer in (Answer.ASK, Answer.WAIT)]
    assert looked.obstacles == tuple(one.explanation for one in in_the_way)
    assert next(one for one in looked.findings if one.finding is finding).answer is rules.answer(finding)


@pytest.mark.parametrize("answer", [Answer.GO_ON, Answer.SPARE_FIRST, Answer.REBOOT_FIRST])
def test_a4_no_policy_waves_a_suspended_launch_through(answer: Answer) -> None:
    with pytest.raises(ValidationError, match="no replacement would come"):
        ReplacementPolicy(answers={GroupFinding.LAUNCH_SUSPENDED: answer})
