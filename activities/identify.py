"""Who is meant: the machine behind a report, frozen for everything that follows.

Where nothing stands against it, the same act asks for the quarantine permit and closes the node: one act and one
workflow task less until a node is safe, which counts when a thousand fail at once.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.circumstances import CircumstanceReader
from activities.claim import annotations, under_verification
from activities.cluster import Cluster, Json
from activities.culprit_search import CulpritFinder
from activities.errors import failure
from activities.fuse import fuse_of, hurried, is_lit
from activities.identities import IdentityReader
from activities.managed_groups import described_by
from activities.proof import nearly_proven, unproven
from activities.traits import DETECTOR, driver_traits, node_traits, work_is_dead, work_traits
from contract.acts import Identified, IdentifyNode, NodeFacts, Proven, ProveReports, Quarantined, QuarantineNode
from contract.budget import Traits
from contract.corroboration import Circumstances
from contract.fault import CLOSING, EvidenceEnd, FaultReport, RemediationRequest, named_instance
from contract.identity import Fence, MachineKind, NodeIdentity, Target
from contract.names import (
    HANDLED_ANNOTATION,
    KERNEL_LOG,
    ActivityName,
    ErrorType,
)
from contract.permit import PermitAnswer, PermitKind, PermitRequest, severity_of
from contract.policy import Mode, OnCulprit, Policy

Close = Callable[[QuarantineNode, Json], Quarantined]
"""Closes a Node that was just read."""


class IdentifyNodeActivity:
    """The act ``identify_node``. Of the machine it changes nothing, but for closing it where that is asked for."""

    def __init__(
        self,
        cluster: Cluster,
        auto_scaling: AutoScaling,
        policy: Callable[[], Policy],
        ask_permit: Callable[[PermitRequest], PermitAnswer],
        hand_over: Callable[[RemediationRequest, tuple[FaultReport, ...]], str],
        cluster_name: str,
        circumstances: CircumstanceReader | None = None,
        culprits: CulpritFinder | None = None,
        close: Close | None = None,
    ) -> None:
        self._cluster = cluster
        self._circumstances = circumstances
        self._culprits = culprits
        self._close = close
        self._nodegroup_of = described_by(auto_scaling)
        self._identities = IdentityReader(cluster, auto_scaling)
        self._policy = policy
        self._ask_permit = ask_permit
        self._hand_over = hand_over
        self._cluster_name = cluster_name

    @activity.defn(name=ActivityName.IDENTIFY_NODE, no_thread_cancel_exception=True)
    def identify_node(self, argument: IdentifyNode) -> NodeFacts:
        """Find the machine, or say why there is none to act on.

        Raises:
            ApplicationError: ``PolicyForbids`` for a cluster that this worker does not serve; ``NotProven`` while the
                proof of the report may still come; otherwise as the APIs.
        """
        request = argument.request
        if request.cluster != self._cluster_name:
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"The report is about cluster {request.cluster!r}, and this worker serves {self._cluster_name!r}. Give "
                "the detectors and the workers of a cluster the same NODEMEND_CLUSTER and a namespace of their own.",
            )
        policy = self._policy()
        node = self._cluster.node(request.node)
        if node is None:
            return NodeFacts(
                identified=Identified.NODE_ABSENT,
                explanation=f"There is no Node {request.node} in {request.cluster}: nothing was done. See in AWS "
                f"whether {request.instance_id or 'its machine'} still runs.",
                policy_version=policy.version,
            )
        identity = self._identities.of(request.cluster, node)
        if parent := under_verification(node):
            return NodeFacts(
                identified=Identified.HANDED_OVER,
                explanation=f"Node {identity.node} is not in service: {parent} is proving it as a replacement, sees "
                "the finding on it, and counts it against it.",
                policy_version=policy.version,
            )
        if stale := why_stale(argument.reports, identity, annotations(node).get(HANDLED_ANNOTATION, "")):
            return NodeFacts(identified=Identified.STALE, explanation=stale, policy_version=policy.version)
        rules = policy.for_node(identity.group, identity.nodegroup)
        if identity.group is None and not identity.foreign_owners and rules.replacement.manual:
            identity = identity.model_copy(update={"kind": MachineKind.MANUAL})
        proven = nearly_proven(self._cluster, identity, argument.reports, rules.deadlines.proof, node)
        if argument.reports and not proven:
            return NodeFacts(
                identified=Identified.UNPROVEN,
                explanation=unproven(argument.reports, rules.deadlines.proof),
                policy_version=policy.version,
                proven=(),
            )
        if request.instance_id is None and identity.instance_id and proven:
            # Two ids for one machine would be two incidents for it.
            known = request.model_copy(update={"instance_id": identity.instance_id})
            other = self._hand_over(known, proven)
            return NodeFacts(
                identified=Identified.HANDED_OVER,
                explanation=f"The detector did not know its machine; Node {identity.node} is {identity.instance_id}. "
                f"Its incident is {other}, which got the findings.",
                policy_version=policy.version,
            )
        identity = self._with_tried(identity, proven)
        nodegroup = self._nodegroup(identity) if is_lit(node) else None
        fuse = fuse_of(node, identity.kind, nodegroup, proven)
        identity, rules = identity.model_copy(update={"fuse": fuse}), hurried(rules, fuse, datetime.now(UTC))
        mode = rules.mode_for(drill=request.drill)
        acts = argument.wants_permit and mode is Mode.ACT
        pods = self._cluster.pods_on(identity.node) if acts else None
        traits = self._traits(node, argument.reports[0], policy, pods) if pods is not None else {}
        around = self._around(identity, proven, pods)
        permit = self._ask(argument, identity, traits, useless=around.work_dead) if acts else None
        return NodeFacts(
            identified=Identified.FOUND,
            explanation=f"Node {identity.node} is {identity.instance_id or identity.provider_id or 'no known machine'} "
            f"({identity.instance_type or 'unknown type'}, {identity.place}).",
            identity=identity,
            policy=rules,
            policy_version=policy.version,
            traits=traits,
            permit=permit,
            quarantined=self._quarantined(argument, identity, node, proven) if permit and permit.granted else None,
            proven=tuple(report.key for report in proven),
            circumstances=around,
            search=self._culprits.search(
                identity, proven, asks=mode is Mode.ACT, opens=rules.culprits is OnCulprit.INCIDENT
            )
            if self._culprits
            else None,
        )

    @activity.defn(name=ActivityName.PROVE_REPORTS, no_thread_cancel_exception=True)
    def prove_reports(self, argument: ProveReports) -> Proven:
        """Which of the findings that joined later come from whoever may speak for the node.

        Raises:
            ApplicationError: ``NotProven`` while there is still time; otherwise as the API.
        """
        proven = nearly_proven(self._cluster, argument.identity, argument.reports, argument.patience)
        return Proven(keys=tuple(report.key for report in proven))

    def _quarantined(
        self, argument: IdentifyNode, identity: NodeIdentity, node: Json, proven: tuple[FaultReport, ...]
    ) -> Quarantined | None:
        """Close the node, where the findings can call for nothing less, whatever is decided on them.

        What stands against it is no failure of this act: ``quarantine_node`` meets it again, and says it.
        """
        if self._close is None or not argument.closes or not surely_quarantined(argument.reports, proven, identity):
            return None
        first = argument.reports[0]
        target = Target(identity=identity, fence=Fence(incident_id=argument.incident_id, run_id=argument.run_id))
        try:
            return self._close(
                QuarantineNode(target=target, rule=first.rule, reason=first.reason, drill=argument.request.drill), node
            )
        except ApplicationError as error:
            activity.logger.info("Node %s was not closed at once: %s", identity.node, error.message)
            return None

    def _traits(self, node: Json, report: FaultReport, policy: Policy, pods: list[Json]) -> Traits:
        """What the node may share with others that fail."""
        detector = {DETECTOR: report.detector_version} if report.detector_version else {}
        machine = node_traits(node, policy.budget.correlation.trait_labels)
        return {**machine, **detector, **driver_traits(report.fields), **work_traits(pods)}

    def _nodegroup(self, identity: NodeIdentity) -> dict[str, Any] | None:
        """EKS's description of the managed node group of a machine, where it says that it is of one."""
        if identity.nodegroup is None or identity.group is None or identity.kind is not MachineKind.AUTO_SCALING:
            return None
        try:
            return self._nodegroup_of(identity.group)
        except ApplicationError as error:
            activity.logger.warning("Whether EKS repairs %s is not known: %s", identity.node, error.message)
            return None

    def _with_tried(self, identity: NodeIdentity, reports: tuple[FaultReport, ...]) -> NodeIdentity:
        """What its Node says was tried, and what the cluster remembers of the machine under other Nodes."""
        tried = self._circumstances.tried(identity, reports) if self._circumstances else ()
        return identity.model_copy(update={"tried": tuple(dict.fromkeys((*identity.tried, *tried)))})

    def _around(
        self, identity: NodeIdentity, reports: tuple[FaultReport, ...], pods: list[Json] | None
    ) -> Circumstances:
        """``pods``: those of its Node, where they were read; else they are as soon as somebody asks for its work."""

        def job() -> str:
            return work_traits(self._cluster.pods_on(identity.node) if pods is None else pods).get("job", "")

        known = self._circumstances.read(identity, reports, job) if self._circumstances else Circumstances()
        return known.model_copy(update={"work_dead": work_is_dead(pods or ())})

    def _ask(self, argument: IdentifyNode, identity: NodeIdentity, traits: Traits, *, useless: bool) -> PermitAnswer:
        return self._ask_permit(
            PermitRequest(
                kind=PermitKind.QUARANTINE,
                incident_id=argument.incident_id,
                run_id=argument.run_id,
                cluster=identity.cluster,
                group=identity.group or "",
                node=identity.node,
                zone=identity.zone,
                signature=argument.reports[0].signature,
                rule=argument.reports[0].rule,
                severity=severity_of(argument.reports),
                traits=traits,
                useless=useless,
            )
        )


def surely_quarantined(
    reports: tuple[FaultReport, ...], proven: tuple[FaultReport, ...], identity: NodeIdentity
) -> bool:
    """Whether any decision on these findings closes the node. Pure.

    Every one is proven, says that the machine failed, and names no other machine. The decision itself is the
    workflow's (``workflows.assess``): where it could be to observe only, nothing is done before it is taken.
    """
    return proven == reports and all(
        report.verdict in CLOSING and named_instance(report) in ("", identity.instance_id) for report in reports
    )


def why_stale(reports: tuple[FaultReport, ...], identity: NodeIdentity, handled: str) -> str:
    """Why none of the reports is about this machine as it is now; empty when one is."""
    reasons = [_stale(report, identity, handled) for report in reports]
    return reasons[0] if reasons and all(reasons) else ""


def _stale(report: FaultReport, identity: NodeIdentity, handled: str) -> str:
    if report.instance_id and identity.instance_id and report.instance_id != identity.instance_id:
        return (
            f"The report is about {report.instance_id}, and Node {identity.node} is {identity.instance_id} now: "
            "the machine it speaks of is not this one, nothing was done."
        )
    if report.evidence_end is EvidenceEnd.BOOT and identity.boot_id and report.boot_id != identity.boot_id:
        return f"Node {identity.node} was rebooted since, which ends evidence of rule {report.rule}: nothing was done."
    boot, _, seq = handled.rpartition("/")
    # Only kernel records have such numbers; what watch-cluster sent, its own ledger remembers.
    numbered = report.source == KERNEL_LOG and boot == report.boot_id and seq.isdigit()
    if numbered and report.newest_seq <= int(seq):
        return (
            f"This finding (record {report.newest_seq}) was dealt with before, and the node given back: only new "
            "findings start something."
        )
    return ""
