"""Machines of Karpenter: the NodeClaim is deleted, and Karpenter ends the instance under it and launches another.

Karpenter launches for pods that wait, or to keep the replicas of a static NodePool: with neither, none comes.
Shapes as in ``karpenter.sh/v1`` (Karpenter, NodePools; NodeClaims).
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from activities.claim import labels
from activities.cluster import Json
from activities.errors import failure
from activities.machines.kind import Launches
from activities.objects import Objects
from contract.acts import AwaitReplacement, GroupSurvey, MarkUnhealthy, SurveyGroup
from contract.identity import NodeIdentity
from contract.names import REASON_ANNOTATION, REPLACED_BY_ANNOTATION, ErrorType
from contract.replacement import Answer, Found, GroupFinding

NODEPOOL_LABEL: Final = "karpenter.sh/nodepool"
_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
POOLS: Final = "/apis/karpenter.sh/v1/nodepools"


class KarpenterReplacer:
    """What ``activities.machines.kind.Replacer`` asks for, by NodeClaims."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def claim_of(self, node: Json) -> str:
        """The name of the NodeClaim that stands for a Node; empty when there is none."""
        if owner := _owning_claim(node):
            return owner
        provider_id = node["spec"].get("providerID")
        claims = self._objects.list(_CLAIMS) if provider_id else []
        found = (c["metadata"]["name"] for c in claims if c.get("status", {}).get("providerID") == provider_id)
        return next(found, "")

    def pools_of(self, nodes: Iterable[Json]) -> dict[str, str]:
        """The NodePool of each Node, by its name, that names one and that a NodeClaim stands for."""
        of_a_pool = [node for node in nodes if NODEPOOL_LABEL in labels(node)]
        unowned = any(not _owning_claim(node) for node in of_a_pool)
        claims = self._objects.list(_CLAIMS) if unowned else []
        claimed = {claim.get("status", {}).get("providerID") for claim in claims} - {None}
        return {
            node["metadata"]["name"]: labels(node)[NODEPOOL_LABEL]
            for node in of_a_pool
            if _owning_claim(node) or node["spec"].get("providerID") in claimed
        }

    def replicas(self, pool: str) -> int | None:
        """How many nodes a static NodePool wants (``spec.replicas``); None where pods decide, or the pool is gone."""
        found = self._objects.get(f"{POOLS}/{pool}")
        return found["spec"].get("replicas") if found else None

    def registered(self, pool: str) -> set[str]:
        """Names of the Nodes that machines of a pool have joined as, but of those that are on their way out."""
        return {
            claim["status"]["nodeName"]
            for claim in self._of_pool(pool)
            if claim.get("status", {}).get("nodeName") and not claim["metadata"].get("deletionTimestamp")
        }

    def survey(self, argument: SurveyGroup, failed_repairs: int) -> GroupSurvey:
        """Whether the pool is there and can launch."""
        identity, rules = argument.target.identity, argument.rules
        pool = self._objects.get(f"{POOLS}/{identity.group}")
        claims = self._of_pool(identity.group or "")
        seen = [
            (finding, says)
            for finding, says in (
                (GroupFinding.GROUP_GONE, "" if pool else "the NodePool is gone: nothing would be launched"),
                (GroupFinding.INSTANCE_GONE, self._why_gone(identity, claims)),
                (GroupFinding.OTHER_REPAIRER, identity.fuse.says if identity.fuse else ""),
                (GroupFinding.LAUNCHES_FAIL, _why_not_ready(pool)),
                (
                    GroupFinding.FAILED_REPAIRS,
                    f"{failed_repairs} of its replacements failed within a day (V11)"
                    if failed_repairs >= rules.failed_repairs_max
                    else "",
                ),
            )
            if says
        ]
        found = tuple(Found(finding=f, answer=rules.answer(f), explanation=says) for f, says in seen)
        return GroupSurvey(
            group=identity.group or "",
            desired=len(claims),
            instances=tuple(sorted(filter(None, map(_instance, claims)))),
            obstacles=tuple(one.explanation for one in found if one.answer in (Answer.ASK, Answer.WAIT)),
            findings=found,
            at=datetime.now(UTC),
        )

    def over(self, argument: MarkUnhealthy) -> str:
        """Whether the NodeClaim is on its way out, or gone."""
        identity = argument.target.identity
        claim = self._objects.get(f"{_CLAIMS}/{identity.claim}")
        if claim is None:
            return "deleted"
        if claim["metadata"].get("deletionTimestamp"):
            return "being deleted"
        if claim.get("status", {}).get("providerID") != identity.provider_id:
            raise failure(
                ErrorType.WRONG_INSTANCE,
                f"NodeClaim {identity.claim} is {claim.get('status', {}).get('providerID')} now, and was "
                f"{identity.provider_id}.",
            )
        return ""

    def replace(self, argument: MarkUnhealthy) -> None:
        """Say why on the NodeClaim, then delete this very one; the instance is never touched."""
        identity, path = argument.target.identity, f"{_CLAIMS}/{argument.target.identity.claim}"
        claim = self._objects.get(path)
        if claim is None:
            return
        note = {REPLACED_BY_ANNOTATION: argument.target.fence.incident_id, REASON_ANNOTATION: argument.reason}
        version = claim["metadata"]["resourceVersion"]
        self._objects.patch(path, {"metadata": {"resourceVersion": version, "annotations": note}})
        self._objects.delete(f"{_CLAIMS}/{identity.claim}", uid=claim["metadata"]["uid"])

    def launched(self, argument: AwaitReplacement) -> Launches:
        """NodeClaims of the pool that came since the survey and have a machine."""
        before = set(argument.survey.instances)
        new = [claim for claim in self._of_pool(argument.survey.group) if _instance(claim) not in before]
        ready = sorted(filter(None, map(_instance, new)))
        failing = [says for claim in new if (says := _why_not_launched(claim))]
        waits_for = (
            f"Karpenter to launch a machine of NodePool {argument.survey.group} (it does so for pods that wait, and "
            "for the replicas of a static NodePool)"
        )
        return Launches(tuple(ready), "" if ready else waits_for, tuple(failing))

    def state(self, identity: NodeIdentity) -> str:
        """Karpenter keeps the NodeClaim until the instance is terminated."""
        claim = self._objects.get(f"{_CLAIMS}/{identity.claim}")
        if claim is None:
            return "terminated"
        return "being deleted" if claim["metadata"].get("deletionTimestamp") else "there"

    def _of_pool(self, pool: str) -> list[Json]:
        return self._objects.list(_CLAIMS, labelSelector=f"{NODEPOOL_LABEL}={pool}")

    def _why_gone(self, identity: NodeIdentity, claims: list[Json]) -> str:
        mine = next((c for c in claims if c["metadata"]["name"] == identity.claim), None)
        if mine is None:
            return f"NodeClaim {identity.claim} is gone"
        if mine["metadata"].get("deletionTimestamp"):
            return f"NodeClaim {identity.claim} is being deleted already, by somebody else"
        return ""


def _owning_claim(node: Json) -> str:
    owners = node["metadata"].get("ownerReferences", [])
    return next((str(owner["name"]) for owner in owners if owner["kind"] == "NodeClaim"), "")


def _instance(claim: Json) -> str:
    return str(claim.get("status", {}).get("providerID", "")).rpartition("/")[2]


def _why_not_ready(pool: Json | None) -> str:
    for condition in (pool or {}).get("status", {}).get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "False":
            return f"the NodePool is not ready: {condition.get('message') or condition.get('reason')}"
    return ""


def _why_not_launched(claim: Json) -> str:
    for condition in claim.get("status", {}).get("conditions", []):
        if condition["type"] == "Launched" and condition["status"] != "True" and condition.get("message"):
            return f"NodeClaim {claim['metadata']['name']} is not launched: {condition['message']}"
    return ""
