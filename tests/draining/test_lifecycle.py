"""C17: Kubernetes' node lifecycle conditions, where they are served: set by us, removed with the work, others' left."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from activities import lifecycle
from activities.identities import foreign_owners
from activities.quarantine import QuarantineActivity
from contract.acts import GiveBackNode
from contract.names import LIFECYCLE_REASON
from deploy.local.scene import NodeGroup
from deploy.local.work import STUCK_ANNOTATION
from tests.acting import Acting, meanwhile
from tests.draining.scene import drain, says, unmanaged

PLANNED = {"type": "MaintenancePlanned", "status": "True", "reason": "FirmwareWindow"}


@pytest.fixture
def served() -> Iterator[None]:
    """The API server of the tests is of before, and takes conditions of any type: so it stands for a later one."""
    with mock.patch.object(lifecycle, "_SINCE", (1, 30)):
        yield


def told(acting: Acting, node: str) -> dict[str, str]:
    found = acting.cluster.node(node)
    assert found
    return {c["type"]: c["status"] for c in found["status"]["conditions"] if c.get("reason") == LIFECYCLE_REASON}


@pytest.mark.usefixtures("served")
def test_c17_lifecycle_is_told_while_we_work_and_nothing_of_it_is_left_afterwards(
    acting: Acting, group: NodeGroup, namespace: str
) -> None:
    node = group.nodes[0]
    acting.core.patch_node_status(
        node, {"status": {"conditions": [PLANNED]}}, _content_type="application/strategic-merge-patch+json"
    )
    unmanaged(acting, node, namespace, "stuck", annotations={STUCK_ANNOTATION: "yes"})
    target = acting.claim(node)
    assert told(acting, node) == {"MaintenanceInProgress": "True"}
    seen: list[dict[str, str]] = []

    def look() -> None:
        says(acting, "'waiting_total': 1")
        seen.append(told(acting, node))
        acting.core.delete_namespaced_pod("stuck", namespace, grace_period_seconds=0)

    with meanwhile(look):
        drain(acting, target, evict_unmanaged_pods=True)
    assert seen == [{"MaintenanceInProgress": "True", "DrainInProgress": "True"}]
    assert told(acting, node) == {"MaintenanceInProgress": "True", "DrainInProgress": "False", "Drained": "True"}
    found: Any = acting.cluster.node(node)
    assert not foreign_owners(found), "what we say ourselves is nobody else's veto"
    acting.do(
        QuarantineActivity(acting.cluster).give_back_node,
        GiveBackNode(target=target, by="test", reason="seen", handled_seq=0),
    )
    assert told(acting, node) == {}
    after: Any = acting.cluster.node(node)
    assert PLANNED.items() <= next(c for c in after["status"]["conditions"] if c["type"] == PLANNED["type"]).items()


def test_c17_api_server_of_before_is_told_nothing(acting: Acting, group: NodeGroup) -> None:
    acting.claim(group.nodes[0])
    assert told(acting, group.nodes[0]) == {}
