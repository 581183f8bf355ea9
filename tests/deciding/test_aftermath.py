"""What became of a node, by one look at its Node object."""

from typing import Any

import pytest

from activities.aftermath import fate_of
from contract.aftermath import Fate
from tests.runbook.world import identity


def node(**changes: Any) -> dict[str, Any]:
    who = identity()
    found: dict[str, Any] = {
        "metadata": {"name": who.node, "uid": who.node_uid},
        "spec": {"providerID": who.provider_id},
        "status": {"nodeInfo": {"bootID": who.boot_id}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    for path, value in changes.items():
        part, _, key = path.partition("__")
        found[part][key] = value
    return found


@pytest.mark.parametrize(
    ("seen", "fate"),
    [
        (None, Fate.REPLACED),
        (node(metadata__uid="another"), Fate.REPLACED),
        (node(spec__providerID="aws:///us-west-2a/i-0aaaaaaaaaaaaaaaa"), Fate.REPLACED),
        (node(spec__unschedulable=True), Fate.CORDONED),
        (node(spec__taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]), Fate.CORDONED),
        (node(status__conditions=[{"type": "Ready", "status": "Unknown"}]), Fate.STILL_FAILING),
        (node(status__nodeInfo={"bootID": "boot-2"}), Fate.REBOOTED),
        (node(), Fate.RECOVERED),
    ],
    ids=["gone", "namesake", "instance", "cordon", "karpenter", "not-ready", "boot", "as-it-was"],
)
def test_a_node_says_what_became_of_its_machine(seen: dict[str, Any] | None, fate: Fate) -> None:
    who = identity()
    told, why = fate_of(seen, who)
    assert told is fate
    assert who.node in why


def test_who_else_acts_on_it_is_named() -> None:
    taints = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
    assert "cluster-autoscaler" in fate_of(node(spec__taints=taints), identity())[1]
