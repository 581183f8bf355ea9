"""Admission: limits hold whatever is asked in whatever order, small groups can be repaired, nobody starves."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.permit import GroupCount, GroupLimits, HeldPermit, PermitKind, PermitRequest, QueuedRequest
from workflows.admission import admit

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def request(node: str, kind: PermitKind = PermitKind.DISRUPTION, group: str = "g") -> PermitRequest:
    return PermitRequest(kind=kind, incident_id=f"remediate-{node}", run_id="r", cluster="c", group=group, node=node)


def queued(node: str, kind: PermitKind = PermitKind.DISRUPTION, age_s: int = 0, group: str = "g") -> QueuedRequest:
    return QueuedRequest(request=request(node, kind, group), asked_at=NOW - timedelta(seconds=age_s))


def held(node: str, kind: PermitKind = PermitKind.DISRUPTION) -> HeldPermit:
    return HeldPermit(request=request(node, kind), granted_at=NOW)


def count(
    desired: int,
    working: int,
    quarantined: int = 0,
    *,
    concurrent: int = 100,
    share: float = 1.0,
    closed: float = 1.0,
) -> GroupCount:
    return GroupCount(
        group="g",
        desired=desired,
        working=tuple(f"n{i}" for i in range(working)),
        quarantined=tuple(f"n{i}" for i in range(working, working + quarantined)),
        limits=GroupLimits(max_concurrent=concurrent, max_disrupted_share=share, max_quarantined_share=closed),
    )


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
    world = count(desired, working, concurrent=concurrent, share=share)
    granted = admit([world], [queued(n) for n in askers], [held(n) for n in holders]).granted
    if granted:
        assert len(holders) + len(granted) <= max(concurrent, len(holders))
        lost = (desired - working) + len(holders) + len(granted)
        assert lost <= max(1, math.floor(share * desired))


@pytest.mark.parametrize("desired", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("kind", list(PermitKind))
def test_small_group_can_lose_one_node_and_no_more(desired: int, kind: PermitKind) -> None:
    world = count(desired, desired, share=0.1, closed=0.1)
    assert len(admit([world], [queued(f"n{i}", kind) for i in range(desired)], []).granted) == 1


def test_node_that_is_gone_and_not_replaced_still_costs() -> None:
    world = count(desired=10, working=9, share=0.1)
    admission = admit([world], [queued("n0")], [])
    assert not admission.granted
    assert "1 of 10 nodes" in admission.waiting[0].reason


def test_node_that_works_no_more_costs_nothing_to_disrupt() -> None:
    # n9 is not Ready, so it is not among the working ones: it is itself the one that is missing.
    assert admit([count(desired=10, working=9, share=0.1)], [queued("n9")], []).granted


def test_quarantined_nodes_still_work() -> None:
    assert admit([count(desired=10, working=7, quarantined=3, share=0.1)], [queued("n8")], []).granted


def test_permit_that_is_not_visible_yet_is_counted() -> None:
    world = count(desired=10, working=10, share=0.1)
    assert not admit([world], [queued("n1")], [held("n0")]).granted


def test_oldest_goes_first() -> None:
    world = count(desired=10, working=10, concurrent=1)
    admission = admit([world], [queued("n1", age_s=5), queued("n2", age_s=50), queued("n3", age_s=1)], [])
    assert [r.node for r in admission.granted] == ["n2"]
    assert [q.request.node for q in admission.waiting] == ["n1", "n3"]


def test_full_group_does_not_stop_another() -> None:
    other = count(desired=4, working=4).model_copy(update={"group": "h"})
    full = count(desired=10, working=5, share=0.1)
    admission = admit([full, other], [queued("n0", age_s=99), queued("m0", group="h")], [])
    assert [r.node for r in admission.granted] == ["m0"]


def test_group_that_could_not_be_counted_waits() -> None:
    admission = admit([], [queued("n0")], [])
    assert not admission.granted
    assert "could not be counted" in admission.waiting[0].reason


@given(st.permutations([queued(f"n{i}", age_s=i * 7 % 5) for i in range(6)]))
def test_order_of_arrival_in_the_list_does_not_matter(queue: list[QueuedRequest]) -> None:
    world = count(desired=6, working=6, concurrent=3)
    expected = admit([world], sorted(queue, key=lambda q: q.request.node), [])
    assert admit([world], queue, []) == expected
