"""Each mode on the real API server: what counts as saved, by what proof, and what is told when nothing was."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest

from activities.checkpoint_ask import AskedJob, Asking, Terms
from activities.checkpoint_talk import Talk
from activities.follow import FollowActivity
from contract.checkpoints import CheckpointStatus, JobCheckpoint
from contract.fault import DataTrust
from contract.gang import FollowedJob, FollowJobs
from contract.policy import CheckpointPolicy, Otherwise
from deploy.local.scene import NodeGroup
from tests.acting import Acting
from tests.checkpointing.jobs import (
    DIES,
    HANGS,
    NEURON,
    add_declaring,
    ask,
    calls,
    declared,
    job_server,
    manifest,
    program,
    write_manifest,
)
from tests.conftest import MakeNodeGroup


@pytest.fixture
def node(node_group: MakeNodeGroup) -> str:
    made: NodeGroup = node_group(1)
    return made.nodes[0]


@pytest.fixture
def bucket(acting: Acting) -> Iterator[tuple[Any, str]]:
    """A bucket on moto, reached as the worker reaches S3."""
    s3: Any = boto3.client("s3", region_name="us-east-1")
    name = "checkpoints"
    s3.create_bucket(Bucket=name)
    yield s3, name
    for item in s3.list_objects_v2(Bucket=name).get("Contents", []):
        s3.delete_object(Bucket=name, Key=item["Key"])
    s3.delete_bucket(Bucket=name)
    s3.close()


# --- exec, with manifests that are read in the pod -----------------------------------------------------------------


def test_exec_is_believed_when_its_manifest_is_there_and_its_files_are_whole(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    write_manifest(tmp_path, 500, minutes_ago=10)
    add_declaring(
        acting,
        node,
        namespace,
        declared("exec", command=program(tmp_path), manifests=str(tmp_path)),
        limits={NEURON: "16"},
    )
    job = ask(acting, node)
    assert (job.status, job.step, job.proof, job.asks) == (CheckpointStatus.SAVED, 1000, "file", 1)
    assert (job.previous_step, job.accelerators, job.mode) == (500, 16, "exec")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("half", "promises 1000.bin with 4000 bytes, which has 4 bytes"),
        ("lies", "has no manifest of it"),
        ("older", "older than step 500"),
        ("dies", "error executing command"),
        ("never", "no answer within"),
        ("late", "no answer within"),
    ],
)
def test_faulty_job_is_a_failure_that_is_shown(
    acting: Acting, node: str, namespace: str, tmp_path: Path, fault: str, says: str
) -> None:
    write_manifest(tmp_path, 500, minutes_ago=10)
    command = program(tmp_path, fault)
    add_declaring(acting, node, namespace, declared("exec", command=command, manifests=str(tmp_path), fallback="ask"))
    job = ask(acting, node, seconds=3)
    assert job.status is CheckpointStatus.FAILED
    assert says in job.explanation
    assert "last known checkpoint is step 500" in job.explanation
    assert job.otherwise is Otherwise.ASK


def test_job_that_answers_twice_has_saved_its_last_answer_and_was_asked_once(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    command = program(tmp_path, "twice")
    add_declaring(acting, node, namespace, declared("exec", command=command, manifests=str(tmp_path)))
    assert ask(acting, node).step == 1000
    assert [call.split()[0] for call in calls(tmp_path)].count("save") == 1


def test_job_whose_pod_ends_while_it_is_asked_is_not_waited_for(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    add_declaring(acting, node, namespace, declared("exec", command=program(tmp_path, "dies")))
    acting.core.patch_namespaced_pod_status("p", namespace, {"status": {"phase": "Failed"}})
    # Between the list and the request the pod was still there: so it is for an act that has just listed it.
    pod = acting.cluster.pod(namespace, "p")
    assert pod is not None
    seen = {**pod, "status": {**pod["status"], "phase": "Running"}}
    job = acting.do(
        lambda terms: Asking(acting.cluster, Talk(acting.cluster)).see_to(AskedJob("n/Pod/p", (seen,)), terms),
        terms_of(seconds=60),
    )
    assert job.status is CheckpointStatus.FAILED
    assert "its pod ended while it was asked" in job.explanation
    assert job.asks == 1


# --- http, through the API server's own proxy -----------------------------------------------------------------------


def own_address() -> str:
    """An address of this machine that is not loopback."""
    addresses = [
        item.address for items in psutil.net_if_addrs().values() for item in items if item.family == socket.AF_INET
    ]
    return next(address for address in addresses if not address.startswith("127."))


def serve_as_pod(acting: Acting, node: str, namespace: str, port: int, **more: str) -> None:
    add_declaring(acting, node, namespace, declared("http", port=str(port), **more))
    status = {"status": {"podIP": own_address(), "podIPs": [{"ip": own_address()}]}}
    acting.core.patch_namespaced_pod_status("p", namespace, status, _content_type="application/merge-patch+json")


def test_http_is_asked_by_post_through_the_api_server(acting: Acting, node: str, namespace: str) -> None:
    before = manifest(500, minutes_ago=10) + "\n" + json.dumps({"at": 730, "time": datetime.now(UTC).isoformat()})
    with job_server(own_address(), GET=(200, before), POST=(200, manifest(1000, nonce="NONCE"))) as job:
        serve_as_pod(acting, node, namespace, job.port, path="/save")
        result = ask(acting, node)
    assert (result.status, result.step, result.proof, result.mode) == (CheckpointStatus.SAVED, 1000, "word", "http")
    assert result.stands_at == 730
    assert job.calls == [("GET", "/save"), ("POST", "/save")]


def test_http_error_is_told_with_what_the_job_said(acting: Acting, node: str, namespace: str) -> None:
    with job_server(own_address(), GET=(200, ""), POST=(507, "disk full")) as job:
        serve_as_pod(acting, node, namespace, job.port)
        result = ask(acting, node, seconds=2)
    assert result.status is CheckpointStatus.FAILED
    assert "disk full" in result.explanation
    assert "507" in result.explanation


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (200, manifest(100, nonce="NONCE"), "older than step 500"),
        (200, manifest(1000, nonce="another"), "carries the nonce 'another'"),
        (200, manifest(1000, minutes_ago=30, nonce="NONCE"), "from before it was asked"),
        (200, '{"step": 1000, "uri"', "which is no checkpoint"),
        (200, "", "it printed no checkpoint"),
        (HANGS, "", "no answer within"),
        (DIES, "", "was answered 50"),
    ],
    ids=["older", "of another request", "of before", "half", "says nothing", "never answers", "dies"],
)
def test_faulty_job_is_a_failure_that_is_shown_by_http_too(
    acting: Acting, node: str, namespace: str, status: int, body: str, says: str
) -> None:
    with job_server(own_address(), GET=(200, manifest(500, minutes_ago=10)), POST=(status, body)) as job:
        serve_as_pod(acting, node, namespace, job.port)
        result = ask(acting, node, seconds=2)
    assert result.status is CheckpointStatus.FAILED
    assert says in result.explanation
    assert "last known checkpoint is step 500" in result.explanation


def test_job_that_answers_twice_by_http_has_saved_its_last_answer_and_was_asked_once(
    acting: Acting, node: str, namespace: str
) -> None:
    both = "\n".join(manifest(step, nonce="NONCE") for step in (999, 1000))
    with job_server(own_address(), GET=(200, ""), POST=(200, both)) as job:
        serve_as_pod(acting, node, namespace, job.port)
        assert ask(acting, node).step == 1000
    assert [method for method, _ in job.calls].count("POST") == 1


# --- observe and sigterm -------------------------------------------------------------------------------------------


def test_observed_job_is_never_asked_and_its_newest_manifest_in_s3_is_told(
    acting: Acting, node: str, namespace: str, bucket: tuple[Any, str]
) -> None:
    s3, name = bucket
    s3.put_object(Bucket=name, Key="run/500/manifest.json", Body=manifest(500, minutes_ago=20))
    s3.put_object(Bucket=name, Key="run/900/a.bin", Body=b"1234")
    whole = manifest(900, minutes_ago=5, files=[{"name": "900/a.bin", "size": 4}])
    s3.put_object(Bucket=name, Key="run/900/manifest.json", Body=whole)
    half = manifest(950, minutes_ago=1, files=[{"name": "950/a.bin", "size": 4}])
    s3.put_object(Bucket=name, Key="run/950/manifest.json", Body=half)
    add_declaring(acting, node, namespace, declared("observe", manifests=f"s3://{name}/run"))
    job = ask(acting, node)
    assert (job.status, job.step, job.proof, job.asks) == (CheckpointStatus.OBSERVED, 900, "s3", 0)


def test_observed_job_without_a_manifest_is_told(acting: Acting, node: str, namespace: str, tmp_path: Path) -> None:
    add_declaring(acting, node, namespace, declared("observe", manifests=str(tmp_path)))
    job = ask(acting, node)
    assert (job.status, job.explanation) == (CheckpointStatus.FAILED, "it has no manifest yet")


def test_bucket_that_cannot_be_read_is_told(acting: Acting, node: str, namespace: str) -> None:
    add_declaring(acting, node, namespace, declared("observe", manifests="s3://no-such-bucket/x"))
    job = ask(acting, node)
    assert job.status is CheckpointStatus.FAILED
    assert "s3://no-such-bucket/x could not be read" in job.explanation


def test_job_that_saves_when_it_is_ended_is_told_how_long_it_has(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    write_manifest(tmp_path, 500)
    add_declaring(acting, node, namespace, declared("sigterm", manifests=str(tmp_path)), grace_s=120)
    job = ask(acting, node)
    assert (job.status, job.step) == (CheckpointStatus.AT_END, 500)
    assert "120 s" in job.explanation


def test_grace_period_that_does_not_suffice_is_said(acting: Acting, node: str, namespace: str, tmp_path: Path) -> None:
    add_declaring(acting, node, namespace, declared("sigterm", manifests=str(tmp_path), timeout="90s"), grace_s=30)
    for _ in range(2):
        job = ask(acting, node)
    assert job.status is CheckpointStatus.FAILED
    assert "raise terminationGracePeriodSeconds" in job.explanation
    (event,) = [e for e in acting.core.list_namespaced_event(namespace).items if e.reason == "GracePeriodTooShort"]
    assert (event.involved_object.kind, event.involved_object.name, event.type) == ("Pod", "p", "Warning")
    assert "declares 90 s for saving when it is ended, and its grace period is 30 s" in event.message


def follow(acting: Acting, node: str, before: JobCheckpoint, evicted_at: datetime) -> FollowedJob:
    """Follow the job, which runs, until it is past; at the latest at once."""
    argument = FollowJobs(
        target=acting.target(node), checkpoints=(before,), deadline=timedelta(0), evicted_at=evicted_at
    )
    (job,) = acting.do(FollowActivity(acting.cluster).follow_jobs, argument).jobs
    assert isinstance(job, FollowedJob)
    return job


def test_what_a_job_saved_when_it_was_ended_is_verified_through_a_pod_that_sees_its_files(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    write_manifest(tmp_path, 500, minutes_ago=10)
    add_declaring(acting, node, namespace, declared("sigterm", manifests=str(tmp_path)))
    before = ask(acting, node)
    # Whatever pod runs now has not been evicted: it stands for a rank elsewhere, or for the one that came anew.
    evicted_at = datetime.now(UTC)
    nothing = follow(acting, node, before, evicted_at).at_end
    assert nothing is not None
    assert nothing.status is CheckpointStatus.FAILED
    assert "left no whole manifest; the newest from before is step 500" in nothing.explanation
    (tmp_path / "730.bin").write_bytes(b"1234")
    write_manifest(tmp_path, 730, files=[{"name": "730.bin", "size": 5}])
    half = follow(acting, node, before, evicted_at).at_end
    assert half is not None
    assert "promises 730.bin with 5 bytes, which has 4 bytes" in half.explanation
    write_manifest(tmp_path, 730, files=[{"name": "730.bin", "size": 4}])
    job = follow(acting, node, before, evicted_at)
    assert job.at_end is not None
    assert (job.at_end.status, job.at_end.step, job.at_end.proof) == (CheckpointStatus.SAVED, 730, "file")
    assert (job.saved_steps, job.passed) == (230, False)
    write_manifest(tmp_path, 731)
    assert follow(acting, node, job.at_end, evicted_at).passed


# --- who is not asked ------------------------------------------------------------------------------------------------


def test_suspect_fault_names_the_last_manifest_from_before_it(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    for step, ago in ((500, 30), (1000, 10), (1500, 1)):
        write_manifest(tmp_path, step, minutes_ago=ago)
    annotations = declared("exec", command=program(tmp_path), manifests=str(tmp_path))
    add_declaring(acting, node, namespace, annotations, limits={NEURON: "16"})
    job = ask(acting, node, data=DataTrust.SUSPECT)
    assert (job.status, job.step, job.suspect, job.asks) == (CheckpointStatus.NAMED, 1000, 1, 0)


def test_named_checkpoint_outlives_the_job_s_own_tidying(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    """The job runs on until it is evicted, and deletes its old checkpoints as it saves new ones."""
    (tmp_path / "step-1000").mkdir()
    (tmp_path / "step-1000" / "a.bin").write_bytes(b"weights")
    files = [{"name": "step-1000/a.bin", "size": 7}]
    write_manifest(tmp_path, 1000, minutes_ago=10, files=files)
    add_declaring(acting, node, namespace, declared("observe", manifests=str(tmp_path)), limits={NEURON: "16"})
    for _ in range(2):
        job = ask(acting, node, data=DataTrust.SUSPECT)
        assert job.kept.startswith(f"kept in {tmp_path}/nodemend-kept")
    (tmp_path / "step-1000" / "a.bin").unlink()
    (tmp_path / "1000.manifest.json").unlink()
    kept = tmp_path / "nodemend-kept"
    assert (kept / "step-1000" / "a.bin").read_bytes() == b"weights"
    assert json.loads((kept / "1000.manifest.json").read_text())["step"] == 1000
    assert ask(acting, node, data=DataTrust.SUSPECT).status is CheckpointStatus.FAILED, "what is kept is not listed"


@pytest.mark.parametrize("locked", [True, False])
def test_named_checkpoint_in_s3_is_held_where_the_bucket_has_object_lock(
    acting: Acting, node: str, namespace: str, locked: bool
) -> None:
    s3: Any = boto3.client("s3", region_name="us-east-1")
    name = f"{namespace}-{locked}".lower()
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=locked)
    s3.put_object(Bucket=name, Key="run/900/a.bin", Body=b"1234")
    files = [{"name": "900/a.bin", "size": 4}]
    s3.put_object(Bucket=name, Key="run/900/manifest.json", Body=manifest(900, minutes_ago=20, files=files))
    add_declaring(acting, node, namespace, declared("observe", manifests=f"s3://{name}/run"), limits={NEURON: "16"})
    job = ask(acting, node, data=DataTrust.SUSPECT)
    assert (job.status, job.step) == (CheckpointStatus.NAMED, 900)
    if locked:
        assert job.kept.startswith(f"held in {name} (S3 legal hold on 2 objects)")
        for key in ("run/900/a.bin", "run/900/manifest.json"):
            assert s3.get_object_legal_hold(Bucket=name, Key=key)["LegalHold"]["Status"] == "ON"
    else:
        assert job.kept == f"not protected: the bucket {name} has no Object Lock, so nothing in it can be held"
    s3.close()


def test_job_that_hangs_is_asked_nothing(acting: Acting, node: str, namespace: str, tmp_path: Path) -> None:
    long_ago = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    write_manifest(tmp_path, 500, minutes_ago=130)
    (tmp_path / "standing.manifest.json").write_text(json.dumps({"at": 730, "time": long_ago}))
    add_declaring(acting, node, namespace, declared("exec", command=program(tmp_path)))
    job = ask(acting, node)
    assert (job.status, job.step, job.asks) == (CheckpointStatus.DEAD, 500, 0)
    assert "it took step 730, its last" in job.explanation


def test_ranks_that_the_fault_has_ended_are_asked_nothing(
    acting: Acting, node: str, namespace: str, tmp_path: Path
) -> None:
    add_declaring(acting, node, namespace, declared("exec", command=program(tmp_path)))
    job = ask(acting, node, ranks_alive=False)
    assert (job.status, calls(tmp_path)) == (CheckpointStatus.DEAD, [])


def test_malformed_declaration_is_an_event_on_the_pod_and_treated_as_policy_says(
    acting: Acting, node: str, namespace: str
) -> None:
    add_declaring(acting, node, namespace, declared("exec", command="python save.py"))
    for _ in range(2):
        job = ask(acting, node, rules=CheckpointPolicy(malformed=Otherwise.ASK))
    assert (job.status, job.otherwise) == (CheckpointStatus.FAILED, Otherwise.ASK)
    events = [
        event
        for event in acting.core.list_namespaced_event(namespace).items
        if event.reason == "CheckpointDeclarationMalformed"
    ]
    (event,) = events
    assert (event.involved_object.kind, event.involved_object.name) == ("Pod", "p")
    assert "JSON array" in event.message


def terms_of(*, seconds: float) -> Any:
    """Terms as the act makes them."""
    return Terms(
        nonce="nonce-1",
        data=DataTrust.TRUSTED,
        device_resource=None,
        evidence_since=None,
        asked_at=datetime.now(UTC),
        usual=timedelta(seconds=seconds),
        rules=CheckpointPolicy(),
        failing=frozenset(),
    )
