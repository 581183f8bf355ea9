"""What the doctor says where AWS refuses its caller one action: moto holds a real user's policy against each call."""

import json
import os
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
from kubernetes.client import ApiClient, Configuration

from activities.cluster import Cluster
from activities.machines.karpenter import NODEPOOL_LABEL
from cli.doctor.findings import Finding, Level
from cli.doctor.groups import of_groups
from contract.policy import Policy
from deploy.aws import WORKER_POLICY
from deploy.local.aws import AMI, Aws, running_aws
from worker.clients import auto_scaling_client, aws_session

pytestmark = pytest.mark.stack

GROUPS = ("trn1", "trn2")
USER, POLICY = "doctor", "policy"
EVERYBODY, NOBODY = b"inf", b"0"
POLICY_TEXT = '{"default": {"mode": "act", "replacement": {"reboot": "repairable"}}}'


@dataclass
class Account:
    """Two groups of one machine each, and a user who looks at them."""

    aws: Aws
    nodes: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)

    def build(self) -> None:
        with mock.patch.dict(os.environ, self.aws.environment()):
            session: Any = aws_session()
            scaling, ec2, iam = (session.client(name) for name in ("autoscaling", "ec2", "iam"))
            subnet = ec2.describe_subnets()["Subnets"][0]
            for name in GROUPS:
                data = {"ImageId": AMI, "InstanceType": "trn1.32xlarge"}
                ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
                scaling.create_auto_scaling_group(
                    AutoScalingGroupName=name,
                    LaunchTemplate={"LaunchTemplateName": name},
                    MinSize=0,
                    MaxSize=4,
                    DesiredCapacity=0,
                    VPCZoneIdentifier=subnet["SubnetId"],
                )
                (launched,) = ec2.run_instances(
                    ImageId=AMI, InstanceType="trn1.32xlarge", MinCount=1, MaxCount=1, SubnetId=subnet["SubnetId"]
                )["Instances"]
                scaling.attach_instances(AutoScalingGroupName=name, InstanceIds=[launched["InstanceId"]])
            for one in scaling.describe_auto_scaling_instances()["AutoScalingInstances"]:
                machine, zone = one["InstanceId"], one["AvailabilityZone"]
                metadata = {"name": machine, "uid": machine, "labels": {}, "annotations": {}}
                spec = {"providerID": f"aws:///{zone}/{machine}"}
                self.nodes.append({"metadata": metadata, "spec": spec, "status": {"conditions": [], "nodeInfo": {}}})
            iam.create_user(UserName=USER)
            key = iam.create_access_key(UserName=USER)["AccessKey"]
            self.keys = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    def examined(self, lacking: Sequence[str], *others: dict[str, Any]) -> list[Finding]:
        """What the doctor finds with the worker's policy less some actions; of other Nodes, too."""
        policy = json.loads(WORKER_POLICY.read_text())
        for statement in policy["Statement"]:
            statement["Action"] = [action for action in statement["Action"] if action not in lacking]
        policy["Statement"] = [one for one in policy["Statement"] if one["Action"]]
        with mock.patch.dict(os.environ, self.aws.environment()):
            session: Any = aws_session()
            session.client("iam").put_user_policy(UserName=USER, PolicyName=POLICY, PolicyDocument=json.dumps(policy))
        self._check(NOBODY)
        try:
            with mock.patch.dict(os.environ, {**self.aws.environment(), **self.keys}):
                away = Cluster(ApiClient(_away()))
                held = Policy.model_validate_json(POLICY_TEXT)
                return list(of_groups(away, auto_scaling_client(), [*others, *self.nodes], held, "nodemend"))
        finally:
            self._check(EVERYBODY)

    def _check(self, allowed_before: bytes) -> None:
        """Moto's own switch: how many calls it lets pass before it asks IAM about each."""
        headers = {"Content-Type": "text/plain"}
        url = f"{self.aws.url}/moto-api/reset-auth"
        urllib.request.urlopen(
            urllib.request.Request(url, data=allowed_before, headers=headers, method="POST"), timeout=5
        ).close()


def _away() -> Configuration:
    """No API server: AWS alone is looked at here, and where it is asked for more, that is a finding."""
    away = Configuration(host="http://127.0.0.1:9")
    away.retries = False
    return away


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running_aws(tmp_path_factory.mktemp("aws")) as aws:
        built = Account(aws)
        built.build()
        yield built


def test_policy_as_it_is_shipped_is_enough_to_look(account: Account) -> None:
    found = account.examined([])
    assert [one for one in found if one.level is Level.WRONG] == []
    assert {f"group {name}" for name in GROUPS} <= {one.about for one in found}


@pytest.mark.parametrize(
    "action",
    [
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeInstanceRefreshes",
        "autoscaling:DescribeLifecycleHooks",
        "autoscaling:DescribeScalingActivities",
        "ec2:DescribeImages",
        "ec2:DescribeInstances",
        "ec2:DescribeLaunchTemplateVersions",
    ],
)
def test_action_that_is_refused_is_named_with_what_it_means_and_what_to_do(account: Account, action: str) -> None:
    found = account.examined([action])
    told = [one for one in found if action in f"{one.says} {one.mend}"]
    assert told, found
    assert all(one.level is not Level.OK and one.says and one.means and one.mend for one in told)


def test_kind_of_machine_that_cannot_be_read_leaves_other_groups_to_be_looked_at(account: Account) -> None:
    metadata = {"name": "k", "uid": "k", "labels": {NODEPOOL_LABEL: "pool"}, "annotations": {}}
    karpenters = {**account.nodes[0], "metadata": metadata}
    found = account.examined([], karpenters, karpenters)
    (unseen,) = [one for one in found if one.about == "nodes"]
    assert (unseen.level, "2 nodes" in unseen.means, bool(unseen.mend)) == (Level.WRONG, True, True)
    assert "cannot be reached" in unseen.says
    assert {f"group {name}" for name in GROUPS} <= {one.about for one in found}
