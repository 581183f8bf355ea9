"""The correlation guard and the back-off after failed repairs: no mistake becomes an outage, and both pass by."""

import math
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.budget import Area, HealthyNodes, Limit, RepairResult, Traits
from contract.budget_policy import CorrelationGuard, FailedRepairs, Rate
from contract.permit import ClusterCount, PermitKind, QueuedRequest
from tests.budgeting.world import ADA, NOW, decide, granted, group, held, queued, wide, world
from workflows.budget.admission import Memory
from workflows.budget.correlation import chance_of_sharing

GUARD = CorrelationGuard(nodes=3, share=0.02)


def fleet(nodes: int = 40, healthy: dict[str, dict[str, int]] | None = None, **policy: object) -> ClusterCount:
    return world(
        group(nodes, nodes),
        policy=wide(**{"correlation": GUARD, **policy}),
        healthy=HealthyNodes(total=nodes, traits=healthy or {}),
    )


def storm(count: int, traits: Traits | None = None, rule: str = "hbm") -> list[QueuedRequest]:
    return [queued(f"n{i}", PermitKind.QUARANTINE, traits=traits, rule=rule) for i in range(count)]


# --- many nodes with one fault ------------------------------------------------------------------------------------


def test_pitfall_1_roll_out_that_makes_every_node_fail_quarantines_none() -> None:
    admission = decide(fleet(), storm(40, {"driver": "2.30.2"}))
    assert not admission.granted
    assert {item.limit for item in admission.waiting} == {Limit.CORRELATION}


def test_shared_trait_is_named_against_the_healthy_nodes() -> None:
    odd = queued("n11", PermitKind.QUARANTINE, traits={"driver": "2.29.0", "kernel": "6.1"})
    asks = [*storm(11, {"driver": "2.30.2", "kernel": "6.1"}), odd]
    count = fleet(healthy={"driver": {"2.29.0": 40}, "kernel": {"6.1": 40}})
    (guard,) = decide(count, asks).memory.guards
    assert "11 of 12 share driver 2.30.2; 0 of the 40 healthy nodes do" in guard.words


def test_detector_version_is_named_though_healthy_nodes_do_not_tell_theirs() -> None:
    (guard,) = decide(fleet(), storm(5, {"detector": "0.3.0"})).memory.guards
    assert guard.words.endswith("5 of 5 share detector 0.3.0")


def test_few_faults_are_no_common_cause() -> None:
    assert len(decide(fleet(), storm(2)).granted) == 2


def test_large_fleet_has_more_faults_by_chance() -> None:
    big = world(
        group(1000, 10), policy=wide(correlation=GUARD), cluster=Area(name="c", desired=1000, others_working=990)
    )
    assert len(decide(big, storm(10)).granted) == 10


def test_faults_spread_over_hours_are_no_common_cause() -> None:
    asks = [queued(f"n{i}", PermitKind.QUARANTINE, age_s=i * 3600) for i in range(6)]
    assert len(decide(fleet(), asks).granted) == 6


def test_one_node_that_fails_again_and_again_is_one_node() -> None:
    asks = [queued("n0", PermitKind.QUARANTINE, incident=f"incident-{i}") for i in range(5)]
    assert decide(fleet(), asks[:1]).memory.guards == ()
    memory = Memory()
    for ask in asks:
        memory = decide(fleet(), [ask], memory=memory).memory
    assert memory.guards == ()


def test_other_faults_go_on() -> None:
    admission = decide(fleet(), [*storm(5), queued("n30", rule="fan")])
    assert granted(admission) == ["n30"]


def test_those_who_came_before_the_guard_are_held_at_their_next_permit() -> None:
    first = decide(fleet(), storm(2))
    late = [queued("n2"), queued("n0"), queued("n1")]
    admission = decide(fleet(), late, [held("n0", PermitKind.QUARANTINE)], first.memory)
    assert not admission.granted


def test_approval_lets_one_node_go_and_no_other() -> None:
    asks = storm(5)
    asks[2] = queued("n2", PermitKind.QUARANTINE, approval=ADA)
    admission = decide(fleet(), asks)
    assert granted(admission) == ["n2"]
    assert "common cause" in admission.granted[0].released_from


# --- many faults with one trait -----------------------------------------------------------------------------------


@pytest.mark.parametrize("trait", ["AMI", "driver", "kernel", "switch", "zone", "instance type"])
def test_different_faults_on_nodes_that_share_what_healthy_ones_do_not(trait: str) -> None:
    asks = [queued(f"n{i}", PermitKind.QUARANTINE, rule=f"rule-{i}", traits={trait: "new"}) for i in range(4)]
    admission = decide(fleet(healthy={trait: {"old": 40}}), asks)
    assert not admission.granted
    (guard,) = admission.memory.guards
    assert (guard.trait, guard.value) == (trait, "new")
    assert f"4 of 4 share {trait} new; 0 of the 40 healthy nodes do" in guard.words


def test_what_every_node_has_is_no_cause() -> None:
    asks = [queued(f"n{i}", PermitKind.QUARANTINE, rule=f"rule-{i}", traits={"driver": "2.30"}) for i in range(8)]
    assert len(decide(fleet(healthy={"driver": {"2.30": 40}}), asks).granted) == 8


def test_one_cause_that_shows_in_several_traits_pages_once() -> None:
    traits = {"driver": "new", "kernel": "new", "AMI": "new"}
    asks = [queued(f"n{i}", PermitKind.QUARANTINE, rule=f"rule-{i}", traits=traits) for i in range(5)]
    healthy = {name: {"old": 40} for name in traits}
    admission = decide(fleet(healthy=healthy), asks)
    assert len(admission.memory.guards) == 1
    again = decide(fleet(healthy=healthy), list(admission.waiting), memory=admission.memory)
    assert len(again.memory.guards) == 1


def test_job_that_leaves_faults_on_node_after_node_over_hours_is_software() -> None:
    job = {"job": "ml/Job/train"}
    asks = [queued(f"n{i}", rule="xid-31", age_s=i * 5000, traits=job) for i in range(4)]
    admission = decide(fleet(healthy={"job": {"ml/Job/train": 0}}), asks)
    assert not admission.granted
    assert "share job ml/Job/train" in admission.waiting[0].reason


def test_job_that_runs_everywhere_is_not_blamed_for_what_fails_anywhere() -> None:
    """A gang over the whole fleet has every fault of the fleet among its own."""
    asks = [queued(f"n{i}", rule=f"rule-{i}", age_s=i * 3000, traits={"job": "ml/Job/big"}) for i in range(6)]
    assert len(decide(fleet(healthy={"job": {"ml/Job/big": 39}}), asks).granted) == 6


@given(of=st.integers(1, 60), base=st.floats(0.01, 0.99), data=st.data())
def test_chance_is_never_understated(of: int, base: float, data: st.DataObject) -> None:
    sharing = data.draw(st.integers(0, of))
    exact = sum(math.comb(of, k) * base**k * (1 - base) ** (of - k) for k in range(sharing, of + 1))
    assert chance_of_sharing(sharing, of, base) >= exact - 1e-9


# --- it passes by -------------------------------------------------------------------------------------------------


def later(
    memory: Memory, waiting: list[QueuedRequest], now: datetime, **policy: object
) -> tuple[int, Memory, list[QueuedRequest]]:
    admission = decide(fleet(**policy), waiting, memory=memory, now=now)  # type: ignore[arg-type]
    return len(admission.granted), admission.memory, list(admission.waiting)


def test_pitfall_3_guard_clears_by_itself_though_its_nodes_still_wait() -> None:
    _, memory, waiting = later(Memory(), storm(5), NOW)
    number, memory, waiting = later(memory, waiting, NOW + timedelta(minutes=29))
    assert number == 0
    number, memory, waiting = later(memory, waiting, NOW + timedelta(minutes=30))
    assert number == 5
    assert memory.guards[0].cleared_at is not None


def test_pitfall_4_when_the_guard_clears_they_do_not_all_go_at_once() -> None:
    slow = Rate(per_hour=60, burst=2)
    _, memory, waiting = later(Memory(), storm(30), NOW, quarantines=slow)
    number, memory, waiting = later(memory, waiting, NOW + timedelta(minutes=30), quarantines=slow)
    assert number == 2
    number, memory, waiting = later(memory, waiting, NOW + timedelta(minutes=31), quarantines=slow)
    assert number == 1


def test_new_faults_keep_it_up_and_what_raised_it_does_not_raise_it_again() -> None:
    _, memory, waiting = later(Memory(), storm(5), NOW)
    fresh = queued("n20", PermitKind.QUARANTINE, age_s=-20 * 60)
    number, memory, waiting = later(memory, [*waiting, fresh], NOW + timedelta(minutes=20))
    number, memory, waiting = later(memory, waiting, NOW + timedelta(minutes=40))
    assert number == 0
    number, memory, waiting = later(memory, waiting, NOW + timedelta(minutes=50))
    assert number == 6
    more = [queued(f"n{i}", PermitKind.QUARANTINE, age_s=-51 * 60) for i in (30, 31)]
    number, memory, waiting = later(memory, more, NOW + timedelta(minutes=51))
    assert number == 2
    third = [queued("n32", PermitKind.QUARANTINE, age_s=-52 * 60)]
    number, memory, waiting = later(memory, third, NOW + timedelta(minutes=52))
    assert number == 0


# --- failed repairs -----------------------------------------------------------------------------------------------


def repair(node: str, *, failed: bool, hours_ago: float, replacement: str = "", fault: str = "hbm") -> RepairResult:
    return RepairResult(
        incident_id=f"remediate-{node}",
        run_id="r",
        group="g",
        fault=fault,
        node=node,
        replacement=replacement,
        failed=failed,
        at=NOW - timedelta(hours=hours_ago),
    )


BACKOFF = {"failed_repairs": FailedRepairs(), "correlation": CorrelationGuard(nodes=10_000)}


def test_pitfall_6_failed_repair_is_not_repeated_at_once() -> None:
    memory = Memory(repairs=(repair("n0", failed=True, hours_ago=0.5),))
    admission = decide(fleet(**BACKOFF), [queued("n1")], memory=memory)
    (item,) = admission.waiting
    assert item.limit is Limit.FAILED_REPAIRS
    assert item.reason == "1 repair of hbm in g failed, the last on n0"
    assert "12:30" in item.releases


@pytest.mark.parametrize(("failures", "hours"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 24), (9, 24)])
def test_each_failure_doubles_the_wait_up_to_a_day(failures: int, hours: int) -> None:
    def memory(hours_ago: float) -> Memory:
        return Memory(repairs=tuple(repair(f"n{i}", failed=True, hours_ago=hours_ago) for i in range(failures)))

    assert not decide(fleet(**BACKOFF), [queued("n20")], memory=memory(hours - 0.01)).granted
    assert decide(fleet(**BACKOFF), [queued("n20")], memory=memory(hours)).granted


def test_after_a_failure_one_goes_ahead_of_the_others() -> None:
    memory = Memory(repairs=(repair("n0", failed=True, hours_ago=2),))
    admission = decide(fleet(**BACKOFF), [queued("n1"), queued("n2", age_s=9), queued("n3")], memory=memory)
    assert granted(admission) == ["n2"]
    assert {item.limit for item in admission.waiting} == {Limit.FAILED_REPAIRS}


def test_success_ends_it() -> None:
    memory = Memory(repairs=(repair("n0", failed=True, hours_ago=2), repair("n1", failed=False, hours_ago=1)))
    assert len(decide(fleet(**BACKOFF), [queued("n2"), queued("n3")], memory=memory).granted) == 2


def test_other_faults_and_quarantine_do_not_wait_for_it() -> None:
    memory = Memory(repairs=(repair("n0", failed=True, hours_ago=0.1),))
    asks = [queued("n1", rule="fan"), queued("n2", PermitKind.QUARANTINE)]
    assert len(decide(fleet(**BACKOFF), asks, memory=memory).granted) == 2


def test_pitfall_6_new_machine_with_the_old_fault_makes_its_repair_a_failed_one() -> None:
    """Verified whole, and broken an hour later: a bad image passes every proof."""
    memory = Memory(repairs=(repair("n0", failed=False, hours_ago=1, replacement="n9"),))
    admission = decide(fleet(**BACKOFF), [queued("n9")], memory=memory)
    assert not admission.granted
    assert "1 repair of hbm" in admission.waiting[0].reason
    # Looked at again it is still one failure.
    again = decide(fleet(**BACKOFF), list(admission.waiting), memory=admission.memory)
    assert sum(item.failed for item in again.memory.repairs) == 1


def test_old_failures_are_forgotten() -> None:
    memory = Memory(repairs=(repair("n0", failed=True, hours_ago=73),))
    admission = decide(fleet(**BACKOFF), [queued("n1")], memory=memory)
    assert admission.granted
    assert admission.memory.repairs == ()
