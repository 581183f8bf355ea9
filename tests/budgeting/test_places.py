"""However far repairs are, each place of a group is counted once: left by a machine, and not yet its replacement's.

A place is what a job needs: one machine that works. The test knows how many do; the count sees only Nodes.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.budget import count_group, standing_of
from activities.machines.membership import Members
from contract.identity import Ownership
from contract.names import OWNER_ANNOTATION, REPLACES_ANNOTATION, STARTUP_TAINT
from contract.permit import HeldPermit, PermitKind
from contract.policy import Policy
from tests.budgeting.world import NOW, held, world
from workflows.budget.ledger import Ledger

DAY = timedelta(days=1)
STAGES = (
    "works",
    "closed",
    "granted",
    "drained",
    "drained, its replacement launched",
    "gone",
    "gone, its machine not yet",
    "gone, its replacement launched",
    "gone, its replacement proven",
    "dead",
)
AT_WORK = ("works", "closed", "gone, its replacement proven")


@dataclass
class Seen:
    """What a place looks like from outside."""

    nodes: list[dict[str, Any]]
    unregistered: tuple[str, ...] = ()
    permit: HeldPermit | None = None


def node(name: str, *, ready: bool = True, **markers: Any) -> dict[str, Any]:
    taints = [{"key": STARTUP_TAINT, "effect": "NoSchedule"}] if markers.pop("unproven", False) else []
    status = "True" if ready else "False"
    condition = {"type": "Ready", "status": status, "lastTransitionTime": NOW.isoformat()}
    return {
        "metadata": {"name": name, "creationTimestamp": NOW.isoformat(), "annotations": markers.pop("annotations", {})},
        "spec": {"taints": taints, **markers},
        "status": {"conditions": [condition]},
    }


def claimed(name: str, *, disrupting: bool) -> dict[str, Any]:
    owner = Ownership(
        incident=f"remediate-{name}", run="r", epoch=1, rule="hbm", since=NOW, disrupting=disrupting
    ).model_dump_json()
    return node(name, unschedulable=True, annotations={OWNER_ANNOTATION: owner})


def seen(number: int, stage: str) -> Seen:
    name, permit = f"n{number}", held(f"n{number}")
    replaces = {REPLACES_ANNOTATION: f"remediate-{name}"}
    fresh = node(f"{name}-fresh", annotations=replaces, unproven=True)
    return {
        "works": Seen([node(name)]),
        "closed": Seen([claimed(name, disrupting=False)]),
        "granted": Seen([claimed(name, disrupting=False)], permit=permit),
        "drained": Seen([claimed(name, disrupting=True)], permit=permit),
        "drained, its replacement launched": Seen([claimed(name, disrupting=True), fresh], permit=permit),
        "gone": Seen([], permit=permit),
        "gone, its machine not yet": Seen([], unregistered=(name,), permit=permit),
        "gone, its replacement launched": Seen([fresh], permit=permit),
        "gone, its replacement proven": Seen([node(f"{name}-fresh", annotations=replaces)]),
        "dead": Seen([node(name, ready=False)]),
    }[stage]


@pytest.mark.parametrize("sized", [True, False], ids=["keeper says how many", "nobody says how many"])
@given(stages=st.lists(st.sampled_from(STAGES), min_size=1, max_size=12))
def test_each_place_is_at_work_or_lost_whatever_its_repair_has_come_to(sized: bool, stages: list[str]) -> None:
    places = [seen(number, stage) for number, stage in enumerate(["works", *stages])]
    nodes = [each for place in places for each in place.nodes]
    permits = [place.permit for place in places if place.permit]
    names = {each["metadata"]["name"] for each in nodes}
    members = Members()
    if sized:
        members.add_sized(nodes, len(places))
    else:
        members.add_unsized(nodes, {name for place in places for name in place.unregistered})
    counted = count_group(
        "g",
        members,
        {permit.request.node for permit in permits} - names,
        {each["metadata"]["name"]: standing_of(each, NOW, DAY) for each in nodes},
        Policy(),
        frozenset(names),
        NOW,
    )
    assert counted.count.desired == len(places)
    assert counted.missing == sum(stage.startswith("gone") and stage not in AT_WORK for stage in stages)
    book = Ledger(world(counted.count), permits, []).groups["g"]
    lost = sum(stage not in AT_WORK for stage in stages)
    assert book.scope.lost(PermitKind.DISRUPTION, "n0") == lost
    assert book.scope.working() == len(places) - lost
