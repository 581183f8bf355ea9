"""What AWS is asked to allow and to watch: no more and no less than Nodemend calls, in words that AWS takes.

That it suffices is looked at when the session ends: every call that moto saw is allowed (``tests.recording``).
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest

from contract.names import CLOUDWATCH_NAMESPACE, NEURON_CLOUDWATCH_NAMESPACE, CloudWatchMetric, Outcome
from deploy.local.aws import running_aws
from tests.recording import IAM, allowed_actions

ROOT = Path(__file__).parents[2]
ALARMS = ROOT / "deploy" / "aws" / "alarms.json"
CALLED = re.compile(r"""["\s:](?P<action>(?:autoscaling|ec2|eks|s3|cloudwatch|sqs):[A-Z]\w+)""")


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Moto's server."""
    with running_aws(tmp_path_factory.mktemp("aws")) as running, mock.patch.dict(os.environ, running.environment()):
        yield


def test_every_action_that_is_allowed_is_one_that_the_code_calls() -> None:
    sources = [path for folder in ("activities", "worker", "detector") for path in (ROOT / folder).rglob("*.py")]
    called = {found["action"] for path in sources for found in CALLED.finditer(path.read_text())}
    assert allowed_actions() == called


@pytest.mark.parametrize(
    "action",
    [
        "ec2:TerminateInstances",
        "autoscaling:SetDesiredCapacity",
        "autoscaling:UpdateAutoScalingGroup",
        "autoscaling:DetachInstances",
        "autoscaling:ResumeProcesses",
    ],
)
def test_a7_a8_a14_no_instance_is_ended_past_its_group_and_no_group_is_made_smaller(action: str) -> None:
    """Past its group the hooks run too late (A8); a smaller group ends others, and asks no budget (A7, A14)."""
    assert action not in allowed_actions()


def test_nothing_but_looking_is_allowed_on_everything() -> None:
    anywhere = {
        action
        for path in IAM.glob("*.json")
        for statement in json.loads(path.read_text())["Statement"]
        if statement["Resource"] == "*" and "Condition" not in statement
        for action in statement["Action"]
    }
    changing = {action for action in anywhere if not action.split(":")[1].startswith(("Describe", "Get"))}
    # ReportInstanceStatus knows no resources (Service Authorization Reference); it tells AWS, and changes nothing.
    assert changing == {"ec2:ReportInstanceStatus"}


@pytest.mark.parametrize("path", sorted(IAM.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("aws")
def test_policy_is_one_that_iam_takes(path: Path) -> None:
    client: Any = boto3.client("iam")  # type: ignore[call-overload]
    client.create_policy(PolicyName=path.stem, PolicyDocument=path.read_text())


@pytest.mark.usefixtures("aws")
def test_queue_and_rule_are_ones_that_aws_takes_and_only_the_rule_may_write() -> None:
    sqs: Any = boto3.client("sqs")  # type: ignore[call-overload]
    events: Any = boto3.client("events")  # type: ignore[call-overload]
    name = "nodemend-training-health"
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    rule = events.put_rule(Name=name, EventPattern=(ROOT / "deploy/aws/health-events.json").read_text())["RuleArn"]
    assert not events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])["FailedEntryCount"]
    policy = (ROOT / "deploy/aws/queue-policy.json").read_text().replace("QUEUE_ARN", arn).replace("RULE_ARN", rule)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    (statement,) = json.loads(policy)["Statement"]
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": rule}}


@pytest.mark.usefixtures("aws")
def test_alarms_are_ones_that_cloudwatch_takes_on_metrics_that_there_are() -> None:
    client: Any = boto3.client("cloudwatch")  # type: ignore[call-overload]
    alarms = json.loads(ALARMS.read_text().replace("CLUSTER", "training"))
    for alarm in alarms:
        client.put_metric_alarm(**alarm)
    found = client.describe_alarms()["MetricAlarms"]
    assert {alarm["AlarmName"] for alarm in found} == {alarm["AlarmName"] for alarm in alarms}
    told = json.dumps(alarms)
    assert set(re.findall(r'"MetricName": "(\w+)"', told)) <= set(CloudWatchMetric)
    assert set(re.findall(r"SUM\((\w+)\)", told)) <= set(CloudWatchMetric)
    assert set(re.findall(r'"Name": "Outcome", "Value": "([\w-]+)"', told)) <= set(Outcome)


def test_metrics_are_told_under_the_namespaces_that_the_policy_names() -> None:
    (measure,) = [
        statement
        for statement in json.loads((IAM / "worker.json").read_text())["Statement"]
        if statement["Sid"] == "Measure"
    ]
    told = measure["Condition"]["StringEquals"]["cloudwatch:namespace"]
    assert told == [NEURON_CLOUDWATCH_NAMESPACE, CLOUDWATCH_NAMESPACE]
