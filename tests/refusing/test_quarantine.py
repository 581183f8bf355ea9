"""Closing a node among others who write it too (C2, C3, C11), on the real API server."""

from collections.abc import Callable
from typing import Any

from activities.cluster import Cluster, Json
from activities.quarantine import QuarantineActivity
from contract.acts import GiveBackNode, QuarantineNode
from contract.names import OWNER_ANNOTATION, QUARANTINE_TAINT
from tests.acting import Acting
from tests.conftest import MakeNodeGroup

FOREIGN: dict[str, Any] = {"value": "tonight", "effect": "NoSchedule"}


class Raced(Cluster):
    """Between each of the first few reads of a node and the write after it, somebody else writes."""

    def __init__(self, api: Any, others: Callable[[str], None], times: int) -> None:
        super().__init__(api)
        self._others, self.left = others, times

    def node(self, name: str) -> Json | None:
        found = super().node(name)
        if self.left:
            self.left -= 1
            self._others(name)
        return found


def taints(acting: Acting, node: str) -> list[Json]:
    found = acting.cluster.node(node)
    assert found
    listed: list[Json] = found["spec"].get("taints", [])
    return listed


def quarantine(acting: Acting, cluster: Cluster, node: str, rule: str = "test-rule") -> QuarantineNode:
    argument = QuarantineNode(target=acting.target(node), rule=rule, reason="TestFault")
    acting.do(QuarantineActivity(cluster).quarantine_node, argument)
    return argument


def test_c2_taint_that_somebody_sets_between_reading_and_writing_is_kept(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    name = node_group(1).nodes[0]

    kept: set[str] = set()

    def set_a_taint(node: str) -> None:
        kept.add(key := f"example.com/maintenance-{len(kept)}")
        acting.patch(node, {"spec": {"taints": [*taints(acting, node), {**FOREIGN, "key": key}]}})

    raced = Raced(acting.cluster.api, set_a_taint, times=2)
    argument = quarantine(acting, raced, name)
    assert {*kept, QUARANTINE_TAINT} <= {taint["key"] for taint in taints(acting, name)}

    raced.left = 1
    acting.do(
        QuarantineActivity(raced).give_back_node,
        GiveBackNode(target=argument.target, by="test", reason="over", handled_seq=1),
    )
    keys = {taint["key"] for taint in taints(acting, name)}
    assert len(kept) == 3
    assert kept <= keys
    assert QUARANTINE_TAINT not in keys


def test_c3_whoever_closes_it_again_leaves_one_taint_with_one_value(acting: Acting, node_group: MakeNodeGroup) -> None:
    name = node_group(1).nodes[0]
    for rule in ("test-rule", "another-rule"):
        quarantine(acting, acting.cluster, name, rule=rule)
        # The control plane adds its own for the cordon, in its own time.
        left = [taint for taint in taints(acting, name) if not taint["key"].startswith("node.kubernetes.io/")]
        assert left == [{"key": QUARANTINE_TAINT, "value": "test-rule", "effect": "NoSchedule"}]


def test_c11_claim_cordon_and_taint_are_one_write(acting: Acting, node_group: MakeNodeGroup) -> None:
    """A condition stops no scheduler; a node that is claimed and not closed would be filled again."""
    name = node_group(1).nodes[0]
    written: list[Json] = []

    class Watched(Cluster):
        def patch_node(self, name: str, patch: Json) -> Json:
            written.append(super().patch_node(name, patch))
            return written[-1]

    quarantine(acting, Watched(acting.cluster.api), name)
    (node,) = written
    assert node["spec"]["unschedulable"] is True
    assert QUARANTINE_TAINT in {taint["key"] for taint in node["spec"]["taints"]}
    assert OWNER_ANNOTATION in node["metadata"]["annotations"]
