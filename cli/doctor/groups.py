"""Looks at what replaces the machines of a cluster, and at machines that are not as the others of their group.

Beside what tells whose machine each Node is (a call for fifty or a hundred machines), no more than ``LOOKS_MAX``
machines of a group are looked at.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from activities.auto_scaling import AutoScaling
from activities.aws_calls import SHORT_CALL, calling
from activities.claim import read_owner
from activities.cluster import Cluster, Json
from activities.errors import ActError
from activities.identities import IdentityReader, instance_of
from activities.machines.all import Machines
from activities.machines.karpenter import POOLS
from activities.objects import Objects
from cli.doctor import machines as members
from cli.doctor.cloud import Group, rights
from cli.doctor.findings import Finding, of_group, of_policy, of_unkept, unseen
from cli.doctor.karpenter import of_disruption
from contract.acts import SurveyGroup
from contract.identity import Fence, MachineKind, NodeIdentity, Target
from contract.policy import Mode, Policy
from contract.words import counted
from worker.clients import aws_session

_AT_ONCE: Final = 50
_BY_NOBODY: Final = Fence(incident_id="", run_id="")
"""For looks that an incident would take: a look writes nothing, so that its fence is never read."""


def of_groups(
    cluster: Cluster, aws: AutoScaling, nodes: list[Json], policy: Policy | None, namespace: str
) -> Iterator[Finding]:
    """Groups, their machines, what IAM allows to do to them, and whether the policy means them.

    Args:
        cluster: the API server.
        aws: Auto Scaling.
        nodes: all that there are.
        policy: that of the workers; None where it is not known.
        namespace: Kubernetes namespace of the installation.
    """
    try:
        with calling("autoscaling:DescribeAutoScalingGroups"):
            aws_session().client("autoscaling", config=SHORT_CALL).describe_auto_scaling_groups(MaxRecords=1)
    except ActError as error:
        means = "groups, what IAM allows, and whether the policy names groups that there are, were not looked at"
        yield unseen(
            "AWS", error, means, "check the network, AWS_REGION and the credentials of whoever runs the doctor"
        )
        return
    identities, refused = _identities(cluster, aws, nodes)
    for refusal, count in refused.values():
        yield unseen("nodes", refusal, f"whose machine is behind {counted(count, 'node')}, and its group, is not known")
    held = policy or Policy()
    # What an incident does to its machine (standby, a NodeClaim that goes) is no fault of the installation.
    claimed = {node["metadata"]["name"] for node in nodes if read_owner(node)}
    yield from of_unkept(identities, held)
    yield from members.of_foreign(one for one in identities if one.node not in claimed)
    yield from members.of_clashes(identities, held)
    # By keeper too: two may have groups of one name.
    groups: dict[tuple[str, MachineKind], list[NodeIdentity]] = defaultdict(list)
    for one in identities:
        if one.group:
            groups[one.group, one.kind].append(one)
    looking, joined, known = _Looking(cluster, aws, held), [instance_of(node) for node in nodes], list[Group]()
    for (name, kind), machines in sorted(groups.items()):
        try:
            document = aws.group(name) if kind is MachineKind.AUTO_SCALING else None
            free = [machine for machine in machines if machine.node not in claimed]
            yield from looking.at(name, free or machines, document)
        except ActError as error:
            mend = "allow it to whoever runs the doctor; the worker needs it, too (deploy/aws/iam/worker.json)"
            yield unseen(f"group {name}", error, "whether a machine of it can be replaced is not known", mend)
            continue
        yield from members.of_types(name, machines, document)
        if document:
            yield from members.of_unjoined(name, document, joined)
            holds = held.for_node(name, machines[0].nodegroup)
            known.append(Group(dict(document), machines[0].instance_id or "", holds))
    # Groups that are repaired come first: no more than some are asked about.
    known.sort(key=lambda one: one.policy.mode is not Mode.ACT)
    yield from rights(cluster, namespace, known)
    if policy:
        nodegroups: dict[str, str | None] = {}
        for (name, _), machines in groups.items():
            nodegroups[name] = nodegroups.get(name) or machines[0].nodegroup
        yield from of_policy(policy, nodegroups)


class _Looking:
    """Takes the look that an incident would take before the point of no return."""

    def __init__(self, cluster: Cluster, aws: AutoScaling, policy: Policy) -> None:
        self._machines = Machines(cluster, aws)
        self._objects = Objects(cluster)
        self._policy = policy

    def at(self, name: str, machines: list[NodeIdentity], document: Mapping[str, Any] | None) -> Iterator[Finding]:
        """A group, at one machine of each kind that it has."""
        kinds = members.alike(machines, document)
        looks = []
        holds = self._policy.for_node(name, machines[0].nodegroup)
        for kind in kinds[: members.LOOKS_MAX]:
            survey = SurveyGroup(target=Target(identity=kind[0], fence=_BY_NOBODY), rules=holds.replacement)
            looks.append((kind, self._machines.of(kind[0]).survey(survey, failed_repairs=0).findings))
        yield from of_group(name, members.together(looks))
        yield from members.of_unlooked(name, kinds)
        if machines[0].kind is MachineKind.KARPENTER and (pool := self._objects.get(f"{POOLS}/{name}")):
            yield from of_disruption(pool, holds)


def _identities(
    cluster: Cluster, aws: AutoScaling, nodes: list[Json]
) -> tuple[list[NodeIdentity], dict[str, tuple[ActError, int]]]:
    """The machines behind the Nodes; and what kept others from being known, of how many Nodes.

    What is refused for one kind of machine (a NodeClaim, say) leaves the groups of others to be looked at.
    """
    name, looking = os.environ.get("NODEMEND_CLUSTER", ""), IdentityReader(cluster, aws)

    def look(node: Json) -> NodeIdentity | ActError:
        try:
            return looking.of(name, node)
        except ActError as error:
            return error

    # Questions that come together are one call of AWS.
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as executor:
        seen = list(executor.map(look, nodes))
    refused: dict[str, tuple[ActError, int]] = {}
    for one in seen:
        if isinstance(one, ActError):
            # By what is missing, not by Node: a fleet would say the same thing a thousand times.
            refused[one.what] = (one, refused.get(one.what, (one, 0))[1] + 1)
    return [one for one in seen if isinstance(one, NodeIdentity)], refused
