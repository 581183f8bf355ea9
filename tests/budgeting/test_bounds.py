"""FleetBudget stays small: what it carries, answers and asks fits into Temporal's messages in a fleet of any size."""

from hypothesis import given
from hypothesis import strategies as st

from contract.budget import Limit, Sighting
from contract.permit import BudgetState, HeldPermit, PermitKind, PermitRequest, QueuedRequest
from tests.budgeting.world import NOW
from workflows.budget.carried import answer, carried, carry, some_of

PAYLOAD_MAX = 2 * 1024 * 1024
"""Temporal's default ``limit.blobSize.error``: the task that goes beyond it is refused, for ever."""


def request(number: int, kind: PermitKind = PermitKind.QUARANTINE) -> PermitRequest:
    """With names as long as EKS makes them, no two alike."""
    node = f"ip-10-{number >> 8}-{number & 255}-7.eu-central-1.compute.internal"
    instance = f"i-{number * 2654435761 % 2**64:017x}"
    return PermitRequest(
        kind=kind,
        incident_id=f"remediate-prod-eu-central-1-{node}-{instance}",
        run_id=f"019a{number * 40503 % 2**32:08x}-7c3e-7b1a-9d4f-{number * 2246822519 % 2**48:012x}",
        cluster="prod-eu-central-1",
        group=f"eks-trn1-training-{number % 40}-1ec8a7f2-0f4c-2b8e-6d3a",
        node=node,
        zone=f"eu-central-1{'abc'[number % 3]}",
        signature=f"nd{number % 16}/dma/{instance}",
        rule="neuron-dma-queue-hang",
        traits={"driver": "2.30.2.0", "kernel": "6.1.150-164.273.amzn2023.x86_64", "job": f"ml/Job/train-{number}"},
    )


def state(held: int, waiting: int, seen: int) -> BudgetState:
    words = "at most 2 nodes of eks-trn1-training may be disturbed at once, and 2 are: they are named here, one by one"
    queue = [
        QueuedRequest(request=request(n), asked_at=NOW, reason=words, limit=Limit.GROUP, releases=words)
        for n in range(waiting)
    ]
    return BudgetState(
        cluster="prod-eu-central-1",
        held=tuple(
            HeldPermit(request=request(n).model_copy(update={"traits": {}}), granted_at=NOW) for n in range(held)
        ),
        queue=tuple(queue),
        sightings=tuple(
            Sighting(
                node=item.request.node,
                fault=item.request.fault,
                incident_id=item.request.incident_id,
                at=NOW,
                traits=item.request.traits,
            )
            for item in queue[:seen]
        ),
    )


def test_next_run_of_a_large_fleet_fits_into_one_message_and_forgets_no_permit() -> None:
    large = state(held=10_000, waiting=2_000, seen=2_000)
    handed = carry(large)
    assert len(handed.model_dump_json()) < PAYLOAD_MAX / 2, "half of it is left for closed payloads and longer names"
    taken = carried(handed)
    assert taken.held == large.held
    assert taken.sightings == large.sightings
    assert [item.request.token for item in taken.queue] == [item.request.token for item in large.queue]
    assert taken.carried


def test_worker_that_cannot_read_what_was_compressed_asks_the_incidents() -> None:
    """A run of before 0.3 ignores the field: that it remembers is not what it must be told."""
    assert not carry(state(held=10_000, waiting=0, seen=0)).carried


def test_state_of_a_usual_fleet_can_be_read_by_people() -> None:
    small = state(held=100, waiting=50, seen=50)
    assert carry(small).held == small.held
    assert carry(small).carried


def test_answer_of_a_large_fleet_fits_into_one_message_and_counts_those_it_does_not_name() -> None:
    large = state(held=10_000, waiting=5_000, seen=2_000)
    disturbing = HeldPermit(request=request(77_777, PermitKind.DISRUPTION), granted_at=NOW)
    told = answer(large.model_copy(update={"held": (*large.held, disturbing)}))
    assert len(told.model_dump_json()) < PAYLOAD_MAX
    assert len(told.held) + told.held_unnamed == 10_001
    assert len(told.queue) + told.queue_unnamed == 5_000
    assert disturbing in told.held, "what disturbs work is named before what is only closed"


@given(st.integers(0, 500), st.integers(1, 100), st.integers(0, 10_000))
def test_everybody_has_their_turn(many: int, at_once: int, turn: int) -> None:
    """Holders are looked at some at a time: none may be left out for ever."""
    items = range(many)
    turns = [some_of(items, at_once, turn + later) for later in range(many + 1)]
    assert all(len(some) <= at_once for some in turns)
    assert {item for some in turns for item in some} == set(items)
