"""Gangs are found from the labels and owners that each project sets (D36), and their attempts from their objects."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.attempts import attempts
from activities.gangs import KINDS, gang_of
from activities.jobs import JobActivities
from contract.gang import FindJobs, GangLook, GangMember, GangRequest, JobOnNode, LookAtGang
from deploy.local.scene import NodeGroup, create_training_job, create_web, running_pods, wait_for
from deploy.local.stack import Stack
from tests.acting import Acting
from tests.checkpointing.jobs import add_declaring, calls, declared, program
from tests.checkpointing.kinds import BY_KIND, SHAPES, add_rank, create, kinds_on
from tests.conftest import MakeNodeGroup

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
DISRUPTION_IGNORED = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
IGNORING = {"podFailurePolicy": DISRUPTION_IGNORED}


@pytest.fixture(scope="module")
def kinds(local_stack: Stack) -> Iterator[Any]:
    with kinds_on(local_stack) as objects:
        yield objects


@pytest.fixture
def group(node_group: MakeNodeGroup) -> NodeGroup:
    return node_group(2)


def find(acting: Acting, node: str) -> tuple[JobOnNode, ...]:
    argument = FindJobs(target=acting.target(node))
    jobs: tuple[JobOnNode, ...] = acting.do(JobActivities(acting.cluster, lambda _: None).find_jobs, argument).jobs
    return jobs


@pytest.mark.parametrize("shape", SHAPES)
def test_gang_of_each_kind_is_found_whole_with_what_it_has_left(
    acting: Acting, kinds: Any, group: NodeGroup, namespace: str, shape: str
) -> None:
    kind, spec, status, labelled, left = SHAPES[shape]
    name = f"run-{kind.lower()}"
    uid = create(kinds, kind, namespace, name, spec, status)
    labels = {key: value.replace("NAME", name) for key, value in labelled.items()}
    for number, node in enumerate(group.nodes):
        add_rank(acting, f"{name}-{number}", node, namespace, labels)
    add_rank(acting, "somebody-else", group.nodes[1], namespace, {})
    (job,) = find(acting, group.nodes[0])
    shown = f"{name}#0" if kind == "LeaderWorkerSet" else name
    assert (job.job, job.uid) == (f"{namespace}/{kind}/{shown}", uid)
    assert (job.pods, job.nodes, job.ranks) == (1, 2, 2)
    assert job.attempts_left == left
    assert not job.ends


def test_train_job_counts_the_restarts_of_the_job_set_that_runs_it(
    acting: Acting, kinds: Any, group: NodeGroup, namespace: str
) -> None:
    uid = create(kinds, "TrainJob", namespace, "tune", {}, {})
    create(kinds, "JobSet", namespace, "tune", {"failurePolicy": {"maxRestarts": 1}}, {"restarts": 1})
    labels = {"jobset.sigs.k8s.io/jobset-name": "tune", "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    add_rank(acting, "tune-0", group.nodes[0], namespace, labels)
    (job,) = find(acting, group.nodes[0])
    assert (job.job, job.uid, job.attempts_left, job.ends) == (f"{namespace}/TrainJob/tune", uid, 0, True)
    assert job.why == "maxRestarts 1, 1 used"


def test_indexed_job_is_a_gang_and_the_real_controller_s_labels_find_it(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    create_training_job(acting.stack, "train", ranks=2, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "train", namespace)) == 2, "its ranks")
    (job,) = find(acting, group.nodes[0])
    assert (job.job, job.nodes, job.ranks, job.declared) == (f"{namespace}/Job/train", 2, 2, True)
    assert (job.attempts_left, job.ends) == (6, False)
    assert "ignores disruptions" in job.why


def look(acting: Acting, node: str, job: str) -> GangLook:
    argument = LookAtGang(
        request=GangRequest(cluster="c", job=job, deadline=timedelta(minutes=10)),
        members=(GangMember(target=acting.target(node)),),
    )
    found: GangLook = acting.do(JobActivities(acting.cluster, lambda _: None).look_at_gang, argument)
    return found


def test_gang_whose_ranks_run_and_take_no_step_hangs(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path
) -> None:
    """It has nothing to disturb, and so waits for nobody's leave."""
    annotations = declared("exec", command=program(tmp_path))
    for number, node in enumerate(group.nodes):
        add_declaring(acting, node, namespace, annotations, f"own-{number}", labels={"nodemend.io/gang": "own"})
    job, standing = f"{namespace}/Gang/own", tmp_path / "standing.manifest.json"
    assert not look(acting, group.nodes[0], job).hung, "nobody knows"
    for ago, hung in ((timedelta(0), False), (timedelta(hours=2), True)):
        standing.write_text(json.dumps({"at": 730, "time": (datetime.now(UTC) - ago).isoformat()}))
        found = look(acting, group.nodes[0], job)
        assert (found.alive, found.hung) == (True, hung)
    assert "it took step 730, its last" in found.explanation


@pytest.mark.parametrize("beside", [False, True])
def test_job_alone_on_its_node_that_hangs_has_no_work_to_disturb_unless_others_do(
    acting: Acting, group: NodeGroup, namespace: str, tmp_path: Path, beside: bool
) -> None:
    """One that has no part elsewhere is no gang, and waits for nobody's leave either."""
    node, labels = group.nodes[0], {"nodemend.io/gang": "own"}
    add_declaring(acting, node, namespace, declared("exec", command=program(tmp_path)), "own", labels=labels)
    if beside:
        add_rank(acting, "service", node, namespace, {})
    found = {}
    for ago in (timedelta(0), timedelta(hours=2)):
        standing = {"at": 730, "time": (datetime.now(UTC) - ago).isoformat()}
        (tmp_path / "standing.manifest.json").write_text(json.dumps(standing))
        jobs = find(acting, node)
        found[ago] = [bool(job.idle) for job in jobs if job.job == f"{namespace}/Gang/own"]
    assert found == {timedelta(0): [False], timedelta(hours=2): [not beside]}
    assert calls(tmp_path) == ([] if beside else ["list", "list"]), "a node with other work costs no question"


def test_job_alone_on_its_node_that_is_suspended_has_no_work_to_disturb(
    acting: Acting, kinds: Any, group: NodeGroup, namespace: str
) -> None:
    create(kinds, "JobSet", namespace, "tune", {"suspend": True}, {})
    add_rank(acting, "tune-0", group.nodes[0], namespace, {"jobset.sigs.k8s.io/jobset-name": "tune"})
    (job,) = find(acting, group.nodes[0])
    assert job.idle == "it is suspended"


def test_generic_label_makes_a_gang_of_what_no_table_knows(acting: Acting, group: NodeGroup, namespace: str) -> None:
    for number, node in enumerate(group.nodes):
        add_rank(acting, f"own-{number}", node, namespace, {"nodemend.io/gang": "own"})
    (job,) = find(acting, group.nodes[0])
    assert (job.job, job.nodes, job.attempts_left) == (f"{namespace}/Gang/own", 2, None)


def test_service_is_no_gang(acting: Acting, group: NodeGroup, namespace: str) -> None:
    create_web(acting.stack, "web", replicas=2, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(acting.stack, "web", namespace)) == 2, "web")
    assert all(job.nodes == 1 or not job.uid for node in group.nodes for job in find(acting, node))


# --- pure -----------------------------------------------------------------------------------------------------------


def owned_pod(kind: str, labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    owner = {"apiVersion": "x/v1", "kind": kind, "name": "own", "uid": "u", "controller": True}
    metadata = {"namespace": "n", "name": "p", "ownerReferences": [owner], "labels": labels or {}}
    return {"metadata": {**metadata, "annotations": annotations}, "spec": {"containers": [{"name": "c"}]}}


def test_pods_that_the_training_operator_owns_are_told_by_their_owner() -> None:
    found = gang_of(owned_pod("PyTorchJob", {"training.kubeflow.org/job-name": "own"}))
    assert (found.job, found.gang) == ("n/PyTorchJob/own", True)


def test_pod_of_a_job_that_is_not_indexed_works_alone() -> None:
    found = gang_of(owned_pod("Job"))
    assert (found.job, found.gang) == ("n/Job/own", False)


def test_stateful_set_is_a_gang_only_where_it_trains() -> None:
    assert not gang_of(owned_pod("StatefulSet")).gang
    assert gang_of(owned_pod("StatefulSet", **{"nodemend.io/checkpoint": "observe"})).gang


def test_group_of_a_leader_worker_set_is_a_gang_of_its_own() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "own", "leaderworkerset.sigs.k8s.io/group-index": "3"}
    assert gang_of(owned_pod("StatefulSet", labels)).job == "n/LeaderWorkerSet/own#3"


@given(labels=st.dictionaries(st.sampled_from([k.label for k in KINDS if k.label]), st.sampled_from(["a", "b"])))
def test_whatever_the_labels_a_pod_has_exactly_one_job_that_its_selector_finds(labels: dict[str, str]) -> None:
    pod = owned_pod("ReplicaSet", labels)
    found = gang_of(pod)
    assert gang_of(pod) == found
    if found.selector:
        key, _, value = found.selector.partition("=")
        assert labels[key] == value


def job(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("kind", "thing", "left", "ends"),
    [
        ("Job", job({"backoffLimit": 6}, failed=2), 4, False),
        ("Job", job({"backoffLimit": 0}), 0, True),
        ("Job", job({"backoffLimit": 0, **IGNORING}), 0, False),
        ("Job", job({"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [
            {"type": "DisruptionTarget"}]}]}}), 0, True),
        ("Job", job({"backoffLimitPerIndex": 1}), 0, True),
        ("Job", job({"activeDeadlineSeconds": 3600}, startTime="2026-12-01T11:10:00Z"), 0, True),
        ("Job", job({"activeDeadlineSeconds": 36000}, startTime="2026-12-01T11:10:00Z"), 6, False),
        ("JobSet", job({}), 0, True),
        ("JobSet", job({"failurePolicy": {"rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]}}), None, False),
        ("JobSet", job({"replicatedJobs": [{"template": {"spec": IGNORING}}]}), 0, False),
        ("PyTorchJob", job({"pytorchReplicaSpecs": {"Worker": {"restartPolicy": "Never"}}}), 0, True),
        ("PyTorchJob", job({}), None, False),
        ("RayJob", job({}), 0, True),
        # What has ended cannot be ended: nobody is asked.
        ("Job", job({}, failed=6, conditions=[{"type": "Failed", "status": "True"}]), None, False),
        ("JobSet", job({}, conditions=[{"type": "Completed", "status": "True"}]), None, False),
        ("JobSet", job({}, conditions=[{"type": "Completed", "status": "False"}]), 0, True),
        ("RayJob", job({}, jobDeploymentStatus="Failed"), None, False),
        ("StatefulSet", job({}), None, False),
    ],
)  # fmt: skip
def test_whether_a_disruption_ends_a_job(kind: str, thing: dict[str, Any], left: int | None, ends: bool) -> None:
    evicted = [owned_pod("Job", **{"batch.kubernetes.io/job-index-failure-count": "1"})]
    found = attempts(BY_KIND[kind], thing, evicted, NOW, timedelta(minutes=30))
    assert (found.left, found.ends) == (left, ends)
    assert found.why


def test_job_that_cannot_be_read_is_not_said_to_end() -> None:
    assert not attempts(BY_KIND["Job"], None, [], NOW, timedelta(minutes=30)).ends
