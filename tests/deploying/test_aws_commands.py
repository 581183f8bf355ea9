"""The commands of docs/aws.md, run by a shell as they stand: they make what deploy/aws says, and remove it all."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest

from deploy.local.aws import running_aws
from tests.deploying.aws_command import aws_command, run

ROOT = Path(__file__).parents[2]
AWS = ROOT / "deploy/aws"
CLUSTER = "training"


class Associations:
    """EKS Pod Identity, which moto does not know."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}

    def create(self, given: dict[str, Any]) -> dict[str, Any]:
        identifier = f"a-{len(self.there)}"
        self.there[identifier] = {**given, "associationId": identifier}
        return {"association": self.there[identifier]}

    def list(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"associations": [one for one in self.there.values() if given.items() <= one.items()]}

    def delete(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"association": self.there.pop(given["associationId"])}


@pytest.fixture
def associations() -> Associations:
    return Associations()


@pytest.fixture
def shell(tmp_path: Path, associations: Associations) -> Iterator[dict[str, str]]:
    """A shell's environment, with ``aws`` on moto."""
    instead = {
        "CreatePodIdentityAssociation": associations.create,
        "ListPodIdentityAssociations": associations.list,
        "DeletePodIdentityAssociation": associations.delete,
    }
    with (
        running_aws(tmp_path) as aws,
        mock.patch.dict(os.environ, aws.environment()),
        aws_command(tmp_path, instead) as environment,
    ):
        yield {**os.environ, **environment}


def client(service: str) -> Any:
    return boto3.client(service)  # type: ignore[call-overload]


def script(heading: str, temporary: Path) -> str:
    """The commands under a heading."""
    (section,) = re.findall(rf"^## {heading}$(.*?)(?=^## |\Z)", (ROOT / "docs/aws.md").read_text(), re.M | re.S)
    commands = "\n".join(re.findall(r"^```console\n(.*?)^```", section, re.M | re.S))
    assert commands
    return commands.replace("/tmp/", f"{temporary}/")


def played(commands: str, shell: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=shell,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def policies_of(role: str) -> dict[str, Any]:
    iam = client("iam")
    names = iam.list_role_policies(RoleName=role)["PolicyNames"]
    return {name: iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in names}


def policy(name: str, **placed: str) -> Any:
    text = (AWS / "iam" / f"{name}.json").read_text()
    for placeholder, value in placed.items():
        assert placeholder in text
        text = text.replace(placeholder, value)
    return json.loads(text)


@pytest.mark.thorough
@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("bash")), reason="jq or bash is not there")
def test_commands_make_what_deploy_aws_says_and_those_of_removal_leave_nothing(
    shell: dict[str, str], associations: Associations, tmp_path: Path
) -> None:
    played(script("With the command line", tmp_path), shell, ROOT)

    assert policies_of("nodemend-worker-training") == {
        "nodemend-worker": policy("worker"),
        "nodemend-records": policy("records", BUCKET="training-nodemend-records"),
        "nodemend-checkpoints-training-checkpoints": policy("checkpoints", BUCKET="training-checkpoints"),
    }
    assert policies_of("nodemend-watch-cluster-training") == {
        "nodemend-watch-cluster": policy("watch-cluster"),
        "nodemend-health-queue": policy("health-queue", QUEUE="nodemend-training-health"),
    }
    roles = {one["serviceAccount"]: one["roleArn"].rpartition("/")[2] for one in associations.there.values()}
    assert roles == {name: f"{name}-training" for name in ("nodemend-worker", "nodemend-watch-cluster")}

    (topic,) = client("sns").list_topics()["Topics"]
    there = {alarm["AlarmName"]: alarm for alarm in client("cloudwatch").describe_alarms()["MetricAlarms"]}
    wanted = json.loads((AWS / "alarms.json").read_text().replace("CLUSTER", CLUSTER))
    assert there.keys() == {alarm["AlarmName"] for alarm in wanted}
    for alarm in wanted:
        kept = there[alarm["AlarmName"]]
        assert kept["AlarmActions"] == [topic["TopicArn"]]
        for key in alarm.keys() - {"Metrics"}:
            assert kept[key] == alarm[key], (alarm["AlarmName"], key)

    lock = client("s3").get_object_lock_configuration(Bucket="training-nodemend-records")
    retention = lock["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
    assert (retention["Mode"], retention["Days"]) == ("COMPLIANCE", 400)
    (target,) = client("events").list_targets_by_rule(Rule="nodemend-training-health")["Targets"]
    url = client("sqs").get_queue_url(QueueName="nodemend-training-health")["QueueUrl"]
    told = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert target["Arn"] == told["QueueArn"]
    assert json.loads(told["Policy"])["Statement"][0]["Resource"] == told["QueueArn"]

    played("cd deploy/aws\n" + script("Removing it", tmp_path), shell, ROOT)

    assert not client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert not client("sns").list_topics()["Topics"]
    assert not client("sqs").list_queues().get("QueueUrls")
    assert not client("events").list_rules()["Rules"]
    assert not associations.there
    assert not [role for role in client("iam").list_roles()["Roles"] if role["RoleName"].startswith("nodemend")]
    assert [bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]] == ["training-nodemend-records"]


@pytest.mark.parametrize("wrong", [["sqs", "make-queue"], ["sqs", "create-queue", "--nam", "x"]])
def test_operation_or_option_that_aws_does_not_have_is_refused(wrong: list[str], tmp_path: Path) -> None:
    with mock.patch.dict(os.environ, AWS_DEFAULT_REGION="us-west-2"), pytest.raises(ValueError, match="has no"):
        run(wrong, tmp_path)
