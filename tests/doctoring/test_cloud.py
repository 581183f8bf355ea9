"""IAM as the doctor asks it: the worker's role, by simulation. Moto knows none; botocore's stub checks the form."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from cli.doctor import cloud
from cli.doctor.findings import Finding, Level
from contract.policy import GroupPolicy, Mode
from contract.replacement import RebootMode, ReplacementPolicy
from deploy.aws import WORKER_POLICY
from tests.recording import allowed_actions

ROLE = "arn:aws:iam::123456789012:role/nodemend-worker"
ARN = "arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:1:autoScalingGroupName/trn1"
EVERYTHING = GroupPolicy(
    mode=Mode.ACT, replacement=ReplacementPolicy(spare_first=True, reboot=RebootMode.REPAIRABLE, report_to_ec2=True)
)


def group(policy: GroupPolicy) -> cloud.Group:
    tags = [{"Key": "team", "Value": "training"}]
    return cloud.Group({"AutoScalingGroupARN": ARN, "AutoScalingGroupName": "trn1", "Tags": tags}, "i-1", policy)


@contextmanager
def iam(*answers: dict[str, str]) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """A client that decides as each answer says, \"allowed\" where it says nothing; and what it was asked."""
    client: Any = boto3.client("iam", aws_access_key_id="nobody", aws_secret_access_key="nobody")  # type: ignore[call-overload]
    asked: list[dict[str, Any]] = []
    client.meta.events.register(
        "provide-client-params.iam.SimulatePrincipalPolicy", lambda params, **_: asked.append(params)
    )
    decisions = iter(answers)

    def decide(params: dict[str, Any], **_: Any) -> None:
        decided = next(decisions, {})
        results = [
            {"EvalActionName": action, "EvalDecision": decided.get(action, "allowed")}
            for action in params["ActionNames"]
        ]
        stub.add_response("simulate_principal_policy", {"EvaluationResults": results, "IsTruncated": False})

    client.meta.events.register("provide-client-params.iam.SimulatePrincipalPolicy", decide)
    with closing(client), Stubber(client) as stub:
        yield client, asked


def simulated(policy: GroupPolicy, *answers: dict[str, str]) -> tuple[list[Finding], list[dict[str, Any]]]:
    with iam(*answers) as (client, asked):
        return list(cloud._simulated(client, ROLE, [group(policy)])), asked


def test_role_that_may_everything_is_well_and_was_asked_with_the_groups_tags() -> None:
    found, asked = simulated(EVERYTHING)
    assert [one.level for one in found] == [Level.OK, Level.OK]
    keys = {entry["ContextKeyName"] for entry in asked[1]["ContextEntries"]}
    assert keys == {"aws:ResourceTag/team", "autoscaling:ResourceTag/team"}
    assert asked[1]["ResourceArns"] == [ARN]
    assert asked[2]["ResourceArns"] == ["arn:aws:ec2:us-west-2:123456789012:instance/i-1"]


@pytest.mark.parametrize(("mode", "level"), [(Mode.ACT, Level.WRONG), (Mode.SHADOW, Level.NOTE)])
def test_right_that_a_group_lacks_is_named_and_matters_where_it_is_repaired(mode: Mode, level: Level) -> None:
    (_, found), _ = simulated(GroupPolicy(mode=mode), {}, {"autoscaling:SetInstanceHealth": "implicitDeny"})
    assert (found.level, found.about) == (level, "IAM, group trn1")
    assert "may not autoscaling:SetInstanceHealth" in found.says
    assert found.means
    assert found.mend


def test_look_that_is_refused_is_wrong_whatever_acts() -> None:
    found, _ = simulated(GroupPolicy(), {"ec2:DescribeInstances": "explicitDeny"})
    assert (found[0].level, found[0].about) == (Level.WRONG, "IAM")


def test_what_is_asked_about_is_what_the_policy_for_the_worker_allows() -> None:
    asked = {*cloud.looks(json.loads(WORKER_POLICY.read_text())), *cloud.changes(EVERYTHING)}
    assert asked <= allowed_actions()
    assert cloud.changes(GroupPolicy()) == [
        "autoscaling:SetInstanceHealth",
        "autoscaling:TerminateInstanceInAutoScalingGroup",
    ]
