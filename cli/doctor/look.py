"""Looks at a live installation: Temporal, the cluster and AWS. Reads only.

Whatever cannot be looked at is a finding of its own, and the rest is looked at all the same.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from kubernetes import client as kubernetes
from temporalio.client import Client
from temporalio.service import RPCError

from activities.cluster import Cluster, Json
from activities.errors import ActError
from cli.connection import connect, explained
from cli.doctor.findings import (
    Finding,
    Level,
    of_detectors,
    of_invalid_policy,
    of_pollers,
    of_rights,
    of_rivals,
    of_search_attributes,
    unseen,
)
from cli.doctor.groups import of_groups
from cli.errors import CommandError
from contract.identity import Fence
from contract.names import BUDGET_TASK_QUEUE, TASK_QUEUE, SearchAttribute
from contract.policy import Policy
from contract.words import counted
from deploy.components import NAMESPACE, Component
from deploy.rights.__main__ import recorded
from deploy.rights.calls import ANYWHERE, Call
from worker.clients import auto_scaling_client, cluster_client
from worker.errors import StartError
from worker.policy_document import judged
from worker.temporal import known_search_attributes, mistyped, pollers

_AT_ONCE: Final = 50
_DAEMON_SETS: Final = "/apis/apps/v1/daemonsets"
_DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
_POLICY_VOLUME: Final = "policy"
"""Of the chart's worker: where it has its policy from (``deploy/helm/nodemend/templates/worker.yaml``)."""
_POLICY_KEY: Final = "policy.yaml"
_BY_NOBODY: Final = Fence(incident_id="", run_id="")
"""For looks that an incident would take: a look writes nothing, so that its fence is never read."""


async def examine(given: tuple[str, str] | None, namespace: str) -> list[Finding]:
    """Everything that can be looked at from here; what cannot be reached is a finding, too.

    Args:
        given: name and text of a policy file; None for the policy that the workers have.
        namespace: Kubernetes namespace of the installation.
    """
    found = await _of_temporal()
    try:
        cluster = cluster_client()
    except StartError as error:
        told = _judged(*given)[1] if given else []
        unseen = "detectors, rights, other repairers and groups were not looked at"
        return [*found, Finding("cluster", Level.WRONG, error.what, unseen, error.remedy), *told]
    return found + await asyncio.to_thread(lambda: list(_of_cluster(cluster, given, namespace)))


async def _of_temporal() -> list[Finding]:
    try:
        client = await connect()
    except CommandError as error:
        what, _, remedy = str(error).partition("\n")
        return [Finding("Temporal", Level.WRONG, what, "no incident starts or goes on", remedy)]
    found = [Finding("Temporal", Level.OK, f"answers, namespace {client.namespace}")]
    looks: dict[str, Callable[[], Awaitable[Finding]]] = {"search attributes": lambda: _of_attributes(client)}
    for queue in (TASK_QUEUE, BUDGET_TASK_QUEUE):
        looks[f"workers of {queue}"] = lambda queue=queue: _of_queue(client, queue)  # type: ignore[misc]
    for about, look in looks.items():
        try:
            found.append(await look())
        except RPCError as error:
            what, _, remedy = str(explained(error)).partition("\n")
            found.append(Finding(about, Level.WRONG, what, "whether they are there is not known", remedy))
    return found


async def _of_attributes(client: Client) -> Finding:
    known = await known_search_attributes(client)
    missing = {str(name) for name in SearchAttribute} - set(known)
    return of_search_attributes(missing, client.namespace, mistyped(known))


async def _of_queue(client: Client, queue: str) -> Finding:
    return of_pollers(queue, len(await pollers(client, queue)))


def _of_cluster(cluster: Cluster, given: tuple[str, str] | None, namespace: str) -> Iterator[Finding]:
    try:
        nodes = cluster.nodes()
    except ActError as error:
        yield unseen("cluster", error, "nothing of it was looked at", "check KUBECONFIG, and what its user may list")
        if given:
            yield from _judged(*given)[1]
        return
    yield Finding("cluster", Level.OK, f"answers, {counted(len(nodes), 'node')}")
    yield from _of_rights(cluster, namespace)
    try:
        leases = _listed(cluster, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", "leases")
        yield from of_detectors(nodes, leases, datetime.now(UTC))
    except ActError as error:
        yield unseen("detectors", error, "whether each node has a detector that sees is not known")
    workloads: list[Json] = []
    for path, kind in ((_DAEMON_SETS, "daemonsets.apps"), (_DEPLOYMENTS, "deployments.apps")):
        try:
            workloads += _listed(cluster, path, kind)
        except ActError as error:
            yield unseen("other repairers", error, "whether another repairs the same nodes is not known")
    yield from of_rivals(workloads)
    policy, told = _judged(*given) if given else _installed(cluster, workloads, namespace)
    yield from told
    try:
        aws = auto_scaling_client()
    except StartError as error:
        yield Finding("AWS", Level.WRONG, error.what, "groups and IAM were not looked at", error.remedy)
        return
    yield from of_groups(cluster, aws, nodes, policy, namespace)


def _listed(cluster: Cluster, path: str, kind: str) -> list[Json]:
    items: list[Json] = (cluster.read(path, f"list {kind}") or {}).get("items", [])
    return items


def _judged(source: str, text: str) -> tuple[Policy | None, list[Finding]]:
    policy, wrong = judged(text)
    return policy, [] if policy else [of_invalid_policy(source, wrong)]


def _installed(cluster: Cluster, workloads: list[Json], namespace: str) -> tuple[Policy | None, list[Finding]]:
    """The policy that the workers have by their ConfigMap; None, and why, where there is none."""
    for one in workloads:
        if (one["metadata"]["namespace"], one["metadata"]["name"]) != (namespace, str(Component.WORKER)):
            continue
        for volume in one["spec"]["template"]["spec"].get("volumes", []):
            if volume["name"] == _POLICY_VOLUME and (name := volume.get("configMap", {}).get("name")):
                try:
                    held = cluster.read(f"/api/v1/namespaces/{namespace}/configmaps/{name}", "get configmaps") or {}
                except ActError as error:
                    mend = "allow it to whoever runs the doctor, or give --policy"
                    return None, [unseen("policy", error, "groups are judged by the default policy", mend)]
                if (text := held.get("data", {}).get(_POLICY_KEY)) is not None:
                    return _judged(f"ConfigMap {namespace}/{name}", text)
                says = f"ConfigMap {namespace}/{name} has no {_POLICY_KEY}"
                return None, [of_invalid_policy(says, [(1, "nothing is there, and workers do not start")])]
    says = f"no workers of the chart in {namespace}, and no --policy: groups are judged by the default policy"
    return None, [Finding("policy", Level.NOTE, says, "it acts on nothing", "give --policy FILE, or --namespace")]


def _of_rights(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    reviews: Any = kubernetes.AuthorizationV1Api(cluster.api)
    for component in Component:
        calls = [call for call in recorded() if call.component == component]
        try:
            with cluster.calling("create subjectaccessreviews.authorization.k8s.io", str(component)):
                denied = [call for call in calls if not _may(reviews, call, namespace)]
        except ActError as error:
            yield Finding(
                f"rights of {component}",
                Level.NOTE,
                f"they cannot be asked for: {error.what}",
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
        {"spec": {"user": f"system:serviceaccount:{namespace}:{call.component}", "resourceAttributes": attributes}},
        _request_timeout=(5.0, 30.0),
    )
    return bool(answer.status.allowed)
