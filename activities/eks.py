"""EKS as the acts use it: one read of a managed node group, to see whether EKS itself is at work on it."""

from typing import Any, Final

import boto3

from activities.aws_calls import CALL, AbsentError, calling
from activities.gathering import Gathering

CLUSTER_TAG: Final = "eks:cluster-name"
NODEGROUP_TAG: Final = "eks:nodegroup-name"
"""Tags that EKS puts on the Auto Scaling groups of its managed node groups (EKS user guide, Managed node groups)."""


class Eks:
    """One region's managed node groups. Safe to use from several threads."""

    def __init__(self, session: boto3.Session) -> None:
        """Region, credentials and endpoint come from the session and the environment."""
        # Any: types for this one read are not worth a dependency.
        self._eks: Any = session.client("eks", config=CALL)
        self._nodegroups: Gathering[tuple[str, str], dict[str, Any]] = Gathering(self._describe, 100)

    def nodegroup(self, tags: dict[str, str]) -> dict[str, Any] | None:
        """The managed node group of an Auto Scaling group with these tags; None when it is self-managed."""
        cluster, name = tags.get(CLUSTER_TAG), tags.get(NODEGROUP_TAG)
        return self._nodegroups.get((cluster, name)) if cluster and name else None

    def _describe(self, keys: list[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        found = {}
        for cluster, name in keys:
            try:
                with calling("eks:DescribeNodegroup", absent=("ResourceNotFoundException",)):
                    answer = self._eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)
            except AbsentError:
                continue
            found[cluster, name] = answer["nodegroup"]
        return found
