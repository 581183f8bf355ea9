"""What is known of the node that is judged: from options, or read from its cluster. What is only assumed is said."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cli.errors import CommandError
from cli.process import reading_cluster
from contract.identity import NodeIdentity
from contract.names import ExitCode

if TYPE_CHECKING:
    from activities.auto_scaling import AutoScaling
    from activities.cluster import Cluster

_OTHERWISE: Final = "Or leave KUBECONFIG unset, and say the facts as options."
ANY_GROUP: Final = "its group"
ANY_INSTANCE: Final = "i-0123456789abcdef0"
"""Stands for the instance where nobody named one. EC2 gives ids of this form."""


NO_WITNESS: Final = (
    "No second witness was looked for: the device's counters, EC2, another source or the device's past may confirm a "
    "doubtful line, and then it is acted on."
)


@dataclass(frozen=True)
class Given:
    """What options say."""

    node: str
    group: str = ""
    nodegroup: str = ""
    instance_id: str = ""
    instance_type: str = ""
    tried: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """The node, and how sure that is."""

    identity: NodeIdentity
    assumed: tuple[str, ...] = ()
    """Sentences: what was taken for granted, and what says otherwise."""
    pods: tuple[dict[str, Any], ...] | None = None
    """What runs on it; None where nobody said."""


def from_options(given: Given, named: str = "") -> Facts:
    """A usual machine of an Auto Scaling group, as far as the options do not say otherwise.

    Args:
        given: the options.
        named: the instance that the kernel line itself names, if it does.
    """
    assumed = []
    if not given.group:
        assumed.append("No --group: it is taken for a machine of an Auto Scaling group, under the policy's default.")
    instance = given.instance_id or named
    if not instance:
        assumed.append("No --instance-id: it is taken for an EC2 instance that its group can replace.")
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
    return Facts(identity, tuple(assumed))


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
    return Facts(identity, pods=tuple(cluster.pods_on(given.node)))
