"""What is known of the node that is judged: from options, or read from its cluster. What is only assumed is said."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cli.errors import CommandError
from cli.judging.witnesses import LOOKED, NO_WITNESS, Around, assumed, is_in_doubt, looked_for
from cli.process import reading_cluster
from contract.corroboration import Circumstances, Corroboration
from contract.fault import FaultReport
from contract.identity import NodeIdentity
from contract.names import ExitCode

if TYPE_CHECKING:
    from activities.auto_scaling import AutoScaling
    from activities.cluster import Cluster

_OTHERWISE: Final = "Or leave KUBECONFIG unset, and say the facts as options."
ANY_GROUP: Final = "its group"
ANY_INSTANCE: Final = "i-0123456789abcdef0"
"""Stands for the instance where nobody named one. EC2 gives ids of this form."""


@dataclass(frozen=True)
class Given:
    """What options say."""

    node: str
    group: str = ""
    nodegroup: str = ""
    instance_id: str = ""
    instance_type: str = ""
    tried: tuple[str, ...] = ()
    witnesses: tuple[Corroboration, ...] = ()
    """Second witnesses that are taken to be there."""


@dataclass(frozen=True)
class Facts:
    """The node, and how sure that is."""

    identity: NodeIdentity
    assumed: tuple[str, ...] = ()
    """Sentences: what was taken for granted, and what says otherwise."""
    pods: tuple[dict[str, Any], ...] | None = None
    """What runs on it; None where nobody said."""
    witnesses: tuple[Corroboration, ...] = ()
    look: Callable[[FaultReport], Around] | None = None
    """Looks for second witnesses of a finding; None where there is nowhere to look."""

    def around(self, reports: Sequence[FaultReport]) -> Around:
        """Second witnesses of the findings that are in doubt."""
        said = assumed(self.witnesses, reports)
        doubtful = [report for report in reports if is_in_doubt(report)]
        if self.look is None or not doubtful:
            return said
        seen = self.look(doubtful[0])
        known = seen.circumstances
        return Around(
            Circumstances(
                ec2=(*known.ec2, *said.circumstances.ec2),
                ec2_asked=known.ec2_asked or said.circumstances.ec2_asked,
                recurrence=(*known.recurrence, *said.circumstances.recurrence),
            ),
            (*seen.findings, *said.findings),
        )

    def witness_note(self) -> str:
        """What to know about second witnesses of a doubtful line."""
        return LOOKED if self.look else "" if self.witnesses else NO_WITNESS


def from_options(given: Given, named: str = "") -> Facts:
    """A usual machine of an Auto Scaling group, as far as the options do not say otherwise.

    Args:
        given: the options.
        named: the instance that the kernel line itself names, if it does.
    """
    guessed = []
    if not given.group:
        guessed.append("No --group: it is taken for a machine of an Auto Scaling group, under the policy's default.")
    instance = given.instance_id or named
    if not instance:
        guessed.append("No --instance-id: it is taken for an EC2 instance that its group can replace.")
    identity = NodeIdentity(
        cluster=os.environ.get("NODEMEND_CLUSTER", ""),
        node=given.node,
        node_uid="",
        boot_id="",
        instance_id=instance or ANY_INSTANCE,
        group=given.group or ANY_GROUP,
        nodegroup=given.nodegroup or None,
        instance_type=given.instance_type,
        tried=given.tried,
    )
    return Facts(identity, tuple(guessed), witnesses=given.witnesses)


def named_instance(fields: dict[str, str]) -> str:
    """The instance that a kernel line says it is on; empty where it says none."""
    return next(
        (value for key in ("instance-id", "instance_id") if (value := fields.get(key, "")).startswith("i-")), ""
    )


def from_cluster(given: Given) -> Facts:
    """The node as its cluster knows it now. Reads only; options say it better.

    Raises:
        CommandError: there is no such node, or the cluster or AWS refuses or cannot be reached.
    """
    from worker.clients import auto_scaling_client, cluster_client

    with reading_cluster(_OTHERWISE):
        return _read(cluster_client(), auto_scaling_client(), given)


def _read(cluster: "Cluster", auto_scaling: "AutoScaling", given: Given) -> Facts:
    from activities.identities import IdentityReader
    from activities.traits import work_traits

    node = cluster.node(given.node)
    if node is None:
        raise CommandError(
            f"There is no Node {given.node} in the cluster at {cluster.address}.", _OTHERWISE, ExitCode.NO_INPUT
        )

    looking = IdentityReader(cluster, auto_scaling)
    said = {
        "group": given.group,
        "nodegroup": given.nodegroup,
        "instance_id": given.instance_id,
        "instance_type": given.instance_type,
        "tried": given.tried,
    }
    identity = looking.of(os.environ.get("NODEMEND_CLUSTER", ""), node)
    identity = identity.model_copy(update={field: value for field, value in said.items() if value})
    pods = tuple(cluster.pods_on(given.node))
    look = partial(looked_for, cluster, auto_scaling, node, identity, work_traits(pods).get("job", ""))
    return Facts(identity, pods=pods, witnesses=given.witnesses, look=look)
