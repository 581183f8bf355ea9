"""What EC2 says of its instances: scheduled events and status checks.

Asked for what is wrong and not for every instance: three questions, whatever the number of nodes, each in pages and
with a pause between them; the API's rate is shared by everybody in the account.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from detector.cluster.sightings import Ec2Word
from detector.trouble import Trouble

_PAGE: Final = 1000
"""The most that DescribeInstanceStatus takes."""
_BETWEEN_S: Final = 1.0
_OVER: Final = ("[Completed]", "[Canceled]")
"""How the description of an event begins that is over; it is listed for a week more (EC2 user guide)."""
_EVENTS: Final = "event.code"
_STATUSES: Final = {"system-status": "system-status.status", "instance-status": "instance-status.status"}
_EVENT_CODES: Final = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
_MEANING: Final = {
    "system-status": "EC2 calls the system status of this instance impaired: its host, power or network.",
    "instance-status": "EC2 calls the status of this instance impaired: its system does not answer.",
}

Words = dict[str, tuple[Ec2Word, ...]]
"""By instance id."""


def questions() -> list[list[dict[str, Any]]]:
    """The filters of each question."""
    statuses = [[{"Name": name, "Values": ["impaired"]}] for name in _STATUSES.values()]
    return [[{"Name": _EVENTS, "Values": list(_EVENT_CODES)}], *statuses]


def ask(ec2: Any, pause: Callable[[float], None]) -> Words:
    """Everything that EC2 has to say now.

    Raises:
        Trouble: it cannot be reached or refuses.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    found: dict[str, dict[Ec2Word, None]] = {}
    try:
        for number, filters in enumerate(questions()):
            if number:
                pause(_BETWEEN_S)
            # Instances that do not run are no nodes; without IncludeAllInstances they are left out.
            pages = ec2.get_paginator("describe_instance_status").paginate(
                Filters=filters, PaginationConfig={"PageSize": _PAGE}
            )
            for page in pages:
                for status in page["InstanceStatuses"]:
                    said = found.setdefault(status["InstanceId"], {})
                    said.update(dict.fromkeys(words(status)))
                pause(0.0)
    except (ClientError, BotoCoreError) as error:
        raise Trouble(
            f"EC2 does not answer DescribeInstanceStatus ({error}): allow ec2:DescribeInstanceStatus, or set "
            "NODEMEND_EC2_POLL_S=0 to do without. What it said before is kept meanwhile."
        ) from error
    return {instance: tuple(said) for instance, said in found.items() if said}


def words(status: dict[str, Any]) -> Iterator[Ec2Word]:
    """What one entry of the answer says against its instance. Pure."""
    for event in status.get("Events") or ():
        description = str(event.get("Description", ""))
        if description.startswith(_OVER):
            continue
        due = event["NotBefore"].isoformat() if event.get("NotBefore") else ""
        deadline = f", not before {due}" if due else ""
        yield Ec2Word(
            kind="event",
            code=str(event["Code"]),
            id=str(event.get("InstanceEventId", "")),
            since=due,
            message=f"EC2 has scheduled {event['Code']}{deadline}: {description}",
        )
    for kind, field in (("system-status", "SystemStatus"), ("instance-status", "InstanceStatus")):
        said = status.get(field) or {}
        if said.get("Status") == "impaired":
            times = [detail["ImpairedSince"] for detail in said.get("Details") or () if detail.get("ImpairedSince")]
            since = min(times).isoformat() if times else ""
            yield Ec2Word(kind=kind, code="impaired", id="", since=since, message=_MEANING[kind])


def client() -> Any:
    """The client, as the environment configures it.

    Raises:
        Trouble: no region is configured.
    """
    return client_of("ec2", "EC2", "NODEMEND_EC2_POLL_S=0 to do without")


def client_of(service: str, name: str, without: str) -> Any:
    """A client of AWS, as the environment configures it.

    Raises:
        Trouble: no region is configured.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        # Adaptive: slows down by itself when the account's rate is used up.
        patience = Config(connect_timeout=5, read_timeout=30, retries={"mode": "adaptive", "max_attempts": 4})
        # botocore reads AWS_DEFAULT_REGION alone; the chart, and AWS's other SDKs, say AWS_REGION.
        session: Any = boto3.Session(region_name=os.environ.get("AWS_REGION") or None)
        return session.client(service, config=patience)
    except BotoCoreError as error:
        raise Trouble(f"{name} cannot be asked ({error}): set AWS_REGION, or {without}.") from error
