"""Who of a job is asked, on what terms, and in whose name: the worst of what its failing nodes say. No job is run."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.checkpoint_ask import Terms, speaker_of
from activities.jobs import JobActivities, terms
from contract.checkpoints import CheckpointStatus
from contract.fault import DataTrust
from contract.gang import GangCheckpoint, GangMember, GangRequest, RequestGangCheckpoint
from contract.identity import Fence, Target
from contract.names import OWNER_ANNOTATION, ErrorType
from contract.permit import PermitKind, PermitRequest
from contract.policy import CheckpointPolicy
from tests.acting import Acting, refusal
from tests.checkpointing.jobs import add_declaring, calls, declared, program
from tests.conftest import MakeNodeGroup
from tests.runbook.world import identity

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
RANK = "batch.kubernetes.io/job-completion-index"


def pod(node: str, rank: int, *, phase: str = "Running", going: bool = False) -> dict[str, Any]:
    metadata = {"namespace": "n", "name": f"p-{rank}", "annotations": {RANK: str(rank)}}
    if going:
        metadata["deletionTimestamp"] = "2026-12-01T12:00:00Z"
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


def terms_with(**changes: Any) -> Terms:
    usual: dict[str, Any] = {
        "nonce": "n",
        "data": DataTrust.TRUSTED,
        "device_resource": None,
        "evidence_since": None,
        "asked_at": NOW,
        "usual": timedelta(minutes=10),
        "rules": CheckpointPolicy(),
        "failing": frozenset({"bad"}),
    }
    return Terms(**{**usual, **changes})


@pytest.mark.parametrize(
    ("pods", "changes", "asked"),
    [
        # A survivor can answer whatever the fault does; of them the lowest rank, as a number.
        ([pod("bad", 0), pod("good", 10), pod("good", 9)], {}, "p-9"),
        ([pod("bad", 1), pod("bad", 0)], {}, "p-0"),
        ([pod("bad", 0), pod("good", 1)], {"ranks_alive": False}, "p-1"),
        ([pod("bad", 0)], {"ranks_alive": False}, None),
        # Nothing is asked of a suspect job but what it has.
        ([pod("bad", 0)], {"ranks_alive": False, "data": DataTrust.SUSPECT}, "p-0"),
        ([pod("good", 0, phase="Failed"), pod("bad", 1)], {}, "p-1"),
        ([pod("good", 0, going=True), pod("bad", 1)], {}, "p-1"),
        ([pod("good", 0, phase="Pending")], {}, None),
    ],
)
def test_survivors_are_asked_before_the_failing_and_never_who_cannot_answer(
    pods: list[dict[str, Any]], changes: dict[str, Any], asked: str | None
) -> None:
    found = speaker_of(pods, terms_with(**changes))
    assert (found["metadata"]["name"] if found else None) == asked


def member(node: str, **changes: Any) -> GangMember:
    return GangMember(
        target=Target(identity=identity(node=node), fence=Fence(incident_id=node, run_id="run-1")), **changes
    )


def request(*members: GangMember, **changes: Any) -> RequestGangCheckpoint:
    asked = GangRequest(cluster="c", job="n/Gang/own", deadline=timedelta(minutes=10))
    return RequestGangCheckpoint(
        **{"request": asked, "members": members, "nonce": "nonce-1", "asked_at": NOW, **changes}
    )


def terms_of(*members: GangMember, **changes: Any) -> Terms:
    return terms(request(*members, **changes), members)


def test_one_suspect_device_spoils_the_job_from_its_first_sign_on_whoever_joined_first() -> None:
    spoiling = {"data": DataTrust.SUSPECT, "device_resource": "aws.amazon.com/neuron"}
    found = terms_of(
        member("a"),
        member("b", evidence_since=NOW, **spoiling),
        member("c", evidence_since=NOW - timedelta(minutes=5), **spoiling),
    )
    assert (found.data, found.device_resource) == (DataTrust.SUSPECT, "aws.amazon.com/neuron")
    assert found.evidence_since == NOW - timedelta(minutes=5)
    assert found.failing == {"b", "c"}, "a rank that holds the device of a sound node is not suspect"


def test_two_kinds_of_suspect_devices_are_any_kind() -> None:
    both = [member(kind, data=DataTrust.SUSPECT, device_resource=kind) for kind in ("nvidia.com/gpu", "x/y")]
    assert terms_of(*both).device_resource is None


def test_one_dead_rank_stops_the_job() -> None:
    assert not terms_of(member("a"), member("b", ranks_alive=False)).ranks_alive
    assert terms_of(member("a"), member("b")).failing == {"a", "b"}


def test_deadline_counts_from_the_first_asking_whatever_is_asked_anew() -> None:
    found = terms_of(member("a"), extended=timedelta(minutes=3))
    assert (found.asked_at, found.extended, found.nonce) == (NOW, timedelta(minutes=3), "nonce-1")


def ask(acting: Acting, argument: RequestGangCheckpoint, spend: Any = lambda _: None) -> GangCheckpoint:
    found: GangCheckpoint = acting.do(JobActivities(acting.cluster, spend).request_gang_checkpoint, argument)
    return found


def test_job_is_asked_in_the_name_of_those_nodes_alone_that_are_still_ours_and_with_leave(
    acting: Acting, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    ours, others = node_group(2).nodes
    labels, annotations = {"nodemend.io/gang": "own"}, declared("exec", command=program(tmp_path))
    for node in (ours, others):
        add_declaring(acting, node, namespace, annotations, f"own-{node.partition('.')[0]}", labels=labels)
    members = [GangMember(target=acting.claim(node)) for node in (ours, others)]
    acting.patch(others, {"spec": {"unschedulable": None}})
    gang = GangRequest(cluster="c", job=f"{namespace}/Gang/own", deadline=timedelta(seconds=20))
    asked = {"request": gang, "asked_at": datetime.now(UTC)}
    permit = PermitRequest(
        kind=PermitKind.DISRUPTION, incident_id="i", run_id="r", cluster="c", group="g", node=ours, zone="z",
        signature="s", rule="r",
    )  # fmt: skip

    def unknown(_permit: PermitRequest) -> None:
        raise ApplicationError("FleetBudget does not know it.", type=ErrorType.PERMIT_QUEUED)

    # FleetBudget may have been terminated since: nothing is disturbed on a permit that it does not know.
    kind, _ = refusal(lambda: ask(acting, request(*members, permit=permit, **asked), unknown))
    assert (kind, calls(tmp_path)) == (ErrorType.PERMIT_QUEUED, [])
    vetoed = ask(acting, request(members[1], **asked))
    assert (vetoed.status, calls(tmp_path)) == (CheckpointStatus.DEAD, [])
    found = ask(acting, request(*members, **asked))
    assert (found.status, found.step) == (CheckpointStatus.SAVED, 1000)
    marked = [acting.cluster.node(node)["metadata"]["annotations"][OWNER_ANNOTATION] for node in (ours, others)]  # type: ignore[index]
    assert ['"disrupting":true' in claim for claim in marked] == [True, False]
    # A worker that comes back past the deadline asks nothing: the node is not waited for any longer.
    past = {**asked, "nonce": "nonce-2", "asked_at": datetime.now(UTC) - timedelta(minutes=1)}
    late = ask(acting, request(members[0], **past))
    assert (late.status, late.asks) == (CheckpointStatus.FAILED, 0)
    assert "it was not asked in time" in late.explanation
    assert "save nonce-2" not in calls(tmp_path)
