"""What AWS Health tells by EventBridge of instances, read from an SQS queue: minutes before the next question to EC2.

A message is an event and not a state, so what it says is kept here, and the message itself stays in the queue until the
reports that it leads to are with Temporal: a replica that dies before has the next one read it again. It becomes the
same finding as a scheduled event that EC2 is asked for (``detector.cluster.sightings``): told twice is reported once.

Form of the events: AWS Health user guide, "Reference: AWS Health events Amazon EventBridge schema".
"""

import json
import threading
import time
from collections.abc import Container, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

from detector.cluster.ec2 import Words, client_of
from detector.cluster.sightings import Ec2Word, event_class
from detector.trouble import Trouble

WAIT_S: Final = 10
"""How long a question to SQS waits for an answer (long polling; SQS allows 20)."""
_HIDDEN_S: Final = 120
"""So long nobody else gets a message that was read; read again where its reports could not be sent meanwhile."""
_KEPT_S: Final = 14 * 86400.0
"""Forgotten after as long as EC2 announces its events ahead; usually AWS says before that it is over."""
_BATCH: Final = 10

_CODES: Final = {
    "RETIREMENT": "instance-retirement",
    "INSTANCE_TERMINATION": "instance-retirement",
    "INSTANCE_STOP": "instance-stop",
    "SYSTEM_REBOOT": "system-reboot",
    "INSTANCE_REBOOT": "instance-reboot",
    "MAINTENANCE": "system-maintenance",
}
"""EC2's own code by what an event type of AWS Health has in its name; the first that fits."""
_OVER: Final = ("closed",)


class Told(NamedTuple):
    """What one message says."""

    arn: str
    instances: tuple[str, ...]
    word: Ec2Word
    over: bool


class Letter(NamedTuple):
    """A message that is not answered for yet."""

    receipt: str
    instances: tuple[str, ...]


def read(body: str) -> Told | None:
    """What a message says of instances; None where it is about something else. Pure.

    Raises:
        ValueError: it is no event of EventBridge.
    """
    document = json.loads(body)
    if not isinstance(document, dict) or not isinstance(detail := document.get("detail"), dict):
        raise ValueError("not an event of EventBridge")
    kind = str(detail.get("eventTypeCode", ""))
    if document.get("source") != "aws.health" or detail.get("service") != "EC2":
        return None
    code = next((code for part, code in _CODES.items() if part in kind), None)
    instances = tuple(dict.fromkeys(_instances(document, detail)))
    if code is None or not instances:
        return None
    due = _time(detail.get("startTime"))
    arn = str(detail.get("eventArn", ""))
    deadline = f", not before {due}" if due else ""
    word = Ec2Word(
        kind="event",
        code=code,
        id=arn.rpartition("/")[2],
        since=due,
        message=f"AWS Health has announced {kind}{deadline}: {_description(detail)}",
    )
    return Told(arn, instances, word, over=detail.get("statusCode") in _OVER)


def _instances(document: dict[str, Any], detail: dict[str, Any]) -> Iterator[str]:
    entities = detail.get("affectedEntities")
    named = [one.get("entityValue") for one in entities if isinstance(one, dict)] if isinstance(entities, list) else []
    resources = document.get("resources")
    for value in [*named, *(resources if isinstance(resources, list) else [])]:
        name = str(value).rpartition("/")[2]
        if name.startswith("i-"):
            yield name


def _time(value: Any) -> str:
    """In the form in which EC2's own times are told; empty where there is none that can be read."""
    try:
        return parsedate_to_datetime(str(value)).astimezone(UTC).isoformat()
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC).isoformat()
    except ValueError:
        return ""


def _description(detail: dict[str, Any]) -> str:
    told = detail.get("eventDescription")
    first = told[0] if isinstance(told, list) and told else {}
    return str(first.get("latestDescription", "") if isinstance(first, dict) else first)[:600]


def merged(asked: Words, told: Words) -> Words:
    """What EC2 answered, and what was told beside it: one event is one word, EC2's own where it has said it. Pure."""
    found = dict(asked)
    for instance, words in told.items():
        known = found.get(instance, ())
        classes = {event_class(word.code) for word in known if word.kind == "event"}
        found[instance] = known + tuple(word for word in words if event_class(word.code) not in classes)
    return found


class HealthQueue:
    """What the queue has told. One thread asks, the other takes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._told: dict[str, tuple[Told, float]] = {}
        """By event, with when to forget it."""
        self._letters: dict[str, Letter] = {}
        self._settled: list[str] = []
        self._sqs: Any = None
        self.misread = ""
        """Why the last message that could not be read could not be."""

    def ask(self) -> None:
        """Answer for what is settled, and wait a moment for more.

        Raises:
            Trouble: SQS cannot be reached or refuses.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._sqs = self._sqs or client_of("sqs", "The queue of AWS Health", "unset NODEMEND_EC2_QUEUE_URL")
            with self._lock:
                settled, self._settled = self._settled, []
            for receipt in settled:
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)
            answer = self._sqs.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=_BATCH, WaitTimeSeconds=WAIT_S, VisibilityTimeout=_HIDDEN_S
            )
        except (ClientError, BotoCoreError) as error:
            raise Trouble(
                f"The queue of AWS Health does not answer ({error}): allow sqs:ReceiveMessage and sqs:DeleteMessage on "
                "it, or unset NODEMEND_EC2_QUEUE_URL to do without. What it told before is kept meanwhile."
            ) from error
        for message in answer.get("Messages", ()):
            self.take(message["MessageId"], message["ReceiptHandle"], message["Body"], time.time())

    def take(self, message_id: str, receipt: str, body: str, now: float) -> None:
        """Keep what a message says. One that nobody can read stops none of those after it."""
        try:
            told = read(body)
        except (ValueError, RecursionError) as error:
            self.misread = f"A message of the queue cannot be read and is dropped ({error}): {body[:200]}"
            told = None
        with self._lock:
            if told is None:
                self._settled.append(receipt)
                return
            self._letters[message_id] = Letter(receipt, told.instances)
            if told.over:
                self._told.pop(told.arn, None)
            else:
                self._told[told.arn] = (told, now + _KEPT_S)

    def words(self, now: float) -> Words:
        """What holds now, by instance."""
        with self._lock:
            self._told = {arn: kept for arn, kept in self._told.items() if kept[1] > now}
            found: Words = {}
            for told, _ in self._told.values():
                for instance in told.instances:
                    known = found.get(instance, ())
                    if event_class(told.word.code) not in {event_class(word.code) for word in known}:
                        found[instance] = (*known, told.word)
            return found

    def letters(self) -> dict[str, Letter]:
        """Messages that are not answered for: those whose words ``words`` has."""
        with self._lock:
            return dict(self._letters)

    def settle(self, letters: dict[str, Letter], waiting: Container[str]) -> None:
        """All that these lead to is with Temporal, but for the instances that wait."""
        with self._lock:
            for message_id, letter in letters.items():
                if not any(instance in waiting for instance in letter.instances):
                    current = self._letters.pop(message_id, letter)
                    self._settled.append(current.receipt)
