"""The old machine is seen gone, and its Node after it; one that lingers is removed, and no other."""

import dataclasses
from datetime import timedelta
from typing import Any

from activities.close import CloseActivity
from contract.acts import Closed, CloseIncident
from deploy.local.scene import nodes
from tests.acting import Acting, meanwhile
from tests.conftest import MakeNodeGroup


def close(acting: Acting, target: Any) -> Closed:
    argument = CloseIncident(target=target, deadline=timedelta(seconds=60))
    done: Closed = acting.do(CloseActivity(acting.cluster, acting.machines).close_incident, argument)
    return done


def names(acting: Acting, group: str) -> set[str]:
    return {node.metadata.name for node in nodes(acting.stack, group)}


def test_node_that_outlives_its_instance_is_removed_and_no_other(acting: Acting, node_group: MakeNodeGroup) -> None:
    """Where no cloud controller does it. It carries the claim, without which the API server would refuse."""
    group = node_group(2)
    acting.stack.fleet.knobs = dataclasses.replace(acting.stack.fleet.knobs, node_removal_delay_s=3600.0)
    target = acting.claim(group.nodes[0])
    acting.auto_scaling.mark_unhealthy(group.instance_ids[0])
    assert close(acting, target) == Closed(instance_state="terminated", node_gone=True)
    assert group.nodes[0] not in names(acting, group.name)
    assert group.nodes[1] in names(acting, group.name)


def test_node_that_goes_with_its_instance_is_waited_for(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    with meanwhile(lambda: acting.auto_scaling.mark_unhealthy(group.instance_ids[0])):
        assert close(acting, target).node_gone
    assert group.nodes[0] not in names(acting, group.name)
