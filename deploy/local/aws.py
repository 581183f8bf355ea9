"""AWS, played by moto's server in a process of its own: EC2 and Auto Scaling, on loopback."""

import json
import os
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import boto3
from botocore.config import Config

from deploy.local.process import LOOPBACK, answers, running

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client

REGION: Final = "us-west-2"
AMI: Final = "ami-12c6146b"
"""The image of every machine of the local cloud."""
LOCAL_CALLER: Final = "nodemend-local-cloud"
"""Part of the user agent of the local cloud itself and of its tests: their calls are not counted, throttled or lost."""
NOTEBOOK_PATH: Final = "/fleet/notebook"
_PATIENCE: Final = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "max_attempts": 3},
    user_agent_extra=LOCAL_CALLER,
)
_NOBODY: Final = "local"
"""Both halves of the credentials: moto takes any, and these are nobody's."""


@dataclass(frozen=True)
class Aws:
    """Where moto is, and how to reach it."""

    url: str
    pid: int
    region: str = REGION

    def environment(self) -> dict[str, str]:
        """What a process needs to use it as AWS."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": _NOBODY,
            "AWS_SECRET_ACCESS_KEY": _NOBODY,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def note(self, **pages: dict[str, Any]) -> dict[str, Any]:
        """Write pages of moto's notebook (``deploy.local.moto_server``); returns calls, reports and reboots so far.

        Args:
            pages: ``activities`` by group, ``answers`` by action, ``throttle`` and ``lose_reply``: how many calls of
                an action.
        """
        body = json.dumps(pages).encode()
        with urllib.request.urlopen(f"{self.url}{NOTEBOOK_PATH}", data=body, timeout=10) as answer:  # noqa: S310 - our own
            told: dict[str, Any] = json.load(answer)
        return told

    @overload
    def client(self, service: Literal["autoscaling"]) -> "AutoScalingClient": ...

    @overload
    def client(self, service: Literal["ec2"]) -> "EC2Client": ...

    def client(self, service: Literal["autoscaling", "ec2"]) -> Any:
        """A client of one service, whatever the caller's own AWS settings are. The caller closes it."""
        with _making_clients:
            return _session(self.region).client(service, endpoint_url=self.url, config=_PATIENCE)


_making_clients: Final = threading.Lock()
"""A session may make clients for one thread at a time; the clients are safe to share."""


@cache
def _session(region: str) -> boto3.Session:
    """One for all: reading the models of a service takes half a second, and a session does it once."""
    return boto3.Session(aws_access_key_id=_NOBODY, aws_secret_access_key=_NOBODY, region_name=region)


def _images(state_dir: Path) -> Path:
    """The one image of the local cloud. Moto's own thousand take seconds to load."""
    path = state_dir / "images.json"
    image = {"ami_id": AMI, "name": "amazon-linux-2023", "owner_id": "801119661308", "state": "available"}
    path.write_text(json.dumps([image]))
    return path


@contextmanager
def running_aws(state_dir: Path) -> Iterator[Aws]:
    """Run moto for the length of the block.

    Raises:
        StackError: it did not start.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    server = [sys.executable, "-P", "-m", "deploy.local.moto_server", "--host", LOOPBACK]
    with running(
        "moto",
        lambda ports: [*server, "--port", str(ports[0])],
        ports=1,
        ready=lambda ports: answers(f"http://{LOOPBACK}:{ports[0]}/moto-api/data.json"),
        state_dir=state_dir,
        grace=0,
        remedy="Install the extra: `pip install 'nodemend[local]'`.",
        environment={**environment, "MOTO_AMIS_PATH": str(_images(state_dir))},
    ) as process:
        aws = Aws(url=f"http://{LOOPBACK}:{process.ports[0]}", pid=process.pid)
        # Moto makes a region's network at the first question, which takes a second: while others start, it is free.
        with closing(aws.client("ec2")) as ec2:
            ec2.describe_subnets()
        yield aws
