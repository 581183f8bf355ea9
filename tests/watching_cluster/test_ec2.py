"""What EC2 says of its instances: asked of moto, whose machines are all well; what moto cannot say, a stub does.

moto 5 answers ``DescribeInstanceStatus`` with `ok` for every instance and knows no scheduled events, so botocore's own
stubber, which checks both question and answer against the API's model, stands in for that one call.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from contract.fault import Verdict
from contract.names import ClusterSource
from detector.cluster import ec2
from detector.cluster.api import Api
from detector.cluster.documents import load_rules
from detector.cluster.settings import WatchSettings
from detector.cluster.watching import Watching
from detector.trouble import Trouble
from tests.conftest import MakeNodeGroup
from tests.detecting.running import wait_until
from tests.watching_cluster.running import Cluster


def no_pause(_seconds: float) -> None:
    """Tests need not be polite."""


def retired(instance: str) -> dict[str, Any]:
    """What EC2 says of an instance on failing hardware."""
    event = {
        "InstanceEventId": "instance-event-0d59937288b749b32",
        "Code": "instance-retirement",
        "Description": "The instance is running on degraded hardware",
        "NotBefore": datetime(2026, 12, 20, tzinfo=UTC),
    }
    return {"InstanceId": instance, "Events": [event]}


@contextmanager
def stubbed() -> Iterator[tuple[Any, Stubber]]:
    """A client whose answers are written by the test."""
    client = boto3.client("ec2", region_name="us-west-2", aws_access_key_id="nobody", aws_secret_access_key="nobody")
    with closing(client), Stubber(client) as stub:
        yield client, stub


def answers(stub: Stubber, *pages: dict[str, Any]) -> None:
    """The answers to one round: those to the first question, and nothing to the other two."""
    first, *others = ec2.questions()
    token = None
    for page in pages:
        asked = {"Filters": first, "MaxResults": 1000, **({"NextToken": token} if token else {})}
        stub.add_response("describe_instance_status", page, asked)
        token = page.get("NextToken")
    for filters in others:
        stub.add_response(
            "describe_instance_status", {"InstanceStatuses": []}, {"Filters": filters, "MaxResults": 1000}
        )


def test_machines_that_are_well_say_nothing(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    node_group(2)
    with closing(cluster.stack.aws.client("ec2")) as client:
        assert ec2.ask(client, no_pause) == {}


@pytest.mark.parametrize("make", [ec2.client, lambda: ec2.client_of("sqs", "", "")], ids=["ec2", "sqs"])
def test_region_is_the_one_that_the_chart_names(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    with closing(make()) as client:
        assert client.meta.region_name == "eu-north-1"
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(Trouble, match="set AWS_REGION, or"):
        make()


def test_every_page_is_read_with_a_pause_between_questions() -> None:
    pauses: list[float] = []
    with stubbed() as (client, stub):
        answers(
            stub,
            {"InstanceStatuses": [retired("i-00000000000000001")], "NextToken": "more"},
            {"InstanceStatuses": [retired("i-00000000000000002")]},
        )
        found = ec2.ask(client, pauses.append)
        stub.assert_no_pending_responses()
    assert found.keys() == {"i-00000000000000001", "i-00000000000000002"}
    assert sum(pause > 0 for pause in pauses) == 2


def test_refusal_says_which_right_is_missing() -> None:
    with stubbed() as (client, stub):
        stub.add_client_error("describe_instance_status", "UnauthorizedOperation", http_status_code=403)
        with pytest.raises(Trouble, match="allow ec2:DescribeInstanceStatus"):
            ec2.ask(client, no_pause)


def test_retirement_starts_one_incident_however_often_it_is_said(
    cluster: Cluster, node_group: MakeNodeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    retiring, other = node_group(2).nodes
    temporal = cluster.stack.temporal
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", temporal.namespace)
    settings = WatchSettings(
        cluster="local", namespace=cluster.namespace, ec2_poll_s=0.1, lease_poll_s=0, outage_share=1.0
    )
    rounds, said = 4, list[str]()
    with stubbed() as (client, stub), cluster.stack.kubernetes.connected() as api:
        for _ in range(rounds):
            answers(stub, {"InstanceStatuses": [retired(cluster.instance(retiring)), retired("i-0ffffffffffffffff")]})
        monkeypatch.setattr(ec2, "client", lambda: client)
        monkeypatch.setattr(ec2, "_BETWEEN_S", 0.0)
        watching = Watching(Api(api), settings, load_rules(), "test", said.append)
        watching.start()
        try:

            def all_said() -> bool:
                watching.round(lambda: True)
                # What EC2 said last is kept when it does not answer any more.
                return any("EC2 does not answer" in line for line in said) and bool(watching.counters.sent)

            wait_until(all_said)
            watching.round(lambda: True)
        finally:
            watching.stop()
    (report,) = asyncio.run(cluster.reports(retiring))
    assert (report.rule, report.source, report.verdict) == ("ec2-retirement", ClusterSource.EC2, Verdict.HARDWARE)
    assert report.fields["event"] == "instance-event-0d59937288b749b32"
    assert not asyncio.run(cluster.reports(other))
    assert watching.counters.sent == {ClusterSource.EC2: 1}
