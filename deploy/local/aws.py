"""AWS, played by moto's server in a process of its own: EC2 and Auto Scaling, on loopback."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config

from deploy.local.process import LOOPBACK, answers, running

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client

REGION: Final = "us-west-2"
_PATIENCE: Final = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 3})


@dataclass(frozen=True)
class Aws:
    """Where moto is, and how to reach it."""

    url: str
    pid: int

    def environment(self) -> dict[str, str]:
        """What a process needs to use it as AWS. The credentials are nobody's."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def auto_scaling(self) -> "AutoScalingClient":
        """A client of Auto Scaling."""
        return self._session().client("autoscaling", endpoint_url=self.url, config=_PATIENCE)

    def ec2(self) -> "EC2Client":
        """A client of EC2."""
        return self._session().client("ec2", endpoint_url=self.url, config=_PATIENCE)

    @staticmethod
    def _session() -> boto3.Session:
        return boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=REGION)  # noqa: S106


@contextmanager
def running_aws(state_dir: Path) -> Iterator[Aws]:
    """Run moto for the length of the block.

    Raises:
        StackError: it did not start.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    with running(
        "moto",
        lambda ports: [sys.executable, "-m", "moto.server", "--host", LOOPBACK, "--port", str(ports[0])],
        ports=1,
        ready=lambda ports: answers(f"http://{LOOPBACK}:{ports[0]}/moto-api/data.json"),
        state_dir=state_dir,
        remedy="Install the extra: `pip install 'nodemend[local]'`.",
        environment={**environment, "MOTO_EC2_LOAD_DEFAULT_AMIS": "false"},
    ) as process:
        yield Aws(url=f"http://{LOOPBACK}:{process.ports[0]}", pid=process.pid)
