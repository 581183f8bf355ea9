"""Who is meant: the machine behind a report, frozen for everything that follows."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from temporalio import activity

from activities.auto_scaling import AutoScaling
from activities.circumstances import CircumstanceReader
from activities.claim import annotations, labels
from activities.cluster import Cluster, Json
from activities.culprit_search import CulpritFinder
from activities.errors import failure
from activities.machines.all import Machines
from activities.machines.karpenter import NODEPOOL_LABEL
from activities.node_facts import boot_id, host_of, read_tried
from activities.placement import placement_of
from activities.proof import nearly_proven, unproven
from activities.traits import DETECTOR, driver_traits, node_traits, work_is_dead, work_traits
from contract.acts import Identified, IdentifyNode, NodeFacts, Proven, ProveReports
from contract.budget import Traits
from contract.corroboration import Circumstances
from contract.fault import EvidenceEnd, FaultReport, RemediationRequest
from contract.identity import MachineKind, NodeIdentity
from contract.names import (
    HANDLED_ANNOTATION,
    INSTANCE_TYPE_LABEL,
    KERNEL_LOG,
    NODEGROUP_LABEL,
    REPLACES_ANNOTATION,
    STARTUP_TAINT,
    ZONE_LABEL,
    ActivityName,
    ErrorType,
)
from contract.permit import PermitAnswer, PermitKind, PermitRequest, severity_of
from contract.policy import Mode, Policy

_EC2_PROVIDER_ID: Final = re.compile(r"^aws:///(?P<zone>[a-z0-9-]+)/(?P<instance>i-[0-9a-f]{8,17})$")
"""As the AWS cloud provider writes it into ``spec.providerID``."""

_FOREIGN_TAINTS: Final = {
    "ToBeDeletedByClusterAutoscaler": "cluster-autoscaler is removing it",
    "karpenter.sh/disrupted": "Karpenter is disrupting it",
    "karpenter.sh/disruption": "Karpenter is disrupting it",
    "aws-node-termination-handler/asg-lifecycle-termination": "aws-node-termination-handler is draining it",
    "aws-node-termination-handler/spot-itn": "EC2 is taking its Spot instance back",
    "aws-node-termination-handler/scheduled-maintenance": "aws-node-termination-handler is draining it",
    "aws-node-termination-handler/rebalance-recommendation": "aws-node-termination-handler is draining it",
}
_FOREIGN_LABELS: Final = {
    NODEPOOL_LABEL: "it belongs to a Karpenter NodePool, whose NodeClaim must be replaced instead",
    "eks.amazonaws.com/compute-type": "EKS Auto Mode manages it",
}


class IdentifyNodeActivity:
    """The act ``identify_node``. Reads only, but for the permit that it asks for and a culprit that it names."""

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
    ) -> None:
        self._cluster = cluster
        self._circumstances = circumstances
        self._culprits = culprits
        self._machines = Machines(cluster, auto_scaling)
        self._auto_scaling = auto_scaling
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
        identity = self.identity(request.cluster, node)
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
        if request.instance_id is None and identity.instance_id:
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
        mode = rules.mode_for(drill=request.drill)
        acts = argument.wants_permit and mode is Mode.ACT
        pods = self._cluster.pods_on(identity.node) if acts else []
        traits = self._traits(node, argument.reports[0], policy, pods) if acts else {}
        around = self._around(identity, proven, work_is_dead(pods))
        return NodeFacts(
            identified=Identified.FOUND,
            explanation=f"Node {identity.node} is {identity.instance_id or identity.provider_id or 'no known machine'} "
            f"({identity.instance_type or 'unknown type'}, {identity.place}).",
            identity=identity,
            policy=rules,
            policy_version=policy.version,
            traits=traits,
            permit=self._ask(argument, identity, traits, useless=around.work_dead) if acts else None,
            proven=tuple(report.key for report in proven),
            circumstances=around,
            search=self._culprits.search(identity, proven, asks=mode is Mode.ACT) if self._culprits else None,
        )

    @activity.defn(name=ActivityName.PROVE_REPORTS, no_thread_cancel_exception=True)
    def prove_reports(self, argument: ProveReports) -> Proven:
        """Which of the findings that joined later come from whoever may speak for the node.

        Raises:
            ApplicationError: ``NotProven`` while there is still time; otherwise as the API.
        """
        proven = nearly_proven(self._cluster, argument.identity, argument.reports, argument.patience)
        return Proven(keys=tuple(report.key for report in proven))

    def _traits(self, node: Json, report: FaultReport, policy: Policy, pods: list[Json]) -> Traits:
        """What the node may share with others that fail."""
        detector = {DETECTOR: report.detector_version} if report.detector_version else {}
        machine = node_traits(node, policy.budget.correlation.trait_labels)
        return {**machine, **detector, **driver_traits(report.fields), **work_traits(pods)}

    def _with_tried(self, identity: NodeIdentity, reports: tuple[FaultReport, ...]) -> NodeIdentity:
        """What its Node says was tried, and what the cluster remembers of the machine under other Nodes."""
        tried = self._circumstances.tried(identity, reports) if self._circumstances else ()
        return identity.model_copy(update={"tried": tuple(dict.fromkeys((*identity.tried, *tried)))})

    def _around(self, identity: NodeIdentity, reports: tuple[FaultReport, ...], work_dead: bool) -> Circumstances:
        def job() -> str:
            return work_traits(self._cluster.pods_on(identity.node)).get("job", "")

        known = self._circumstances.read(identity, reports, job) if self._circumstances else Circumstances()
        return known.model_copy(update={"work_dead": work_dead})

    def identity(self, cluster: str, node: Json) -> NodeIdentity:
        """The machine behind a Node as the cluster and AWS know it now. Reads only."""
        provider_id = node["spec"].get("providerID", "")
        match = _EC2_PROVIDER_ID.match(provider_id)
        instance_id = match["instance"] if match else None
        instance = self._auto_scaling.ec2.instance(instance_id) if instance_id else None
        kept = self._machines.keeper(node, instance_id)
        known = labels(node)
        return NodeIdentity(
            cluster=cluster,
            node=node["metadata"]["name"],
            node_uid=node["metadata"]["uid"],
            boot_id=boot_id(node),
            provider_id=provider_id,
            instance_id=instance_id,
            group=kept.group,
            kind=kept.kind,
            claim=kept.claim,
            nodegroup=known.get(NODEGROUP_LABEL),
            zone=known.get(ZONE_LABEL) or (match["zone"] if match else ""),
            instance_type=known.get(INSTANCE_TYPE_LABEL, ""),
            devices=devices(node),
            ready=is_ready(node),
            foreign_owners=foreign_owners(node, kept.kind),
            image=instance.get("ImageId", "") if instance else "",
            placement=placement_of(instance) if instance else {},
            host=host_of(instance),
            tried=tuple(read_tried(node, datetime.now(UTC))),
        )

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


def under_verification(node: Json) -> str:
    """The incident that is proving this machine; empty once it was opened to work, or was never a replacement."""
    closed = any(taint["key"] == STARTUP_TAINT for taint in node["spec"].get("taints", []))
    return annotations(node).get(REPLACES_ANNOTATION, "") if closed else ""


def instance_of(node: Json) -> str | None:
    """The EC2 instance that a Node says it is."""
    match = _EC2_PROVIDER_ID.match(node["spec"].get("providerID", ""))
    return match["instance"] if match else None


def devices(node: Json) -> dict[str, int]:
    """Extended resources of a node that are devices, with their capacity. Their names carry a vendor's domain."""
    capacity: dict[str, str] = node["status"].get("capacity", {})
    return {
        name: int(amount)
        for name, amount in capacity.items()
        if "/" in name and not name.split("/")[0].endswith("kubernetes.io") and amount.isdigit()
    }


def is_ready(node: Json) -> bool:
    """Whether the node's ``Ready`` condition is true."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )


def foreign_owners(node: Json, kind: MachineKind = MachineKind.AUTO_SCALING) -> tuple[str, ...]:
    """Other controllers that say they act on this node. What replaces it on our behalf is none of them."""
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    known = labels(node)
    found = [words for key, words in _FOREIGN_TAINTS.items() if key in taints]
    found += [
        words
        for key, words in _FOREIGN_LABELS.items()
        if key in known and not (kind is MachineKind.KARPENTER and key == NODEPOOL_LABEL)
    ]
    return tuple(dict.fromkeys(found))
