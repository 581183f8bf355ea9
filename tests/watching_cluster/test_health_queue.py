"""What AWS Health tells by EventBridge: the queue is moto's, the finding is the one that EC2's answer would make."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from contract.fault import FaultReport, Verdict
from contract.names import ClusterSource
from detector.cluster import ec2, health_queue
from detector.cluster.api import Api
from detector.cluster.documents import load_rules
from detector.cluster.health_queue import HealthQueue, merged, read
from detector.cluster.settings import WatchSettings
from detector.cluster.sightings import Ec2Word
from detector.cluster.watching import Watching
from detector.trouble import Trouble
from tests.conftest import MakeNodeGroup
from tests.detecting.running import wait_until
from tests.watching_cluster.running import Cluster
from tests.watching_cluster.test_ec2 import answers, retired, stubbed

INSTANCE = "i-0123456789abcdef0"
RETIREMENT = "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED"


def told(instance: str = INSTANCE, code: str = RETIREMENT, **detail: Any) -> dict[str, Any]:
    """An event as the AWS Health user guide shows it."""
    return {
        "version": "0",
        "id": "7bf73129-1428-4cd3-a780-95db273d1602",
        "detail-type": "AWS Health Event",
        "source": "aws.health",
        "account": "123456789012",
        "time": "2026-12-02T01:43:21Z",
        "region": "us-west-2",
        "resources": [instance],
        "detail": {
            "eventArn": f"arn:aws:health:us-west-2::event/EC2/{code}/{code}_90f3",
            "service": "EC2",
            "eventTypeCode": code,
            "eventTypeCategory": "scheduledChange",
            "startTime": "Sun, 20 Dec 2026 00:00:00 GMT",
            "endTime": "Sun, 20 Dec 2026 02:00:00 GMT",
            "statusCode": "upcoming",
            "eventDescription": [{"language": "en_US", "latestDescription": "The hardware is degraded."}],
            "affectedEntities": [{"entityValue": instance, "status": "PENDING"}],
            **detail,
        },
    }


def understood(document: Any) -> Any:
    return read(json.dumps(document))


@pytest.mark.parametrize(
    ("code", "means"),
    [
        (RETIREMENT, "instance-retirement"),
        ("AWS_EC2_INSTANCE_RETIREMENT_EXPEDITED", "instance-retirement"),
        ("AWS_EC2_INSTANCE_STOP_SCHEDULED", "instance-stop"),
        ("AWS_EC2_INSTANCE_REBOOT_FLEXIBLE_MAINTENANCE_SCHEDULED", "instance-reboot"),
        ("AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED", "system-reboot"),
        ("AWS_EC2_SYSTEM_MAINTENANCE_EVENT", "system-maintenance"),
        ("AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED", "system-maintenance"),
    ],
)
def test_event_type_is_read_as_the_code_that_ec2_has_for_it(code: str, means: str) -> None:
    word = understood(told(code=code)).word
    assert word.code == means
    assert word.since == datetime(2026, 12, 20, tzinfo=UTC).isoformat()
    assert "The hardware is degraded." in word.message


@pytest.mark.parametrize(
    "document",
    [
        {**told(), "source": "aws.ec2"},
        told(service="RDS"),
        told(code="AWS_EC2_OPERATIONAL_ISSUE"),
        told("vol-0123456789abcdef0"),
        told(affectedEntities=None) | {"resources": None},
    ],
)
def test_what_is_about_something_else_says_nothing(document: Any) -> None:
    assert understood(document) is None


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "7", '{"detail": 1}', "[" * 100_000])
def test_message_that_nobody_can_read_is_said_and_stops_nothing(body: str) -> None:
    queue = HealthQueue("https://queue")
    queue.take("1", "r1", body, 0.0)
    queue.take("2", "r2", json.dumps(told()), 0.0)
    assert "cannot be read and is dropped" in queue.misread
    assert queue.words(0.0).keys() == {INSTANCE}


@pytest.mark.parametrize(
    "detail",
    [
        {"startTime": None},
        {"startTime": "soon"},
        {"eventDescription": None},
        {"eventDescription": ["text"]},
        {"eventDescription": "text"},
        {"statusCode": None},
        {"eventArn": None},
        {"affectedEntities": "none"},
        {"affectedEntities": [None, 7, {}]},
    ],
)
def test_ugly_fields_cost_no_finding(detail: dict[str, Any]) -> None:
    assert understood(told(**detail)).instances == (INSTANCE,)


def test_event_that_is_over_is_forgotten_and_so_is_one_from_long_ago() -> None:
    queue = HealthQueue("https://queue")
    queue.take("1", "r1", json.dumps(told()), 0.0)
    assert queue.words(1.0)
    queue.take("2", "r2", json.dumps(told(statusCode="closed")), 1.0)
    assert not queue.words(2.0)
    queue.take("3", "r3", json.dumps(told()), 2.0)
    assert queue.words(3.0)
    assert not queue.words(3.0 + 15 * 86400)


def test_message_stays_until_no_report_of_it_waits() -> None:
    queue = HealthQueue("https://queue")
    queue.take("1", "r1", json.dumps(told()), 0.0)
    letters = queue.letters()
    queue.take("2", "r2", json.dumps(told("i-0ffffffffffffffff")), 0.0)
    queue.settle(letters, {INSTANCE})
    assert queue.letters().keys() == {"1", "2"}
    queue.settle(letters, set())
    assert queue.letters().keys() == {"2"}, "what came after the look is not settled by it"


@pytest.mark.parametrize("asked", ["instance-retirement", "instance-stop"])
def test_what_ec2_says_too_is_one_word(asked: str) -> None:
    own = Ec2Word("event", asked, "instance-event-1", "2026-12-21T00:00:00+00:00", "")
    assert merged({INSTANCE: (own,)}, {INSTANCE: (understood(told()).word,)}) == {INSTANCE: (own,)}


def test_other_words_of_the_instance_stay() -> None:
    status = Ec2Word("instance-status", "impaired", "", "", "")
    word = understood(told()).word
    assert merged({INSTANCE: (status,)}, {INSTANCE: (word,)}) == {INSTANCE: (status, word)}
    assert merged({}, {INSTANCE: (word,)}) == {INSTANCE: (word,)}


@pytest.fixture
def queue(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, str]]:
    """A queue of moto's, and its URL."""
    for name, value in cluster.stack.aws.environment().items():
        monkeypatch.setenv(name, value)
    client: Any = boto3.client("sqs")  # type: ignore[call-overload]
    with closing(client):
        yield client, client.create_queue(QueueName=cluster.namespace)["QueueUrl"]


@pytest.mark.stack
def test_told_and_polled_is_one_incident_and_the_queue_is_empty_afterwards(
    cluster: Cluster, node_group: MakeNodeGroup, queue: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    retiring, other = node_group(2).nodes
    instance = cluster.instance(retiring)
    temporal = cluster.stack.temporal
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", temporal.namespace)
    monkeypatch.setattr(health_queue, "WAIT_S", 0)
    monkeypatch.setattr(ec2, "_BETWEEN_S", 0.0)
    sqs, url = queue
    for document in ("no event", json.dumps(told("i-0ffffffffffffffff")), json.dumps(told(instance))):
        sqs.send_message(QueueUrl=url, MessageBody=document)
    settings = WatchSettings(
        cluster="local", namespace=cluster.namespace, ec2_poll_s=0, lease_poll_s=0, outage_share=1.0, ec2_queue_url=url
    )
    said: list[str] = []
    with stubbed() as (client, stub), cluster.stack.kubernetes.connected() as api:
        watching = Watching(Api(api), settings, load_rules(), "test", said.append)
        watching.start()
        try:

            def is_told() -> bool:
                watching.round(lambda: True)
                return watching.counters.sent == {ClusterSource.EC2: 1} and not left(sqs, url)

            wait_until(is_told, str(said))
            answers(stub, {"InstanceStatuses": [retired(instance)]})
            watching._words = ec2.ask(client, lambda _seconds: None)
            watching.round(lambda: True)
            watching.round(lambda: True)
        finally:
            watching.stop()
    reports: list[FaultReport] = asyncio.run(cluster.reports(retiring))
    assert [(r.rule, r.source, r.verdict) for r in reports] == [
        ("ec2-retirement", ClusterSource.EC2, Verdict.HARDWARE)
    ], "told and asked is one report"
    assert reports[0].fields["since"] == "2026-12-20T00:00:00+00:00"
    assert not asyncio.run(cluster.reports(other))
    assert any("is dropped" in line for line in said)


def left(sqs: Any, url: str) -> int:
    """Messages that are in the queue, those that somebody reads too."""
    counts = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    return sum(int(n) for n in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=counts)["Attributes"].values())


@pytest.mark.stack
def test_refusal_says_which_right_is_missing(queue: tuple[Any, str]) -> None:
    with pytest.raises(Trouble, match="allow sqs:ReceiveMessage"):
        HealthQueue(queue[1] + "-of-somebody-else").ask()
