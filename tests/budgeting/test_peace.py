"""What need not wait and what is left in peace: nodes on which all work is dead, and jobs that have just restarted."""

from datetime import timedelta
from typing import Any

import pytest

from activities.gang_reader import restarted_at
from activities.traits import driver_traits, work_is_dead
from contract.budget import Area, Limit, Pause
from contract.budget_policy import CorrelationGuard, Rate
from contract.permit import PermitKind, QueuedRequest
from tests.budgeting.world import ADA, NOW, decide, group, held, queued, wide, world
from workflows.budget.admission import Memory

FREE = wide(useless_costs_nothing=True)
SPENT = group(10, 8, 2, closed=0.2)
"""As many of it are closed as may be."""
ZONE = [Area(name="a", desired=10, working=tuple(f"n{i}" for i in range(8)), quarantined=("n8", "n9"))]


def useless(node: str, **more: Any) -> QueuedRequest:
    item = queued(node, PermitKind.QUARANTINE, **more)
    return item.model_copy(update={"request": item.request.model_copy(update={"useless": True})})


# --- nodes on which all work is dead ----------------------------------------------------------------------------------


def test_node_whose_work_is_dead_costs_nothing_more_to_quarantine_where_the_policy_says_so() -> None:
    tight = wide(
        useless_costs_nothing=True,
        cluster=FREE.cluster.model_copy(update={"max_quarantined_share": 0.1}),
        zone=FREE.zone.model_copy(update={"max_quarantined_share": 0.1}),
        quarantines=Rate(per_hour=0.001, burst=1),
    )
    queue = [useless("n0"), useless("n1"), useless("n2")]
    assert len(decide(world(SPENT, policy=tight, zones=ZONE), queue).granted) == 3


def test_without_the_policy_s_word_it_waits_as_any_other() -> None:
    (waiting,) = decide(world(SPENT), [useless("n0")]).waiting
    assert waiting.limit is Limit.GROUP


def test_closed_useless_nodes_take_nothing_from_the_others() -> None:
    """Ten nodes, one of which may be closed: two that are dead weight are closed already."""
    count = world(group(10, 8, 2, closed=0.1), policy=FREE)
    out = [
        item.model_copy(update={"request": item.request.model_copy(update={"useless": True})})
        for item in (held("n8", PermitKind.QUARANTINE), held("n9", PermitKind.QUARANTINE))
    ]
    both = [queued("n0", PermitKind.QUARANTINE, age_s=2), queued("n1", PermitKind.QUARANTINE, age_s=1)]
    assert [grant.request.node for grant in decide(count, both, out).granted] == ["n0"]


def test_disturbing_a_useless_node_is_not_free() -> None:
    item = useless("n0")
    disturbing = item.model_copy(update={"request": item.request.model_copy(update={"kind": PermitKind.DISRUPTION})})
    assert not decide(world(group(10, 8, share=0.1), policy=FREE), [disturbing]).granted


def test_pause_and_the_guard_hold_useless_nodes_too() -> None:
    """A bad roll-out kills the work on every node: that must not be what opens the way."""
    paused = Memory(pauses=(Pause(by="ada", reason="roll-out", at=NOW),))
    (waiting,) = decide(world(SPENT, policy=FREE), [useless("n0")], memory=paused).waiting
    assert waiting.limit is Limit.PAUSED
    guarded = FREE.model_copy(update={"correlation": CorrelationGuard(nodes=3)})
    stormy = decide(world(SPENT, policy=guarded), [useless(f"n{i}") for i in range(4)])
    assert not stormy.granted
    assert {item.limit for item in stormy.waiting} == {Limit.CORRELATION}


RUNS = {"state": {"running": {"startedAt": "2026-12-01T11:00:00Z"}}}
WAITS = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}


def pod(phase: str = "Running", *containers: Any, kind: str = "Job", deleted: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"ownerReferences": [{"kind": kind, "name": "x", "controller": True}]}
    if deleted:
        metadata["deletionTimestamp"] = "2026-12-01T11:00:00Z"
    return {"metadata": metadata, "status": {"phase": phase, "containerStatuses": list(containers)}, "spec": {}}


@pytest.mark.parametrize(
    ("pods", "dead"),
    [
        ([], False),
        ([pod("Running", RUNS)], False),
        ([pod("Failed")], True),
        ([pod("Succeeded")], False),
        ([pod("Failed"), pod("Running", RUNS)], False),
        ([pod("Failed"), pod("Running", RUNS, kind="DaemonSet")], True),
        ([pod("Running", RUNS, kind="DaemonSet")], False),
        ([pod("Running", WAITS)], True),
        ([pod("Running", WAITS, RUNS)], False),
        ([pod("Pending")], False),
        ([pod("Running", RUNS, deleted=True)], True),
    ],
)
def test_work_is_dead_when_there_is_some_and_none_lives(pods: list[dict[str, Any]], dead: bool) -> None:
    """An idle node is a spare one: closing it takes something away."""
    assert work_is_dead(pods) is dead


# --- jobs that have just restarted ------------------------------------------------------------------------------------


def of_gang(restarted: timedelta | None, **more: Any) -> QueuedRequest:
    item = queued("n0", **more)
    moment = None if restarted is None else NOW - restarted
    return item.model_copy(
        update={"request": item.request.model_copy(update={"job": "ml/Job/train", "restarted_at": moment})}
    )


def test_job_that_just_restarted_is_left_in_peace_for_a_while() -> None:
    policy = wide(peace_after_restart=timedelta(minutes=15))
    (waiting,) = decide(world(group(10, 10), policy=policy), [of_gang(timedelta(minutes=5))]).waiting
    assert waiting.limit is Limit.RESTARTED
    assert "ml/Job/train started again at 11:55:00 UTC" in waiting.reason
    assert "12:10:00" in waiting.releases
    later = NOW + timedelta(minutes=10)
    assert decide(world(group(10, 10), policy=policy), [of_gang(timedelta(minutes=5))], now=later).granted


def test_job_that_has_run_for_longer_or_never_restarted_does_not_wait() -> None:
    for item in (of_gang(timedelta(minutes=15)), of_gang(None)):
        assert decide(world(group(10, 10)), [item]).granted


def test_human_does_not_wait_for_the_peace_and_it_stands_in_the_record() -> None:
    (grant,) = decide(world(group(10, 10)), [of_gang(timedelta(minutes=1), approval=ADA)]).granted
    assert "started again" in grant.released_from


def made(at: str) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": at}}


def test_restart_is_the_newest_start_of_a_rank_unless_it_is_the_first_of_the_job() -> None:
    started = pod("Running", RUNS)
    assert restarted_at(made("2026-12-01T08:00:00Z"), [started]) == NOW - timedelta(hours=1)
    assert restarted_at(made("2026-12-01T10:58:00Z"), [started]) is None, "its first"
    assert restarted_at(made("2026-12-01T08:00:00Z"), [pod("Failed", RUNS)]) is None, "it runs no more"
    assert restarted_at(None, [started]) is None, "nobody can tell"


# --- drivers, for the words of the guard ------------------------------------------------------------------------------


def test_driver_that_the_node_s_own_detector_read_is_a_trait() -> None:
    fields = {"driver.neuron": "2.30.2.0", "machine.uptime_s": "12", "instance-id": "i-1"}
    assert driver_traits(fields) == {"neuron driver": "2.30.2.0"}
