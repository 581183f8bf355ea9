"""Nodes whose incident is gone: started again while its evidence lives, else given back (DESIGN §3).

Only an incident that ended without closing leaves an orphan: terminated, timed out or failed. One that closed left its
claim on purpose (`abort` keeps the quarantine), and a history that Temporal no longer keeps may have been either: such
a node is never opened without a human.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.claim import annotations, read_owner, under_verification
from activities.cluster import Cluster, Json
from activities.hand_over import HandOver
from activities.identify import why_stale
from activities.identities import instance_of
from activities.node_facts import boot_id
from activities.quarantine import QuarantineActivity
from contract.acts import GiveBackNode
from contract.fault import FaultReport, RemediationRequest
from contract.identity import Fence, NodeIdentity, Ownership, Target
from contract.names import HANDLED_ANNOTATION, REAP_ORPHANS, REPORT_FAULT, ActivityName
from contract.proof import is_proven
from contract.reaping import Reaped, ReapOrphans

_NAMED_MAX: Final = 100
_ENDED_WITHOUT_CLOSING: Final = {
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed out",
    WorkflowExecutionStatus.FAILED: "failed",
}


@dataclass(frozen=True)
class Story:
    """How an incident ended, and what it was about."""

    ended: str
    """A word; empty where it runs, or closed by itself."""
    known: bool = True
    """Whether Temporal has its history."""
    request: RemediationRequest | None = None
    reports: tuple[FaultReport, ...] = ()


class OrphanActivity:
    """The act ``reap_orphans``."""

    def __init__(self, client: Client, cluster: Cluster, hand_over: HandOver) -> None:
        self._client = client
        self._cluster = cluster
        self._hand_over = hand_over
        self._quarantine = QuarantineActivity(cluster)

    @activity.defn(name=ActivityName.REAP_ORPHANS)
    async def reap_orphans(self, argument: ReapOrphans) -> Reaped:
        """Look at every claim once.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied`` when the cluster does not answer.
        """
        restarted: dict[str, str] = {}
        given_back: dict[str, str] = {}
        left: dict[str, str] = {}
        nodes = await asyncio.to_thread(self._cluster.nodes)
        for node in nodes:
            if sum(map(len, (restarted, given_back, left))) >= _NAMED_MAX:
                break
            name, owner = node["metadata"]["name"], read_owner(node)
            if owner is None:
                if says := await self._unproven_replacement(node):
                    left[name] = says
                continue
            story = await self._story(owner)
            if not story.known:
                left[name] = (
                    f"Temporal no longer has {owner.incident}, which closed it: whether by `abort` nobody can say. "
                    "Uncordon it when it is sound."
                )
            elif story.ended and (alive := living(story.reports, node, argument.cluster)):
                request = story.request or _request(argument.cluster, node)
                await asyncio.to_thread(self._hand_over, request, alive)
                restarted[name] = f"{owner.incident} was {story.ended}; it was started again: {alive[0].reason} holds."
            elif story.ended:
                try:
                    await asyncio.to_thread(self._give_back, argument.cluster, node, owner, story)
                except ApplicationError as error:
                    # Somebody was quicker: a new run, or a human.
                    left[name] = str(error)
                    continue
                given_back[name] = f"{owner.incident} was {story.ended}, and what it was about holds no more."
        for node in nodes:
            if why := left.get(node["metadata"]["name"]):
                await asyncio.to_thread(self._tell, node, why)
        return Reaped(restarted=restarted, given_back=given_back, left=left)

    def _tell(self, node: Json, why: str) -> None:
        """For whoever asks `kubectl describe node` why nothing happens to it. One Event, however often it is seen."""
        self._cluster.record_event(node, "NodemendLeft", why, key="nodemend-left", warning=True)

    async def _unproven_replacement(self, node: Json) -> str:
        parent = under_verification(node)
        if not parent or not (story := await self._story_of(parent, None)).ended:
            return ""
        return (
            f"{parent}, which was proving it as a replacement, was {story.ended}: nobody opens it to work. Look at it, "
            "and take its startup taint off."
        )

    async def _story(self, owner: Ownership) -> Story:
        return await self._story_of(owner.incident, owner.run)

    async def _story_of(self, incident: str, run: str | None) -> Story:
        """How an incident ended: the newest run counts, for it took over, or would on its first act."""
        try:
            status = (await self._client.get_workflow_handle(incident).describe()).status
            if status not in _ENDED_WITHOUT_CLOSING:
                return Story(ended="")
            request, reports = await self._told(incident, None)
            if not reports and run:
                request, reports = await self._told(incident, run)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Story(ended="", known=False)
            raise
        return Story(_ENDED_WITHOUT_CLOSING[status], request=request, reports=reports)

    async def _told(self, incident: str, run: str | None) -> tuple[RemediationRequest | None, tuple[FaultReport, ...]]:
        """What a run was started with, and the findings that it was told."""
        request, reports = None, dict[str, FaultReport]()
        decode = self._client.data_converter.decode
        handle = self._client.get_workflow_handle(incident, run_id=run)
        async for event in handle.fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                payloads = event.workflow_execution_started_event_attributes.input.payloads
                (request,) = await decode(payloads, [RemediationRequest])
            signal = event.workflow_execution_signaled_event_attributes
            if signal.signal_name == REPORT_FAULT:
                try:
                    (report,) = await decode(signal.input.payloads, [FaultReport])
                except (ValidationError, RuntimeError, ValueError):
                    continue
                reports[report.key] = report
        return request, tuple(reports.values())

    def _give_back(self, cluster: str, node: Json, owner: Ownership, story: Story) -> None:
        identity = identity_of(cluster, node)
        seen = [report.newest_seq for report in story.reports if report.boot_id == identity.boot_id]
        boot, _, handled = annotations(node).get(HANDLED_ANNOTATION, "").rpartition("/")
        if boot == identity.boot_id and handled.isdigit():
            seen.append(int(handled))
        self._quarantine.give_back_node(
            GiveBackNode(
                target=Target(identity=identity, fence=Fence(incident_id=owner.incident, run_id=owner.run)),
                by=REAP_ORPHANS,
                reason=f"Its incident was {story.ended}, and what it was about holds no more.",
                handled_seq=max(seen, default=0),
            )
        )


def living(reports: Sequence[FaultReport], node: Json, cluster: str) -> tuple[FaultReport, ...]:
    """The findings that still hold: about this machine and boot, not dealt with, and said by the node itself. Pure."""
    identity, handled = identity_of(cluster, node), annotations(node).get(HANDLED_ANNOTATION, "")
    return tuple(
        report
        for report in reports
        if is_proven(report, annotations(node)) and not why_stale((report,), identity, handled)
    )


def identity_of(cluster: str, node: Json) -> NodeIdentity:
    """As much of a node's identity as a claim is compared with."""
    return NodeIdentity(
        cluster=cluster,
        node=node["metadata"]["name"],
        node_uid=node["metadata"]["uid"],
        boot_id=boot_id(node),
        provider_id=node["spec"].get("providerID", ""),
        instance_id=instance_of(node),
    )


def _request(cluster: str, node: Json) -> RemediationRequest:
    return RemediationRequest(cluster=cluster, node=node["metadata"]["name"], instance_id=instance_of(node))
