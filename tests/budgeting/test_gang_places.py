"""A gang whose nodes are in several groups and zones: one patient, judged and charged where each of its nodes is."""

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.budget import Area, Pause, RepairResult
from contract.budget_policy import AreaLimits
from contract.permit import GangNode, GroupCount, HeldPermit, PermitRequest, QueuedRequest
from tests.budgeting.world import ADA, NOW, decide, granted, group, held, queued, request, why, wide, world
from workflows.budget.admission import Memory
from workflows.budget.book import Book


def other(node: str, *, rule: str = "hbm", out: bool = False) -> GangNode:
    """A node is in the group and the zone that its name begins with."""
    return GangNode(node=node, group=node[0], zone=f"zone-{node[0]}", rule=rule, out=out)


def ask(first: str, *others: GangNode) -> PermitRequest:
    own = request(first, group=first[0], zone=f"zone-{first[0]}", incident="disrupt-c-train")
    members = tuple(item.node for item in others)
    return own.model_copy(update={"job": "ml/Job/train", "members": members, "others": others})


def gang(first: str, *others: GangNode) -> QueuedRequest:
    return QueuedRequest(request=ask(first, *others), asked_at=NOW - timedelta(seconds=9))


def places(**limits: object) -> tuple[GroupCount, GroupCount]:
    """Two groups of ten. The limits are those of the second."""
    second = group(10, [f"h{i}" for i in range(10)], name="h", **limits)  # type: ignore[arg-type]
    return group(10, 10, name="n"), second


def test_each_node_counts_in_its_own_group() -> None:
    count = world(*places(concurrent=1))
    admission = decide(count, [gang("n0", other("h0")), queued("h1", group="h"), queued("n1", group="n")])
    assert granted(admission) == ["n0", "n1"]
    assert why(admission, "h1") == "h already has 1 of at most 1 node disrupted (h0)"


def test_each_node_counts_in_its_own_zone() -> None:
    zones = [
        Area(name=f"zone-{letter}", desired=10, working=tuple(f"{letter}{i}" for i in range(10))) for letter in "nh"
    ]
    one = AreaLimits(max_disrupted_share=0.1, max_quarantined_share=1)
    count = world(*places(), policy=wide(zone=one), zones=zones)
    admission = decide(count, [gang("n0", other("h0")), queued("h1", group="h", zone="zone-h")])
    assert granted(admission) == ["n0"]
    assert why(admission, "h1") == "1 of 10 nodes of zone-h is out of work already, 1 allowed"


@pytest.mark.parametrize(("first", "second"), [("n0", "h0"), ("h0", "n0")])
def test_gang_waits_for_what_holds_any_of_its_nodes_whichever_failed_first(first: str, second: str) -> None:
    train = gang(first, other(second))
    paused = Memory(pauses=(Pause(group="h", by="ada", reason="capacity", at=NOW),))
    assert why(decide(world(*places()), [train], memory=paused), first).startswith("ada paused h")

    full = decide(world(*places(concurrent=1)), [train], [held("h9", group="h")])
    assert why(full, first) == "h already has 1 of at most 1 node disrupted (h9)"

    closed = decide(world(*places(opens_at=NOW + timedelta(hours=3))), [train])
    assert why(closed, first) == "h may be disturbed in its maintenance windows only"

    failed = RepairResult(incident_id="i", run_id="r", group="h", fault="hbm", node="h7", failed=True, at=NOW)
    backed_off = decide(world(*places()), [train], memory=Memory(repairs=(failed,)))
    assert "1 repair of hbm in h failed" in why(backed_off, first)

    assert why(decide(world(places()[0]), [train]), first) == "its group could not be counted"


def test_gang_that_grows_is_judged_by_what_is_new_to_it_alone() -> None:
    """Its drained nodes are out already, and their own group would refuse them a second time."""
    out = [HeldPermit(request=ask("n0"), granted_at=NOW)]
    later = gang("h0", other("n0", out=True))
    paused = Memory(pauses=(Pause(group="n", by="ada", reason="capacity", at=NOW),))
    assert granted(decide(world(*places()), [later], out, memory=paused)) == ["h0"]
    full = decide(world(*places(concurrent=1)), [later], [*out, held("h9", group="h")])
    assert why(full, "h0") == "h already has 1 of at most 1 node disrupted (h9)"


def test_node_that_joins_a_job_that_is_being_disturbed_goes_along() -> None:
    """Gangs that held a part of theirs and waited for the rest would wait for each other for ever."""
    out = [HeldPermit(request=ask("n0"), granted_at=NOW), held("h9", group="h")]
    assert granted(decide(world(*places(concurrent=1)), [gang("n0", other("h0"))], out)) == ["n0"]


def test_gang_of_an_older_worker_is_where_its_first_node_is() -> None:
    """Its history was decided so, and is replayed."""
    older = ask("n0").model_copy(update={"members": ("h0",)})
    count = world(*places(concurrent=1))
    admission = decide(count, [QueuedRequest(request=older, asked_at=NOW)], [held("h9", group="h")])
    assert granted(admission) == ["n0"]


@given(
    nodes=st.lists(
        st.sampled_from([f"{letter}{i}" for letter in "nh" for i in range(4)]), min_size=1, max_size=4, unique=True
    ),
    out=st.lists(st.sampled_from([f"{letter}{i}" for letter in "nh" for i in range(4, 8)]), max_size=3, unique=True),
    concurrent=st.integers(1, 3),
    share=st.sampled_from([0.1, 0.2, 0.3, 1.0]),
)
def test_no_order_of_its_nodes_gets_a_gang_past_a_limit(
    nodes: list[str], out: list[str], concurrent: int, share: float
) -> None:
    count = world(*places(concurrent=concurrent, share=share))
    permits = [held(node, group=node[0]) for node in out]
    outcomes = {
        bool(granted(decide(count, [gang(first, *map(other, rest))], permits)))
        for first, *rest in itertools.permutations(nodes)
    }
    assert len(outcomes) == 1


def test_while_workers_are_upgraded_a_gang_is_taken_as_the_older_ones_took_it() -> None:
    """They gave leave to a token, whatever its nodes by now: their history is replayed."""
    book = Book()
    first, grown = (
        gang.model_copy(update={"revision": n}) for n, gang in enumerate((ask("n0"), ask("h0", other("n0"))), 1)
    )
    book.ask(book.as_before(first), NOW)
    assert book.as_before(grown) == book.queue[first.token].request
    assert book.as_before(grown.model_copy(update={"approval": ADA})).members == ("n0",)
    book.hold(book.queue[first.token].request, NOW)
    assert book.has_leave(book.as_before(grown))
    assert not book.has_leave(grown)
