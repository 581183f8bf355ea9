"""Admission: limits hold whatever is asked in whatever order, small groups can be repaired, nobody starves."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.budget import Area, Limit, Pause
from contract.budget_policy import AreaLimits, Rate
from contract.permit import PermitKind, QueuedRequest
from tests.budgeting.world import ADA, NOW, decide, granted, group, held, queued, request, why, wide, world
from workflows.budget.admission import Memory


@given(
    desired=st.integers(1, 40),
    missing=st.integers(0, 5),
    asking=st.integers(0, 40),
    out=st.integers(0, 5),
    concurrent=st.integers(1, 10),
    share=st.floats(0.01, 1.0),
)
def test_disruption_never_passes_concurrency_nor_share(
    desired: int, missing: int, asking: int, out: int, concurrent: int, share: float
) -> None:
    working = max(0, desired - missing)
    names = [f"n{i}" for i in range(working)]
    holders, askers = names[:out], names[out : out + asking]
    count = world(group(desired, working, concurrent=concurrent, share=share))
    let_go = granted(decide(count, [queued(n) for n in askers], [held(n) for n in holders]))
    if let_go:
        assert len(holders) + len(let_go) <= max(concurrent, len(holders))
        lost = (desired - working) + len(holders) + len(let_go)
        assert lost <= max(1, math.floor(share * desired))


@pytest.mark.parametrize("kind", list(PermitKind))
@pytest.mark.parametrize(
    ("desired", "share", "allowed"),
    [
        # Pitfall 5 (denominator games): rounded down, and never below one node.
        (1, 0.2, 1),
        (2, 0.2, 1),
        (3, 0.2, 1),
        (5, 0.2, 1),
        (6, 0.2, 1),
        (10, 0.2, 2),
        (1, 1.0, 1),
        (5, 0.5, 2),
        (6, 0.5, 3),
    ],
)
def test_pitfall_5_small_group_can_lose_one_node_and_share_rounds_down(
    desired: int, share: float, allowed: int, kind: PermitKind
) -> None:
    count = world(group(desired, desired, share=share, closed=share))
    assert len(granted(decide(count, [queued(f"n{i}", kind) for i in range(desired)]))) == allowed


def test_pitfall_5_group_that_was_scaled_to_nothing_lets_its_last_node_be_repaired() -> None:
    assert granted(decide(world(group(0, ["n0"])), [queued("n0")])) == ["n0"]


def test_node_that_is_gone_and_not_replaced_still_costs() -> None:
    admission = decide(world(group(desired=10, working=9, share=0.1)), [queued("n0")])
    assert not admission.granted
    assert "1 of 10 nodes" in why(admission, "n0")


def test_node_that_works_no_more_costs_nothing_to_disrupt() -> None:
    # n9 is not Ready, so it is not among the working ones: it is itself the one that is missing.
    assert granted(decide(world(group(desired=10, working=9, share=0.1)), [queued("n9")]))


def test_quarantined_nodes_still_work() -> None:
    assert granted(decide(world(group(desired=10, working=7, quarantined=3, share=0.1)), [queued("n8")]))


def test_permit_that_is_not_visible_yet_is_counted() -> None:
    assert not granted(decide(world(group(desired=10, working=10, share=0.1)), [queued("n1")], [held("n0")]))


def test_nodes_that_nobody_asks_about_need_no_names() -> None:
    count = world(group(desired=10, working=["n0", "n1"], others_working=7, share=0.2))
    assert granted(decide(count, [queued("n0"), queued("n1")])) == ["n0"]


def test_oldest_goes_first() -> None:
    count = world(group(desired=10, working=10, concurrent=1))
    admission = decide(count, [queued("n1", age_s=5), queued("n2", age_s=50), queued("n3", age_s=1)])
    assert granted(admission) == ["n2"]
    assert [q.request.node for q in admission.waiting] == ["n1", "n3"]


def test_severe_fault_passes_and_does_not_starve_the_mild_one() -> None:
    count = world(group(desired=10, working=10, concurrent=1))
    mild, severe = queued("n1", age_s=60), queued("n2", severity=2)
    assert granted(decide(count, [mild, severe])) == ["n2"]
    patient = queued("n1", age_s=timedelta(hours=2, seconds=1).total_seconds())
    assert granted(decide(count, [patient, severe])) == ["n1"]


def test_full_group_does_not_stop_another() -> None:
    full, other = group(desired=10, working=5, share=0.1), group(4, ["m0", "m1", "m2", "m3"], name="h")
    assert granted(decide(world(full, other), [queued("n0", age_s=99), queued("m0", group="h")])) == ["m0"]


def test_group_that_could_not_be_counted_waits() -> None:
    admission = decide(world(), [queued("n0")])
    assert "could not be counted" in why(admission, "n0")
    assert admission.waiting[0].limit is Limit.UNCOUNTED


@given(st.permutations([queued(f"n{i}", age_s=i * 7 % 5) for i in range(6)]))
def test_order_of_arrival_in_the_list_does_not_matter(queue: list[QueuedRequest]) -> None:
    count = world(group(desired=6, working=6, concurrent=3))
    assert decide(count, queue) == decide(count, sorted(queue, key=lambda q: q.request.node))


# --- beyond the group ------------------------------------------------------------------------------------------------


def test_zone_loses_no_more_than_its_share_whatever_its_groups_allow() -> None:
    one, two = group(4, ["n0", "n1", "n2", "n3"]), group(4, ["m0", "m1", "m2", "m3"], name="h")
    zone = Area(name="a", desired=8, working=(*one.working, *two.working))
    count = world(one, two, zones=[zone], policy=wide(zone=AreaLimits(max_disrupted_share=0.25)))
    admission = decide(count, [queued(n) for n in one.working] + [queued(n, group="h") for n in two.working])
    assert len(granted(admission)) == 2
    assert {item.limit for item in admission.waiting} == {Limit.ZONE}


def test_zone_counts_a_node_whose_machine_is_gone() -> None:
    zone = Area(name="a", desired=9, others_working=8, working=("n1",))
    policy = wide(zone=AreaLimits(max_disrupted_share=0.1))
    count = world(group(20, 9), zones=[zone], policy=policy, absent=("n0",))
    assert why(decide(count, [queued("n1")], [held("n0")]), "n1").startswith("1 of 10 nodes of a")


def test_many_groups_within_their_limits_do_not_pass_that_of_the_cluster() -> None:
    """EKS limits each group alone, so a cluster of forty groups can be repaired in all of them at once."""
    groups = [group(2, [f"g{i}-0", f"g{i}-1"], name=f"g{i}") for i in range(40)]
    count = world(*groups, policy=wide(cluster=AreaLimits(max_disrupted_share=0.1)))
    admission = decide(count, [queued(f"g{i}-0", group=f"g{i}") for i in range(40)])
    assert len(granted(admission)) == 8
    assert {item.limit for item in admission.waiting} == {Limit.CLUSTER}


def test_absolute_cap_holds_in_a_fleet_of_any_size() -> None:
    count = world(group(10_000, 10_000, concurrent=10_000), policy=wide(max_disrupted=3))
    assert len(granted(decide(count, [queued(f"n{i}") for i in range(10)]))) == 3


def test_pitfall_9_one_incident_at_a_time_on_a_node() -> None:
    admission = decide(world(group(10, 10)), [queued("n0", incident="drill-n0")], [held("n0")])
    assert "remediate-n0 already has this permit" in why(admission, "n0")


def test_new_run_of_an_incident_that_was_reset_is_the_same_incident() -> None:
    again = queued("n0")
    again = again.model_copy(update={"request": again.request.model_copy(update={"run_id": "after-reset"})})
    assert granted(decide(world(group(10, 10, concurrent=1)), [again], [held("n0")])) == ["n0"]


def test_group_keeps_the_nodes_that_its_gang_needs() -> None:
    count = world(group(18, 17, min_working=16))
    admission = decide(count, [queued("n0"), queued("n1")])
    assert granted(admission) == ["n0"]
    assert admission.waiting[0].limit is Limit.SPARE
    # One that does not work any more takes no spare away.
    assert granted(decide(count, [queued("n17")])) == ["n17"]


def test_pitfall_3_dead_nodes_do_not_wait_for_each_other() -> None:
    """Two of ten are dead where one may be lost: each would count the other for ever."""
    count = world(group(10, 8, share=0.1, closed=0.1))
    quarantines = [queued(node, PermitKind.QUARANTINE) for node in ("n8", "n9")]
    assert granted(decide(count, quarantines)) == ["n8", "n9"]
    disruptions = [queued("n8"), queued("n9")]
    assert granted(decide(count, disruptions)) == ["n8"], "one after another: it is past the share"
    assert not granted(decide(count, [queued("n0")])), "what works waits"


def test_pitfall_2_most_of_a_group_dead_at_once_is_an_outage_and_no_reason_to_replace() -> None:
    """A partition looks like dead machines, and replacing them makes it worse."""
    count = world(group(10, 4, share=0.1, closed=0.1))
    assert not granted(decide(count, [queued(f"n{i}") for i in range(4, 10)]))
    assert not granted(decide(count, [queued(f"n{i}", PermitKind.QUARANTINE) for i in range(4, 10)]))


def test_pitfall_2_outage_of_a_zone_stops_repairs_in_it_whatever_its_groups_say() -> None:
    zone = Area(name="a", desired=10, working=("n0",), others_working=2)
    count = world(group(30, 23), zones=[zone], policy=wide(zone=AreaLimits(max_disrupted_share=0.1)))
    admission = decide(count, [queued("n29", zone="a"), queued("n1", zone="b")])
    assert granted(admission) == ["n1"]
    assert admission.waiting[0].limit is Limit.ZONE
    assert "the network or the control plane" in admission.waiting[0].releases
    assert "raise the share in the policy" in admission.waiting[0].releases, "what a human can do"


def test_quarantine_has_limits_of_its_own() -> None:
    count = world(group(10, 10, concurrent=1, share=0.1, closed=0.3))
    assert len(granted(decide(count, [queued(f"n{i}", PermitKind.QUARANTINE) for i in range(10)]))) == 3
    assert len(granted(decide(count, [queued(f"n{i}") for i in range(10)]))) == 1


# --- pause, windows, rate -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(PermitKind))
def test_pause_stops_what_is_new_and_names_who_said_so(kind: PermitKind) -> None:
    memory = Memory(pauses=(Pause(by="ada", reason="driver roll-out", at=NOW),))
    admission = decide(world(group(10, 10)), [queued("n0", kind, approval=ADA)], memory=memory)
    assert "ada paused the whole cluster" in why(admission, "n0")
    assert "driver roll-out" in why(admission, "n0")


def test_pause_of_a_group_leaves_the_others() -> None:
    memory = Memory(pauses=(Pause(group="g", by="ada", reason="roll-out", at=NOW),))
    count = world(group(10, 10), group(2, ["m0"], name="h"))
    assert granted(decide(count, [queued("n0"), queued("m0", group="h")], memory=memory)) == ["m0"]


def test_outside_its_maintenance_windows_a_group_is_quarantined_but_not_disturbed() -> None:
    count = world(group(10, 10, opens_at=NOW + timedelta(hours=10)))
    admission = decide(count, [queued("n0"), queued("n1", PermitKind.QUARANTINE)])
    assert granted(admission) == ["n1"]
    assert admission.waiting[0].limit is Limit.WINDOW
    assert "2026-12-01 22:00 UTC" in admission.waiting[0].releases


def test_pitfall_4_what_waited_goes_one_after_another_and_not_all_at_once() -> None:
    count = world(group(100, 100), policy=wide(disruptions=Rate(per_hour=60, burst=5)))
    waiting, memory, now, pace = [queued(f"n{i}") for i in range(30)], Memory(), NOW, []
    out = []
    for _ in range(6):
        admission = decide(count, waiting, out, memory, now)
        pace.append(len(admission.granted))
        out += [held(node) for node in granted(admission)]
        waiting, memory, now = list(admission.waiting), admission.memory, now + timedelta(minutes=1)
    assert pace == [5, 1, 1, 1, 1, 1]
    assert "60 an hour" in waiting[0].reason


@given(
    steps=st.lists(st.tuples(st.integers(0, 7200), st.integers(0, 8)), max_size=30),
    per_hour=st.integers(1, 120),
    burst=st.integers(1, 10),
)
def test_rate_is_never_passed_over_any_stretch_of_time(steps: list[tuple[int, int]], per_hour: int, burst: int) -> None:
    policy = wide(disruptions=Rate(per_hour=per_hour, burst=burst))
    memory, now, grants, number = Memory(), NOW, [], 0
    for wait_s, asks in steps:
        now += timedelta(seconds=wait_s)
        names = [f"n{number + i}" for i in range(asks)]
        number += asks
        admission = decide(
            world(group(1000, 1000, concurrent=1000), policy=policy), [queued(n) for n in names], [], memory, now
        )
        memory = admission.memory
        grants += [now] * len(admission.granted)
    for first, start in enumerate(grants):
        for last in range(first, len(grants)):
            hours = (grants[last] - start) / timedelta(hours=1)
            assert last - first + 1 <= burst + hours * per_hour + 1e-6


def test_clock_that_went_back_fills_no_bucket() -> None:
    policy = wide(disruptions=Rate(per_hour=60, burst=1))
    count = world(group(10, 10), policy=policy)
    first = decide(count, [queued("n0")])
    assert not granted(decide(count, [queued("n1")], [held("n0")], first.memory, NOW - timedelta(hours=5)))


def test_approval_passes_the_guards_and_is_seen_and_does_not_pass_the_limits() -> None:
    policy = wide(disruptions=Rate(per_hour=1, burst=1))
    spent = decide(world(group(10, 10), policy=policy), [queued("n0")]).memory
    count = world(group(10, 10, opens_at=NOW + timedelta(hours=1)), policy=policy)
    admission = decide(count, [queued("n1", approval=ADA), queued("n2")], [held("n0")], spent)
    assert granted(admission) == ["n1"]
    assert "maintenance windows" in admission.granted[0].released_from
    full = world(group(10, 10, concurrent=1))
    assert not granted(decide(full, [queued("n1", approval=ADA)], [held("n0")]))


def test_counts_of_older_workers_decide_as_they_did() -> None:
    """Their histories replay: the group's limits alone, no guard, and nothing is remembered."""
    count = world(group(10, 10, concurrent=2, opens_at=None), policy=None)
    memory = Memory()
    admission = decide(count, [queued(f"n{i}") for i in range(5)], memory=memory)
    assert granted(admission) == ["n0", "n1"]
    assert admission.memory is memory
    dead = decide(world(group(10, 8, share=0.1), policy=None), [queued("n8")])
    assert not dead.granted


def test_reason_and_what_releases_it_are_sentences_for_people() -> None:
    admission = decide(world(group(10, 10, concurrent=1)), [queued("n0"), queued("n1")])
    (item,) = admission.waiting
    assert item.reason == "g already has 1 of at most 1 node disrupted (n0)"
    assert item.releases == "It goes on when one of them is repaired."
    assert request("n0").token != request("n1").token


# --- gangs ------------------------------------------------------------------------------------------------------------


def gang(*nodes: str, **more: object) -> QueuedRequest:
    asked = queued(nodes[0], incident="disrupt-c-train", **more)
    members = {"job": "ml/Job/train", "members": nodes[1:]}
    return asked.model_copy(update={"request": asked.request.model_copy(update=members)})


def test_gang_is_one_patient_and_all_its_nodes_count_from_then_on() -> None:
    count = world(group(10, 10, concurrent=1, share=0.5))
    admission = decide(count, [gang("n0", "n1", "n2", age_s=9), queued("n5")])
    assert granted(admission) == ["n0"]
    assert why(admission, "n5") == "g already has 3 of at most 1 node disrupted (n0, n1, n2)"


def test_gang_and_the_incidents_of_its_nodes_do_not_wait_for_each_other() -> None:
    count = world(group(10, 10))
    own, other = held("n0"), queued("n0", incident="drill-n0")
    assert granted(decide(count, [gang("n0", "n1")], [own])) == ["n0"]
    assert not granted(decide(count, [other], [own]))


# --- capacity that does not come --------------------------------------------------------------------------------------


def test_pitfall_7_machine_that_works_is_not_given_up_while_missing_ones_are_not_launched() -> None:
    """In a Capacity Block nothing may come back for what is given up."""
    count = world(group(16, 15, share=0.1))
    assert "1 of 16 nodes of g is out of work already" in why(decide(count, [queued("n0")]), "n0")


def test_pitfall_8_what_gathered_behind_a_pause_does_not_fire_at_once() -> None:
    policy = wide(disruptions=Rate(per_hour=60, burst=3))
    paused = Memory(pauses=(Pause(by="ada", reason="capacity", at=NOW),))
    count = world(group(50, 50), policy=policy)
    waiting = decide(count, [queued(f"n{i}") for i in range(40)], memory=paused)
    assert not waiting.granted
    resumed = Memory(buckets=waiting.memory.buckets)
    assert len(decide(count, list(waiting.waiting), [], resumed, NOW + timedelta(days=2)).granted) == 3
