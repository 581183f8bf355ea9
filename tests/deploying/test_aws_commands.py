"""The commands of docs/aws.md, run by a shell as they stand: they make what deploy/aws says, and remove it all."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from deploy.local.aws import running_aws
from tests.deploying.account import RECORDS, assert_holds_deploy_aws, client
from tests.deploying.aws_command import aws_command, run

ROOT = Path(__file__).parents[2]


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


@pytest.mark.thorough
@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("bash")), reason="jq or bash is not there")
def test_commands_make_what_deploy_aws_says_and_those_of_removal_leave_nothing(
    shell: dict[str, str], associations: Associations, tmp_path: Path
) -> None:
    played(script("With the command line", tmp_path), shell, ROOT)

    assert_holds_deploy_aws()
    roles = {one["serviceAccount"]: one["roleArn"].rpartition("/")[2] for one in associations.there.values()}
    assert roles == {name: f"{name}-training" for name in ("nodemend-worker", "nodemend-watch-cluster")}

    played("cd deploy/aws\n" + script("Removing it", tmp_path), shell, ROOT)

    assert not client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert not client("sns").list_topics()["Topics"]
    assert not client("sqs").list_queues().get("QueueUrls")
    assert not client("events").list_rules()["Rules"]
    assert not associations.there
    assert not [role for role in client("iam").list_roles()["Roles"] if role["RoleName"].startswith("nodemend")]
    assert [bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]] == [RECORDS]


@pytest.mark.parametrize("wrong", [["sqs", "make-queue"], ["sqs", "create-queue", "--nam", "x"]])
def test_operation_or_option_that_aws_does_not_have_is_refused(wrong: list[str], tmp_path: Path) -> None:
    with mock.patch.dict(os.environ, AWS_DEFAULT_REGION="us-west-2"), pytest.raises(ValueError, match="has no"):
        run(wrong, tmp_path)
