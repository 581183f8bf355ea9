"""The record in S3: written once, the same however often it is exported, and never written over."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.archive import Archive
from activities.record import RecordActivity, document
from contract.acts import Recorded, WriteRecord
from contract.audit import audit_log
from contract.names import ErrorType
from deploy.local.aws import running_aws
from tests.contract.test_audit import report

BUCKET = "records-of-test"
PREFIXED = Archive(boto3.Session(region_name="us-west-2"), "s3://bucket/a/b")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Moto's S3, with a bucket under Object Lock."""
    with (
        running_aws(tmp_path_factory.mktemp("aws")) as aws,
        mock.patch.dict(os.environ, aws.environment()),
    ):
        client: Any = boto3.client("s3")  # type: ignore[call-overload]
        client.create_bucket(
            Bucket=BUCKET,
            ObjectLockEnabledForBucket=True,
            CreateBucketConfiguration={"LocationConstraint": boto3.Session().region_name},
        )
        client.put_object_lock_configuration(
            Bucket=BUCKET,
            ObjectLockConfiguration={
                "ObjectLockEnabled": "Enabled",
                "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}},
            },
        )
        yield client


@pytest.fixture
def archive(s3: Any, request: pytest.FixtureRequest) -> Archive:
    return Archive(boto3.Session(), f"s3://{BUCKET}/{request.node.name}")


def record(folder: Path, archive: Archive) -> Recorded:
    act = RecordActivity(folder, archive)
    done: Recorded = ActivityEnvironment().run(act.write_record, WriteRecord(report=report()))
    return done


def test_exporting_twice_makes_one_object_and_one_version(tmp_path: Path, archive: Archive, s3: Any) -> None:
    first, again = record(tmp_path, archive), record(tmp_path, archive)
    assert first == again
    assert not first.missed
    versions = s3.list_object_versions(Bucket=BUCKET, Prefix=archive.key(""))["Versions"]
    assert sorted(version["Key"].rpartition("/")[2] for version in versions) == ["audit.jsonl", "report.json"]


def test_the_record_is_locked_and_what_is_read_is_what_was_written(tmp_path: Path, archive: Archive, s3: Any) -> None:
    uris = record(tmp_path, archive).uris
    (key,) = archive.keys("report.json")
    assert f"s3://{BUCKET}/{key}" in uris
    assert archive.read(key) == document(report())
    assert s3.head_object(Bucket=BUCKET, Key=key)["ObjectLockMode"] == "COMPLIANCE"
    assert uris[-1].endswith(audit_log(report())[-1].digest)


def test_another_record_under_the_same_key_is_not_written_over_and_the_folder_has_ours(
    tmp_path: Path, archive: Archive
) -> None:
    record(tmp_path / "first", archive)
    (key,) = archive.keys("report.json")
    changed = report().model_copy(update={"summary": "Nothing happened."})
    act = RecordActivity(tmp_path / "second", archive)
    done: Recorded = ActivityEnvironment().run(act.write_record, WriteRecord(report=changed))
    assert "holds another record already" in done.missed[0]
    assert archive.read(key) == document(report())
    assert "Nothing happened." in next((tmp_path / "second").rglob("report.json")).read_text()


def test_a_bucket_that_is_not_there_is_tried_again(s3: Any, tmp_path: Path) -> None:
    nowhere = Archive(boto3.Session(), "s3://no-such-bucket-of-ours")
    with pytest.raises(ApplicationError) as raised:
        record(tmp_path, nowhere)
    assert raised.value.type == ErrorType.UNREACHABLE
    assert list(tmp_path.rglob("report.json"))


def test_what_others_make_of_an_incident_is_kept_once_and_never_beside_its_own_record(
    tmp_path: Path, archive: Archive, s3: Any
) -> None:
    mine = report()
    theirs = mine.model_copy(update={"summary": "Made by others."})
    first = RecordActivity(tmp_path / "a", archive).write_missing(mine)
    assert sorted(uri.partition("://")[0] for uri in first) == ["file", "file", "s3", "s3"]
    assert RecordActivity(tmp_path / "a", archive).write_missing(theirs) == []
    again = RecordActivity(tmp_path / "b", archive).write_missing(theirs)
    assert all(uri.startswith("file:") for uri in again), "the folder of another worker has its own"
    (key,) = archive.keys("report.json")
    assert archive.read(key) == document(mine)
    versions = s3.list_object_versions(Bucket=BUCKET, Prefix=archive.key(""))["Versions"]
    assert len(versions) == 2


@given(part=st.text(min_size=1, max_size=20))
def test_no_name_leads_out_of_the_prefix(part: str) -> None:
    key = PREFIXED.key(part)
    assert key.startswith("a/b/")
    assert key.count("/") == 2
