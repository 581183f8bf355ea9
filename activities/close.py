"""Seeing the old machine gone: the instance first, its Node object after, and then what was attached to it (V12).

No out-of-service taint is needed: once the instance is terminated and the Node deleted, Kubernetes detaches by itself.
Deleting the Node of a machine that may still run would have two writers on one volume (D23).
"""

from typing import Final

from temporalio import activity

from activities.cluster import Cluster
from activities.errors import failure
from activities.machines.all import Machines
from activities.objects import Objects
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import Closed, CloseIncident
from contract.names import ActivityName, ErrorType

_LOOK_EVERY_S: Final = 1.0
_ATTACHMENTS: Final = "/apis/storage.k8s.io/v1/volumeattachments"
_LINGERING_LOOKS: Final = 10
"""How often the Node of a terminated instance is still seen before it is removed: the cloud controller's work."""


class CloseActivity:
    """The act ``close_incident``."""

    def __init__(self, cluster: Cluster, machines: Machines) -> None:
        self._cluster = cluster
        self._machines = machines
        self._objects = Objects(cluster)

    @activity.defn(name=ActivityName.CLOSE_INCIDENT, no_thread_cancel_exception=True)
    def close_incident(self, argument: CloseIncident) -> Closed:
        """Wait until the instance is terminated and its Node is gone; remove a Node that lingers after that.

        Raises:
            ApplicationError: ``NoReplacement`` when the old instance does not end in time.
        """
        identity = argument.target.identity
        replacer = self._machines.of(identity)
        end, lingering, attached = deadline(argument.deadline), 0, 0
        while True:
            go_on()
            state = replacer.state(identity)
            node = self._cluster.node(identity.node)
            gone = node is None or node["metadata"]["uid"] != identity.node_uid
            if state == "terminated":
                # By name: where another machine has it by now, what is attached there is that one's.
                attached = self._attached(identity.node) if node is None else 0
                if gone and not attached:
                    return Closed(instance_state=state, node_gone=True)
                lingering += 1
                if not gone and lingering >= _LINGERING_LOOKS:
                    self._cluster.delete_node(identity.node, identity.node_uid)
            if overdue(end):
                raise failure(
                    ErrorType.NO_REPLACEMENT,
                    f"{identity.instance_id or identity.node} is {state}, its Node {'gone' if gone else 'still there'}"
                    f", and {attached} volumes are attached to it, long after it was given up. See why its group does "
                    "not terminate it (lifecycle hooks?), or what holds the volumes, and press `resume`.",
                )
            report_progress({"instance": state, "node": "gone" if gone else "there", "volumes": attached})
            pause(_LOOK_EVERY_S)

    def _attached(self, node: str) -> int:
        return sum(one["spec"]["nodeName"] == node for one in self._objects.list(_ATTACHMENTS))
