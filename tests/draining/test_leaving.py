"""In which order the pods of a node are asked to leave, gangs and their leaders above all (D36). No cluster."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.blockers import Budgets, Progress, waiting
from activities.cluster import Json
from activities.leaving import Lead, held_back, leads, next_wave
from activities.pod_filters import Filtered, Verdict

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
INDEX = "batch.kubernetes.io/job-completion-index"
TRAINING = "training.kubeflow.org"
JOBSET = "jobset.sigs.k8s.io"
LWS = "leaderworkerset.sigs.k8s.io"


def pod(
    name: str,
    labels: dict[str, str] | None = None,
    *,
    owner: tuple[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    verdict: Verdict = Verdict.EVICT,
    **spec: Any,
) -> Filtered:
    metadata: Json = {"namespace": "n", "name": name, "uid": name, "labels": labels or {}}
    metadata["annotations"] = annotations or {}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "uid": "o", "controller": True}]
    if verdict is Verdict.ENDING:
        metadata["deletionTimestamp"] = "2026-12-01T12:00:30Z"
    return Filtered({"metadata": metadata, "spec": spec}, verdict, "")


def turn(left: list[Filtered]) -> list[Filtered]:
    return next_wave(left, NOW, held_back(left))


def indexed(index: str, name: str = "") -> Filtered:
    return pod(name or f"j-{index}", {INDEX: index}, owner=("Job", "j"))


def kubeflow(role: str, index: str = "0", *, mpi: bool = False) -> Filtered:
    operator = "mpi-operator" if mpi else "pytorchjob-controller"
    found = {f"{TRAINING}/job-name": "t", f"{TRAINING}/operator-name": operator, f"{TRAINING}/job-role": role}
    return pod(f"t-{role}-{index}", found)


def jobset(index: str, of_pod: str, *, coordinator: str = "", hostname: str = "", part: str = "workers") -> Filtered:
    found = {f"{JOBSET}/jobset-name": "s", f"{JOBSET}/job-global-index": index, INDEX: of_pod}
    found[f"{JOBSET}/replicatedjob-name"] = part
    named = {f"{JOBSET}/coordinator": coordinator} if coordinator else {}
    return pod(f"s-{part}-{index}-{of_pod}", found, annotations=named, hostname=hostname)


def trainer(part: str, index: str = "0") -> Filtered:
    made = jobset(index, "0", part=part)
    made.pod["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] = "trainer"
    return made


def ray(kind: str) -> Filtered:
    return pod(f"r-{kind}", {"ray.io/cluster": "r", "ray.io/node-type": kind})


def lws(index: str, group: str = "0") -> Filtered:
    found = {f"{LWS}/name": "l", f"{LWS}/group-index": group, f"{LWS}/worker-index": index}
    return pod(f"l-{group}-{index}", found)


@pytest.mark.parametrize(
    ("leader", "rank", "lead"),
    [
        (indexed("0"), indexed("1"), Lead.LAST),
        (jobset("0", "0"), jobset("1", "0"), Lead.LAST),
        (jobset("0", "0"), jobset("0", "1"), Lead.LAST),
        (
            jobset("1", "0", coordinator="s-driver-0-0.s", hostname="s-driver-0-0", part="driver"),
            jobset("0", "0", coordinator="s-driver-0-0.s", hostname="s-workers-0-0"),
            Lead.LAST,
        ),
        (trainer("node"), trainer("node", "1"), Lead.LAST),
        (trainer("launcher", "1"), trainer("node", "2"), Lead.FIRST),
        (kubeflow("master"), kubeflow("worker"), Lead.LAST),
        (kubeflow("launcher", mpi=True), kubeflow("worker", mpi=True), Lead.FIRST),
        (ray("head"), ray("worker"), Lead.LAST),
        (lws("0"), lws("1"), Lead.LAST),
    ],
    ids=[
        "Job",
        "JobSet",
        "JobSet pod",
        "coordinator",
        "TrainJob",
        "TrainJob MPI",
        "PyTorchJob",
        "MPIJob",
        "Ray",
        "LWS",
    ],
)
def test_d36_leader_of_every_kind_is_known_and_leaves_as_its_gang_needs(
    leader: Filtered, rank: Filtered, lead: Lead
) -> None:
    assert (leads(leader.pod), leads(rank.pod)) == (lead, None)
    first, second = (leader, rank) if lead is Lead.FIRST else (rank, leader)
    assert turn([leader, rank]) == [first]
    assert list(held_back([leader, rank])) == [second.uid]
    # The first is told to end, and not gone: they end, and save, together.
    first.pod["metadata"]["deletionTimestamp"] = "2026-12-01T12:00:30Z"
    told = Filtered(first.pod, Verdict.ENDING, "")
    assert turn([told, second]) == [second]


@pytest.mark.parametrize("leader", [indexed("0"), kubeflow("master"), lws("0"), ray("head")], ids=lambda pod: pod.name)
def test_leader_without_ranks_here_waits_for_nobody(leader: Filtered) -> None:
    other_gang = [pod("web", owner=("ReplicaSet", "web")), lws("1", group="7"), trainer("node", "1")]
    assert leader in turn([leader, *other_gang])


def test_leader_stays_with_the_rank_that_a_budget_keeps_and_people_are_told_so() -> None:
    leader, rank = kubeflow("master"), kubeflow("worker")
    told = waiting([leader, rank], Progress(held=held_back([leader, rank])), Budgets(None))  # type: ignore[arg-type] # nothing is looked up
    assert told == [
        "n/t-master-0 (leads n/PyTorchJob/t: it is asked when the job's other pods here have been told to end)",
        "n/t-worker-0",
    ]


def test_of_equal_priority_what_may_take_longest_is_asked_first() -> None:
    """A drain is over when its slowest pod is."""
    quick, usual = pod("a", terminationGracePeriodSeconds=5), pod("b")
    slow, low = pod("c", terminationGracePeriodSeconds=600), pod("d", priority=-1)
    assert turn([quick, usual, slow, low]) == [low, slow, usual, quick]


_names = st.sampled_from(["", "system-cluster-critical", "system-node-critical"])
_members = st.one_of(
    st.builds(kubeflow, st.sampled_from(["master", "worker"]), st.sampled_from("0123")),
    st.builds(
        lambda role, index: kubeflow(role, index, mpi=True), st.sampled_from(["launcher", "worker"]), st.just("9")
    ),
    st.builds(jobset, st.sampled_from("012"), st.sampled_from("012")),
    st.builds(indexed, st.sampled_from("0123")),
    st.builds(lws, st.sampled_from("012"), st.sampled_from("01")),
    st.just(pod("alone")),
)


@given(st.lists(st.tuples(_members, _names, st.integers(-5, 5)), max_size=12))
def test_every_pod_gets_its_turn_exactly_once_whatever_leads_what(drawn: list[tuple[Filtered, str, int]]) -> None:
    left: dict[str, Filtered] = {}
    for number, (made, priority_class, priority) in enumerate(drawn):
        metadata = {**made.pod["metadata"], "uid": f"u{number}"}
        spec = {**made.pod["spec"], "priorityClassName": priority_class, "priority": priority}
        left[f"u{number}"] = Filtered({"metadata": metadata, "spec": spec}, Verdict.EVICT, "")
    asked: list[str] = []
    while left:
        wave = turn(list(left.values()))
        assert wave, "nobody's turn: the drain would wait for ever"
        asked += [one.uid for one in wave]
        for one in wave:
            del left[one.uid]
    assert sorted(asked) == sorted(f"u{number}" for number in range(len(drawn)))
