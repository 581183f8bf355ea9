"""Looks at a live installation: Temporal, the cluster and AWS. Reads only."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from kubernetes import client as kubernetes
from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.cluster import Cluster
from activities.identities import IdentityReader
from activities.preflight import LAUNCHES_LATELY, GroupFacts, findings
from cli.connection import connect
from cli.doctor.cloud import Group, rights
from cli.doctor.findings import (
    Finding,
    Level,
    of_detectors,
    of_group,
    of_policy,
    of_pollers,
    of_rights,
    of_rivals,
    of_search_attributes,
)
from cli.errors import CommandError
from contract.identity import NodeIdentity
from contract.names import BUDGET_TASK_QUEUE, TASK_QUEUE, SearchAttribute
from contract.policy import Mode, Policy
from contract.words import counted
from deploy.components import NAMESPACE, Component
from deploy.rights.__main__ import recorded
from deploy.rights.calls import ANYWHERE, Call
from worker.clients import auto_scaling_client, cluster_client
from worker.errors import StartError
from worker.temporal import known_search_attributes, pollers

_AT_ONCE: Final = 50
_DAEMON_SETS: Final = "/apis/apps/v1/daemonsets"
_DEPLOYMENTS: Final = "/apis/apps/v1/deployments"


async def examine(policy: Policy, namespace: str) -> list[Finding]:
    """Everything that can be looked at from here; what cannot be reached is a finding, too."""
    found = await _of_temporal()
    try:
        cluster = cluster_client()
    except StartError as error:
        return [*found, Finding("cluster", Level.WRONG, str(error), "nothing of it was looked at")]
    return found + await asyncio.to_thread(lambda: list(_of_cluster(cluster, policy, namespace)))


async def _of_temporal() -> list[Finding]:
    try:
        client = await connect()
    except CommandError as error:
        what, _, remedy = str(error).partition("\n")
        return [Finding("Temporal", Level.WRONG, what, "no incident starts or goes on", remedy)]
    known = await known_search_attributes(client)
    queues = [of_pollers(queue, len(await pollers(client, queue))) for queue in (TASK_QUEUE, BUDGET_TASK_QUEUE)]
    return [
        Finding("Temporal", Level.OK, f"answers, namespace {client.namespace}"),
        of_search_attributes({str(name) for name in SearchAttribute} - set(known), client.namespace),
        *queues,
    ]


def _of_cluster(cluster: Cluster, policy: Policy, namespace: str) -> Iterator[Finding]:
    try:
        nodes = cluster.nodes()
        leases = cluster.read(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", "list leases") or {}
        daemon_sets = cluster.read(_DAEMON_SETS, "list daemonsets.apps") or {}
        deployments = cluster.read(_DEPLOYMENTS, "list deployments.apps") or {}
    except ApplicationError as error:
        yield Finding("cluster", Level.WRONG, error.message, "nothing of it was looked at")
        return
    yield Finding("cluster", Level.OK, f"answers, {counted(len(nodes), 'node')}")
    yield from _of_rights(cluster, namespace)
    yield from of_detectors(nodes, leases.get("items", []), datetime.now(UTC))
    yield from of_rivals([*daemon_sets.get("items", []), *deployments.get("items", [])])
    try:
        yield from _of_groups(cluster, auto_scaling_client(), nodes, policy, namespace)
    except (StartError, ApplicationError) as error:
        said = error.message if isinstance(error, ApplicationError) else str(error)
        yield Finding("AWS", Level.WRONG, said, "groups and policy were not looked at")


def _of_rights(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    reviews: Any = kubernetes.AuthorizationV1Api(cluster.api)
    for component in Component:
        calls = [call for call in recorded() if call.component == component]
        try:
            denied = [call for call in calls if not _may(reviews, call, namespace)]
        except kubernetes.ApiException as error:
            yield Finding(
                f"rights of {component}",
                Level.NOTE,
                f"they cannot be asked for ({error.status} {error.reason})",
                mend="run the doctor as somebody who may create subjectaccessreviews.authorization.k8s.io",
            )
            return
        yield of_rights(component, denied, len(calls))


def _may(reviews: Any, call: Call, namespace: str) -> bool:
    resource, _, subresource = call.resource.partition("/")
    place = namespace if call.namespace == NAMESPACE else "" if call.namespace == ANYWHERE else call.namespace
    attributes = {"group": call.group, "resource": resource, "verb": call.verb, "namespace": place}
    attributes |= {"subresource": subresource} if subresource else {}
    attributes |= {"name": call.name} if call.name else {}
    answer = reviews.create_subject_access_review(
        {"spec": {"user": f"system:serviceaccount:{namespace}:{call.component}", "resourceAttributes": attributes}}
    )
    return bool(answer.status.allowed)


def _of_groups(
    cluster: Cluster, aws: AutoScaling, nodes: list[dict[str, Any]], policy: Policy, namespace: str
) -> Iterator[Finding]:
    name = os.environ.get("NODEMEND_CLUSTER", "")
    looking = IdentityReader(cluster, aws)
    # Of each group, one machine stands for all.
    groups: dict[str, NodeIdentity] = {}
    # Questions that come together are one call of AWS.
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as executor:
        identities = list(executor.map(lambda node: looking.of(name, node), nodes))
    for identity in identities:
        if identity.group:
            groups.setdefault(identity.group, identity)
    known: list[Group] = []
    for group, identity in sorted(groups.items()):
        holds = policy.for_node(group, identity.nodegroup)
        facts = _facts(aws, group, identity)
        yield from of_group(group, findings(facts, holds.replacement))
        if facts.group:
            known.append(Group(dict(facts.group), identity.instance_id or "", holds))
    # Groups that are repaired come first: no more than some are asked about.
    known.sort(key=lambda one: one.policy.mode is not Mode.ACT)
    yield from rights(cluster, namespace, known)
    yield from of_policy(policy, {group: identity.nodegroup for group, identity in groups.items()})


def _facts(aws: AutoScaling, name: str, identity: NodeIdentity) -> GroupFacts:
    group = aws.group(name)
    now = datetime.now(UTC)
    return GroupFacts(
        identity=identity,
        now=now,
        group=group,
        hooks=aws.hooks(name),
        refreshes=aws.refreshes(name),
        activities=aws.activities(name, now - LAUNCHES_LATELY),
        nodegroup=aws.nodegroup(group),
    )
