"""The Terraform module, by Terraform itself, with the schema of its provider's release 6.25.

No package registry has the provider, so a stand-in serves its schema: Terraform validates, plans and keeps a state, and
what that holds is made in a simulated AWS and looked at. What the provider and AWS check beyond that is not seen here.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.local.aws import running_aws
from tests.deploying import account
from tests.deploying.terraform import ROOT, Terraform, copied, is_there

MODULE, AWS = ROOT / "deploy/terraform", ROOT / "deploy/aws"
LEAST = {"cluster": account.CLUSTER}
ALL = {
    **LEAST,
    "record_bucket": account.RECORDS,
    "checkpoint_buckets": [account.CHECKPOINTS],
    "alarm_emails": ["oncall@example.com"],
    "health_queue": True,
}

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not is_there(), reason="Terraform is not there"),
]


@pytest.fixture
def terraform(tmp_path: Path) -> Terraform:
    return Terraform(copied(tmp_path))


def test_terraform_takes_the_module(terraform: Terraform) -> None:
    assert not terraform.validate()


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("alarms.tf", "evaluation_periods ", "evaluation_period ", 'argument "evaluation_periods" is required'),
        ("alarms.tf", "period      = metric_query", "perid      = metric_query", 'argument named "perid" is not'),
        ("health.tf", "= 1209600", '= "two weeks"', "a number is required"),
        ("health.tf", "aws_sqs_queue.health[each.key].arn", "aws_sqs_queue.healthy[each.key].arn", "has not been decl"),
        (
            "health.tf",
            "aws_sqs_queue.health[each.key].id",
            "aws_sqs_queue.health[each.key].uri",
            'not have an attribute named "uri"',
        ),
        ("records.tf", "default_retention {", "retention {", 'Blocks of type "retention" are not expected'),
        ("records.tf", "var.record_bucket ==", "var.records_bucket ==", "has not been declared"),
        ("roles.tf", '"aws_iam_role" "component"', '"aws_iam_roles" "component"', 'resource type "aws_iam_roles"'),
    ],
)
def test_what_its_provider_does_not_take_is_refused(
    terraform: Terraform, file: str, old: str, new: str, words: str
) -> None:
    path = terraform.module / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    # What leads through one of several is looked at only when they are planned.
    assert words in (terraform.validate() or terraform.refusal(**ALL))


def test_what_it_plans_is_what_deploy_aws_says(
    terraform: Terraform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = terraform.apply(**ALL)
    with running_aws(tmp_path) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        account.make(resources)
        account.assert_holds_deploy_aws()
    roles = {one["service_account"]: one["role_arn"] for one in resources["aws_eks_pod_identity_association"]}
    assert roles == {
        name: f"arn:aws:iam::123456789012:role/{name}-training"
        for name in ("nodemend-worker", "nodemend-watch-cluster")
    }


def test_what_nobody_asked_for_is_not_made(terraform: Terraform) -> None:
    resources = terraform.apply(**LEAST)
    assert {kind: len(made) for kind, made in resources.items() if kind != "aws_cloudwatch_metric_alarm"} == {
        "aws_iam_role": 2,
        "aws_iam_role_policy": 2,
        "aws_eks_pod_identity_association": 2,
        "aws_sns_topic": 1,
    }


def test_destroyed_it_leaves_nothing(terraform: Terraform) -> None:
    terraform.apply(**ALL)
    done = terraform.run("destroy", "-auto-approve", "-no-color", **ALL)
    assert done.returncode == 0, done.stderr
    assert not json.loads(terraform.run("show", "-json").stdout).get("values")


def test_outputs_are_what_the_chart_asks_for(terraform: Terraform) -> None:
    def outputs() -> dict[str, Any]:
        return {name: one["value"] for name, one in json.loads(terraform.run("output", "-json").stdout).items()}

    terraform.apply(**LEAST)
    assert outputs()["worker_role_arn"] == "arn:aws:iam::123456789012:role/nodemend-worker-training"
    # Terraform leaves out an output that is null.
    assert "health_queue_url" not in outputs()
    terraform.apply(**ALL)
    assert outputs()["health_queue_url"].endswith("/nodemend-training-health")
    assert outputs()["alarm_topic_arn"].endswith(":nodemend-training")


def test_longest_name_of_a_cluster_makes_names_that_aws_takes(terraform: Terraform) -> None:
    # IAM, CreateRole and EventBridge, PutRule: 64. SQS, CreateQueue: 80. CloudWatch, PutMetricAlarm: 255.
    resources = terraform.apply(**{**ALL, "cluster": "c" * 100})
    limits = {"aws_iam_role": 64, "aws_cloudwatch_event_rule": 64, "aws_sqs_queue": 80, "aws_sns_topic": 256}
    for kind, limit in limits.items():
        names = [one["name"] for one in resources[kind]]
        assert len(set(names)) == len(names)
        assert max(map(len, names)) <= limit, kind
    assert max(len(one["alarm_name"]) for one in resources["aws_cloudwatch_metric_alarm"]) <= 255


def test_clusters_that_begin_alike_share_nothing(terraform: Terraform) -> None:
    def names(cluster: str) -> set[str]:
        resources = terraform.apply(**{**ALL, "cluster": cluster})
        kinds = ("aws_iam_role", "aws_cloudwatch_event_rule", "aws_sqs_queue", "aws_sns_topic")
        alarms = {one["alarm_name"] for one in resources["aws_cloudwatch_metric_alarm"]}
        return alarms | {one["name"] for kind in kinds for one in resources[kind]}

    alike = "c" * 90
    assert not names(f"{alike}-east") & names(f"{alike}-west")


@pytest.mark.parametrize(
    "wrong",
    [
        {"cluster": ""},
        {"cluster": "training/eu"},
        {"namespace": "Node_mend"},
        {"record_bucket": "s3://records"},
        {"record_bucket": "ab"},
        {"record_retention_days": 0},
        {"record_retention_days": 1.5},
        {"checkpoint_buckets": ["fine-bucket", "training-checkpoints/jobs"]},
        {"alarm_emails": ["oncall@example.com", "oncall"]},
        {"health_queue": "perhaps"},
    ],
    ids=str,
)
def test_variable_that_cannot_be_meant_is_refused_by_its_name(terraform: Terraform, wrong: dict[str, Any]) -> None:
    told = terraform.refusal(**{**LEAST, **wrong})
    assert "Invalid value for" in told
    assert next(iter(wrong)) in told


def test_variable_that_is_null_is_left_out(terraform: Terraform) -> None:
    unset = dict.fromkeys(("namespace", "record_bucket", "checkpoint_buckets", "alarm_emails", "health_queue"))
    resources = terraform.apply(**LEAST, **unset)
    assert "aws_s3_bucket" not in resources
    assert {one["namespace"] for one in resources["aws_eks_pod_identity_association"]} == {"nodemend"}


def test_each_variable_is_said_what_it_is_for_and_used() -> None:
    text = "".join(path.read_text() for path in MODULE.glob("*.tf") if path.name != "variables.tf")
    declared = (MODULE / "variables.tf").read_text()
    names = re.findall(r'^variable "(\w+)" \{$', declared, re.MULTILINE)
    assert set(names) == set(re.findall(r"\bvar\.(\w+)", text))
    assert len(re.findall(r'^  description = "', declared, re.MULTILINE)) == len(names)


def test_every_file_of_deploy_aws_is_used() -> None:
    text = "".join(path.read_text() for path in MODULE.glob("*.tf"))
    used = set(re.findall(r"\$\{path\.module\}/\.\./aws/([\w./-]+\.json)", text))
    used |= {f"iam/{name}" for name in re.findall(r"\$\{local\.iam\}/([\w-]+\.json)", text)}
    # Queries are asked by people.
    assert used == {str(path.relative_to(AWS)) for path in AWS.rglob("*.json")} - {"queries.json"}


def test_files_are_as_terraform_writes_them() -> None:
    done = subprocess.run(
        ["terraform", f"-chdir={MODULE}", "fmt", "-check", "-diff"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
