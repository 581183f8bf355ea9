"""A simulated AWS account: what Terraform would make in it, made there; and whether deploy/aws is what it holds."""

import json
from pathlib import Path
from typing import Any, Final

import boto3

from tests.deploying.terraform import Resources

AWS: Final = Path(__file__).parents[2] / "deploy/aws"
CLUSTER: Final = "training"
RECORDS: Final = "training-nodemend-records"
CHECKPOINTS: Final = "training-checkpoints"


def client(service: str) -> Any:
    """Of the service, on what the environment says."""
    return boto3.client(service)  # type: ignore[call-overload]


def make(resources: Resources) -> None:
    """Make there what Terraform has planned, by the calls that its provider makes for each resource."""
    iam, s3, sqs, events = client("iam"), client("s3"), client("sqs"), client("events")
    for one in resources.get("aws_iam_role", []):
        iam.create_role(RoleName=one["name"], AssumeRolePolicyDocument=one["assume_role_policy"])
    for one in resources.get("aws_iam_role_policy", []):
        iam.put_role_policy(RoleName=one["role"], PolicyName=one["name"], PolicyDocument=one["policy"])
    for one in resources.get("aws_sns_topic", []):
        assert client("sns").create_topic(Name=one["name"])["TopicArn"] == one["arn"]
    for one in resources.get("aws_sns_topic_subscription", []):
        client("sns").subscribe(TopicArn=one["topic_arn"], Protocol=one["protocol"], Endpoint=one["endpoint"])
    for one in resources.get("aws_cloudwatch_metric_alarm", []):
        client("cloudwatch").put_metric_alarm(**_alarm(one))
    for one in resources.get("aws_s3_bucket", []):
        s3.create_bucket(
            Bucket=one["bucket"],
            ObjectLockEnabledForBucket=one["object_lock_enabled"],
            CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name},
        )
    for one in resources.get("aws_s3_bucket_versioning", []):
        (status,) = one["versioning_configuration"]
        s3.put_bucket_versioning(Bucket=one["bucket"], VersioningConfiguration={"Status": status["status"]})
    for one in resources.get("aws_s3_bucket_object_lock_configuration", []):
        (rule,) = one["rule"]
        (kept,) = rule["default_retention"]
        retention = {"Mode": kept["mode"], "Days": kept["days"]}
        lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}}
        s3.put_object_lock_configuration(Bucket=one["bucket"], ObjectLockConfiguration=lock)
    for one in resources.get("aws_s3_bucket_public_access_block", []):
        names = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
        s3.put_public_access_block(
            Bucket=one["bucket"],
            PublicAccessBlockConfiguration={name.title().replace("_", ""): one[name] for name in names},
        )
    for one in resources.get("aws_sqs_queue", []):
        kept_s, encrypted = one["message_retention_seconds"], one["sqs_managed_sse_enabled"]
        attributes = {"MessageRetentionPeriod": f"{kept_s}", "SqsManagedSseEnabled": f"{encrypted}".lower()}
        sqs.create_queue(QueueName=one["name"], Attributes=attributes)
    for one in resources.get("aws_sqs_queue_policy", []):
        url = sqs.get_queue_url(QueueName=one["queue_url"].rpartition("/")[2])["QueueUrl"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": one["policy"]})
    for one in resources.get("aws_cloudwatch_event_rule", []):
        assert events.put_rule(Name=one["name"], EventPattern=one["event_pattern"])["RuleArn"] == one["arn"]
    for one in resources.get("aws_cloudwatch_event_target", []):
        events.put_targets(Rule=one["rule"], Targets=[{"Id": "queue", "Arn": one["arn"]}])


def _alarm(one: dict[str, Any]) -> dict[str, Any]:
    said = {
        "AlarmName": one["alarm_name"],
        "AlarmDescription": one["alarm_description"],
        "ComparisonOperator": one["comparison_operator"],
        "Threshold": one["threshold"],
        "EvaluationPeriods": one["evaluation_periods"],
        "TreatMissingData": one["treat_missing_data"],
        "AlarmActions": one["alarm_actions"],
        "Namespace": one["namespace"],
        "MetricName": one["metric_name"],
        "Statistic": one["statistic"],
        "Period": one["period"],
        "Dimensions": [{"Name": name, "Value": value} for name, value in (one["dimensions"] or {}).items()],
        "Metrics": [
            {
                "Id": query["id"],
                "Expression": query["expression"],
                "Period": query["period"],
                "ReturnData": query["return_data"],
            }
            for query in one["metric_query"]
        ],
    }
    return {name: value for name, value in said.items() if value not in (None, [])}


def policies_of(role: str) -> dict[str, Any]:
    """The policies within a role, by name."""
    iam = client("iam")
    names = iam.list_role_policies(RoleName=role)["PolicyNames"]
    return {name: iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in names}


def policy(name: str, **placed: str) -> Any:
    """A policy of deploy/aws, with its placeholders filled."""
    text = (AWS / "iam" / f"{name}.json").read_text()
    for placeholder, value in placed.items():
        assert placeholder in text
        text = text.replace(placeholder, value)
    return json.loads(text)


def assert_holds_deploy_aws() -> None:
    """All that docs/aws.md tells of is there, for cluster ``training`` with its buckets, its queue and its alarms."""
    assert policies_of("nodemend-worker-training") == {
        "nodemend-worker": policy("worker"),
        "nodemend-records": policy("records", BUCKET=RECORDS),
        f"nodemend-checkpoints-{CHECKPOINTS}": policy("checkpoints", BUCKET=CHECKPOINTS),
    }
    assert policies_of("nodemend-watch-cluster-training") == {
        "nodemend-watch-cluster": policy("watch-cluster"),
        "nodemend-health-queue": policy("health-queue", QUEUE="nodemend-training-health"),
    }
    for role in ("nodemend-worker-training", "nodemend-watch-cluster-training"):
        (trusted,) = client("iam").get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]["Statement"]
        assert trusted["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert (trusted["Effect"], trusted["Action"]) == ("Allow", ["sts:AssumeRole", "sts:TagSession"])

    (topic,) = client("sns").list_topics()["Topics"]
    (told,) = client("sns").list_subscriptions()["Subscriptions"]
    assert (told["TopicArn"], told["Endpoint"]) == (topic["TopicArn"], "oncall@example.com")
    there = {alarm["AlarmName"]: alarm for alarm in client("cloudwatch").describe_alarms()["MetricAlarms"]}
    wanted = json.loads((AWS / "alarms.json").read_text().replace("CLUSTER", CLUSTER))
    assert there.keys() == {alarm["AlarmName"] for alarm in wanted}
    for alarm in wanted:
        kept = there[alarm["AlarmName"]]
        assert kept["AlarmActions"] == [topic["TopicArn"]]
        for key in alarm.keys() - {"Metrics"}:
            assert kept[key] == alarm[key], (alarm["AlarmName"], key)
        for query, asked in zip(alarm.get("Metrics", []), kept.get("Metrics", []), strict=True):
            assert query.items() <= asked.items(), alarm["AlarmName"]

    s3 = client("s3")
    lock = s3.get_object_lock_configuration(Bucket=RECORDS)
    retention = lock["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
    assert (retention["Mode"], retention["Days"]) == ("COMPLIANCE", 400)
    assert s3.get_bucket_versioning(Bucket=RECORDS)["Status"] == "Enabled"
    assert all(s3.get_public_access_block(Bucket=RECORDS)["PublicAccessBlockConfiguration"].values())

    rule = client("events").describe_rule(Name="nodemend-training-health")
    assert json.loads(rule["EventPattern"]) == json.loads((AWS / "health-events.json").read_text())
    (target,) = client("events").list_targets_by_rule(Rule="nodemend-training-health")["Targets"]
    url = client("sqs").get_queue_url(QueueName="nodemend-training-health")["QueueUrl"]
    queue = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert target["Arn"] == queue["QueueArn"]
    assert (queue["MessageRetentionPeriod"], queue["SqsManagedSseEnabled"]) == ("1209600", "true")
    (statement,) = json.loads(queue["Policy"])["Statement"]
    assert statement["Resource"] == queue["QueueArn"]
    assert rule["Arn"] in json.dumps(statement["Condition"])
