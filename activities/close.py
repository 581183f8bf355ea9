"""Seeing the old machine gone: the instance in EC2 first, its Node object after."""

from typing import Final

from temporalio import activity

from activities.cluster import Cluster
from activities.errors import failure
from activities.machines.all import Machines
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import Closed, CloseIncident
from contract.names import ActivityName, ErrorType

_LOOK_EVERY_S: Final = 1.0
_LINGERING_LOOKS: Final = 10
"""How often the Node of a terminated instance is still seen before it is removed: the cloud controller's work."""


class CloseActivity:
    """The act ``close_incident``."""

    def __init__(self, cluster: Cluster, machines: Machines) -> None:
        self._cluster = cluster
        self._machines = machines

    @activity.defn(name=ActivityName.CLOSE_INCIDENT, no_thread_cancel_exception=True)
    def close_incident(self, argument: CloseIncident) -> Closed:
        """Wait until the instance is terminated and its Node is gone; remove a Node that lingers after that.

        Raises:
            ApplicationError: ``NoReplacement`` when the old instance does not end in time.
        """
        identity = argument.target.identity
        replacer = self._machines.of(identity)
        end, lingering = deadline(argument.deadline), 0
        while True:
            go_on()
            state = replacer.state(identity)
            node = self._cluster.node(identity.node)
            gone = node is None or node["metadata"]["uid"] != identity.node_uid
            if state == "terminated":
                if gone:
                    return Closed(instance_state=state, node_gone=True)
                lingering += 1
                if lingering >= _LINGERING_LOOKS:
                    self._cluster.delete_node(identity.node, identity.node_uid)
            if overdue(end):
                raise failure(
                    ErrorType.NO_REPLACEMENT,
                    f"{identity.instance_id} is {state}, and its Node {'gone' if gone else 'still there'}, long after "
                    "it was marked unhealthy. See why its group does not terminate it (lifecycle hooks?), and press "
                    "`resume`.",
                )
            report_progress({"instance": state, "node": "gone" if gone else "there"})
            pause(_LOOK_EVERY_S)
