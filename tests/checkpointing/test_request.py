"""Asking for checkpoints through the real exec: what counts as an answer, and what poison is not asked for."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.checkpoint import CheckpointActivity
from contract.acts import CheckpointStatus, JobCheckpoint, RequestCheckpoints
from contract.fault import DataTrust
from contract.names import CHECKPOINT_ANNOTATION, CHECKPOINT_COMMAND_ANNOTATION
from deploy.local.scene import NodeGroup, add_pod, create_feature_job, create_training_job, running_pods, wait_for
from tests.acting import Acting
from tests.conftest import MakeNodeGroup

NEURON = "aws.amazon.com/neuron"

PROGRAM = """\
import json, sys, time
answers = json.loads(sys.argv[1])
verb = sys.argv[2]
with open(sys.argv[0] + ".calls", "a") as calls:
    calls.write(" ".join(sys.argv[2:]) + "\\n")
answer = answers.get(verb, "")
if verb == "save":
    answer = answer.replace("NONCE", sys.argv[3])
if answer == "hang":
    time.sleep(60)
if answer == "fail":
    print("disk full", file=sys.stderr)
    sys.exit(3)
print(answer)
"""


@pytest.fixture
def group(node_group: MakeNodeGroup) -> NodeGroup:
    return node_group(1)


def line(step: int, nonce: str = "", minutes_ago: float = 0.0) -> str:
    moment = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return json.dumps({"nonce": nonce, "step": step, "uri": f"s3://b/{step}", "time": moment.isoformat()})


def declare(acting: Acting, folder: Path, node: str, namespace: str, answers: dict[str, str], **more: Any) -> Path:
    """A pod whose checkpoint program answers as told. Returns where its calls are written."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), json.dumps(answers)]
    annotations = {CHECKPOINT_ANNOTATION: "exec", CHECKPOINT_COMMAND_ANNOTATION: json.dumps(command)}
    add_pod(acting.stack, "p", node=node, namespace=namespace, annotations=annotations, **more)
    wait_for(lambda: len(running_pods(acting.stack, "p", namespace)) == 1, "the pod")
    return Path(f"{program}.calls")


def ask(
    acting: Acting, node: str, *, data: DataTrust = DataTrust.TRUSTED, seconds: float = 20.0
) -> tuple[JobCheckpoint, ...]:
    argument = RequestCheckpoints(
        target=acting.claim(node),
        nonce="nonce-1",
        data=data,
        device_resource=NEURON,
        evidence_since=datetime.now(UTC) - timedelta(minutes=5),
        deadline=timedelta(seconds=seconds),
    )
    jobs: tuple[JobCheckpoint, ...] = acting.do(
        CheckpointActivity(acting.cluster, lambda _: None).request_checkpoints, argument
    ).jobs
    return jobs


def test_answer_that_echoes_the_nonce_counts_and_chatter_around_it_does_not(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path
) -> None:
    declare(acting, tmp_path, group.nodes[0], namespace, {"list": line(500), "save": "saving…\n" + line(1000, "NONCE")})
    (job,) = ask(acting, group.nodes[0])
    assert (job.status, job.step, job.uri) == (CheckpointStatus.SAVED, 1000, "s3://b/1000")


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"save": line(1000, "another")}, "nonce 'another'"),
        ({"list": line(2000), "save": line(1000, "NONCE")}, "older than step 2000"),
        ({"save": "fail"}, "disk full"),
        ({"save": "hang"}, "no answer within"),
        ({"save": "done!"}, "printed no checkpoint"),
        ({"save": '{"nonce": "NONCE", "step": -1, "uri": "", "time": "now"}'}, "no checkpoint"),
    ],
    ids=["other nonce", "older step", "failed", "hangs", "no answer", "malformed"],
)
def test_wrong_answer_is_no_checkpoint_and_is_told_when_time_is_up(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path, answers: dict[str, str], says: str
) -> None:
    declare(acting, tmp_path, group.nodes[0], namespace, answers)
    (job,) = ask(acting, group.nodes[0], seconds=3)
    assert job.status is CheckpointStatus.FAILED
    assert says in job.explanation


def test_d26_wrong_answer_is_asked_again_within_the_deadline(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path
) -> None:
    calls = declare(acting, tmp_path, group.nodes[0], namespace, {"save": "fail"})
    ask(acting, group.nodes[0], seconds=7)
    assert calls.read_text().splitlines().count("save nonce-1") >= 2


def test_checkpoint_made_before_the_worker_died_is_found_and_no_second_one_is_asked_for(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path
) -> None:
    calls = declare(acting, tmp_path, group.nodes[0], namespace, {"list": line(500) + "\n" + line(1000, "nonce-1")})
    (job,) = ask(acting, group.nodes[0])
    assert (job.status, job.step) == (CheckpointStatus.SAVED, 1000)
    assert "save" not in calls.read_text()


def test_suspect_job_that_holds_the_device_is_not_asked_and_its_last_good_one_is_named(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path
) -> None:
    listed = "\n".join([line(500, minutes_ago=30), line(1000, minutes_ago=10), line(1500, minutes_ago=1)])
    calls = declare(acting, tmp_path, group.nodes[0], namespace, {"list": listed}, limits={NEURON: "16"})
    (job,) = ask(acting, group.nodes[0], data=DataTrust.SUSPECT)
    assert (job.status, job.step, job.suspect) == (CheckpointStatus.NAMED, 1000, 1)
    assert calls.read_text().split() == ["list"]


def test_suspect_job_without_a_good_checkpoint_is_told_so(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path
) -> None:
    declare(acting, tmp_path, group.nodes[0], namespace, {"list": line(1500)}, limits={NEURON: "16"})
    (job,) = ask(acting, group.nodes[0], data=DataTrust.SUSPECT)
    assert job.status is CheckpointStatus.FAILED
    assert "no checkpoint from before the fault" in job.explanation


def test_job_without_the_device_is_asked_though_the_device_is_suspect(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path
) -> None:
    declare(acting, tmp_path, group.nodes[0], namespace, {"save": line(1000, "NONCE")})
    (job,) = ask(acting, group.nodes[0], data=DataTrust.SUSPECT)
    assert job.status is CheckpointStatus.SAVED


def test_job_with_two_pods_on_the_node_is_asked_once_and_undeclared_ones_are_listed(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    create_feature_job(acting.stack, "feature", ranks=2, namespace=namespace, group=group.name)
    create_training_job(acting.stack, "train", ranks=1, namespace=namespace, group=group.name)
    add_pod(acting.stack, "plain", node=group.nodes[0], namespace=namespace)
    for app, count in (("feature", 2), ("train", 1), ("plain", 1)):
        wait_for(lambda a=app, c=count: len(running_pods(acting.stack, a, namespace)) == c, app)  # type: ignore[misc]
    jobs = {job.job: job for job in ask(acting, group.nodes[0])}
    assert {name.split("/", 1)[1]: job.status for name, job in jobs.items()} == {
        "Job/feature": CheckpointStatus.SAVED,
        "Job/train": CheckpointStatus.SAVED,
        "Pod/plain": CheckpointStatus.UNDECLARED,
    }
    assert len([job for job in jobs.values() if job.step]) == 2
