"""What the doctor finds, from facts to words. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from activities.errors import ActError
from contract.identity import NodeIdentity
from contract.names import DETECTOR_LEASE_PREFIX
from contract.policy import Mode, Policy
from contract.replacement import FATAL, Answer, Found
from contract.words import counted
from deploy.rights.calls import Call
from detector.cluster.leases import SILENT_AFTER
from detector.conditions import LOG_HEALTH

Json = dict[str, Any]

_ACCELERATORS: Final = ("aws.amazon.com/neuron", "nvidia.com/gpu", "amd.com/gpu")
_NEURON_AGENT: Final = "node-recovery"
"""Container of AWS's Neuron node recovery agent (``k8s-neuron-problem-detector.yml`` of the Neuron SDK)."""
_NEURON_AGENT_IMAGE: Final = "neuron-node-recovery"
_RIVALS: Final = {
    "planetlabs/draino": "drains nodes by their conditions",
    "self-node-remediation": "reboots nodes that are not healthy",
    "fence-agents-remediation": "reboots nodes that are not healthy",
    "machine-deletion-remediation": "deletes machines that are not healthy",
    "kured": "reboots nodes whose system asks for it",
}
"""By a part of their image's name: what they do to nodes that Nodemend works on."""
_NODE_REPAIR: Final = re.compile(r"\bNodeRepair=(\w+)")
"""Karpenter's feature gate, in its variable ``FEATURE_GATES`` or its option ``--feature-gates``, which goes before."""
_TRUE: Final = ("1", "t", "true")
_NAMED_MAX: Final = 5


class Level(StrEnum):
    """How much it matters."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; repairs work."""
    WRONG = "wrong"
    """Repairs, or some of them, do not work."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    about: str
    level: Level
    says: str
    means: str = ""
    mend: str = ""


def unseen(about: str, error: ActError, means: str, mend: str = "allow it to whoever runs the doctor") -> Finding:
    """What could not be looked at."""
    return Finding(about, Level.WRONG, error.what, means, mend)


def of_search_attributes(missing: Iterable[str], namespace: str, mistyped: Iterable[str] = ()) -> Finding:
    """Without them an incident waits in its first task for ever; with another type no worker starts."""
    names, others = sorted(missing), sorted(mistyped)
    if others:
        return Finding(
            "search attributes",
            Level.WRONG,
            f"namespace {namespace} has {', '.join(others)} with another type",
            "no worker starts in this namespace",
            "remove them there (temporal operator search-attribute remove), or use a namespace of Nodemend's own",
        )
    if not names:
        return Finding("search attributes", Level.OK, "all are registered")
    return Finding(
        "search attributes",
        Level.WRONG,
        f"namespace {namespace} lacks {', '.join(names)}",
        "an incident that sets one waits for ever, and saved views do not work",
        "start a worker, which registers them, or: temporal operator search-attribute create (docs/operating.md)",
    )


def of_pollers(queue: str, pollers: int) -> Finding:
    """Whether anybody works."""
    if pollers:
        return Finding(f"workers of {queue}", Level.OK, f"{pollers} poll")
    return Finding(
        f"workers of {queue}",
        Level.WRONG,
        "nobody polls",
        "findings wait in Temporal; nothing is quarantined, drained or replaced",
        "start workers (`nodemend work`; chart: worker.replicas), with this TEMPORAL_NAMESPACE",
    )


def of_rights(component: str, denied: Iterable[Call], asked: int) -> Finding:
    """What RBAC refuses to one component."""
    missing = sorted({f"{call.verb} {call.resource}" + (f".{call.group}" if call.group else "") for call in denied})
    if not missing:
        return Finding(f"rights of {component}", Level.OK, f"all {asked} calls that the tests were seen to make")
    return Finding(
        f"rights of {component}",
        Level.WRONG,
        f"may not {some(missing)}",
        "acts that need it stop and ask a human",
        "apply deploy/rbac, or upgrade the chart; `--namespace` names where the service accounts are",
    )


def of_iam(role: str, refused: Iterable[str], asked: int, group: str = "", *, acts: bool = True) -> Finding:
    """What IAM refuses to the worker's role, for one group or for looking."""
    about = f"IAM, group {group}" if group else "IAM"
    missing = sorted(refused)
    if not missing:
        return Finding(about, Level.OK, f"{role} may do all {asked} things that it has to")
    return Finding(
        about,
        Level.WRONG if acts else Level.NOTE,
        f"{role} may not {some(missing)}",
        "an incident that comes so far asks a human"
        if group
        else "what it cannot see it cannot decide, and asks a human",
        "put deploy/aws/iam/worker.json on the role; where it has a condition on tags, tag the group (docs/aws.md)",
    )


def of_detectors(nodes: Iterable[Json], leases: Iterable[Json], now: datetime) -> Iterator[Finding]:
    """Detectors that are missing, silent or blind."""
    renewed = {
        str(lease["metadata"]["name"]).removeprefix(DETECTOR_LEASE_PREFIX): lease["spec"]
        for lease in leases
        if str(lease["metadata"]["name"]).startswith(DETECTOR_LEASE_PREFIX)
    }
    there = {str(node["metadata"]["name"]): node for node in nodes}
    missing = [name for name, node in there.items() if name not in renewed and _is_accelerated(node)]
    silent = [name for name in there if name in renewed and _is_silent(renewed[name], now)]
    blind = [
        f"{name} ({condition.get('reason', '')})"
        for name, node in there.items()
        for condition in node.get("status", {}).get("conditions", [])
        if condition.get("type") == LOG_HEALTH and condition.get("status") == "True"
    ]
    unseen = "a fault there is not seen"
    if missing:
        mend = "see why the DaemonSet has no pod there: its affinity, or `kubectl describe daemonset`"
        yield Finding("detectors", Level.WRONG, f"none on {some(missing)}", unseen, mend)
    if silent:
        mend = "look at the pod's log there, and whether it may renew its Lease"
        yield Finding("detectors", Level.WRONG, f"silent on {some(silent)}", unseen, mend)
    if blind:
        mend = "the condition's message says why (docs/detector.md)"
        yield Finding("detectors", Level.WRONG, f"they see nothing on {some(blind)}", unseen, mend)
    if not missing and not silent and not blind:
        number = len(set(renewed) & set(there))
        having = f"{number} of {counted(len(there), 'node has', 'nodes have')} one"
        words = having if number else "no node has one, and none has accelerators"
        yield Finding("detectors", Level.OK if number else Level.NOTE, words)


def of_rivals(workloads: Iterable[Json]) -> Iterator[Finding]:
    """Others that would replace, reboot or drain the same machines. ``workloads``: DaemonSets and Deployments."""
    for one in workloads:
        where = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        for container in one["spec"]["template"]["spec"].get("containers", []):
            image = str(container.get("image", ""))
            if container["name"] == _NEURON_AGENT or _NEURON_AGENT_IMAGE in image:
                yield from _of_neuron_agent(where, container)
            yield from _of_karpenter(where, container)
            for part, does in _RIVALS.items():
                if part in image:
                    yield Finding(
                        "other repairers",
                        Level.WRONG,
                        f"{where} {does}",
                        "two repairers of one node each do half of a repair, and neither knows of the other's",
                        "keep it off the nodes of groups in mode act, or leave those in shadow (docs/migration.md)",
                    )


def _environment(container: Json) -> dict[str, str]:
    return {str(e.get("name")): str(e.get("value", "")) for e in container.get("env", [])}


def _of_karpenter(where: str, container: Json) -> Iterator[Finding]:
    options = [*container.get("command", []), *container.get("args", [])]
    switched = _NODE_REPAIR.findall(" ".join([_environment(container).get("FEATURE_GATES", ""), *options]))
    if switched and switched[-1].lower() in _TRUE:
        yield Finding(
            "other repairers",
            Level.WRONG,
            f"Karpenter ({where}) repairs nodes too: its feature gate NodeRepair is on",
            "it ends a machine whose condition stays bad, without checkpoint, while an incident works on it",
            "set settings.featureGates.nodeRepair=false in its chart, or leave its NodePools in shadow "
            "(docs/migration.md)",
        )


def _of_neuron_agent(where: str, container: Json) -> Iterator[Finding]:
    # The agent's own default is to look on (``k8s-neuron-problem-detector-and-recovery.yml``).
    if _environment(container).get("ENABLE_RECOVERY", "").lower() == "true":
        yield Finding(
            "other repairers",
            Level.WRONG,
            f"the Neuron recovery agent ({where}) acts too",
            "it marks a machine unhealthy at once, without checkpoint or drain, while an incident works on it",
            'set its ENABLE_RECOVERY to "false" (docs/migration.md)',
        )


def of_group(name: str, found: Iterable[Found]) -> Iterator[Finding]:
    """What the look before the point of no return would say of a group now."""
    clean = True
    for one in found:
        clean = False
        stops = one.answer in (Answer.WAIT, Answer.ASK)
        yield Finding(
            f"group {name}",
            Level.WRONG if stops else Level.NOTE,
            one.explanation,
            f"the policy's answer is {one.answer}" + (": no machine of it is replaced by itself" if stops else ""),
            "change that" + ("" if one.finding in FATAL else f", or replacement.answers[{one.finding}] in the policy"),
        )
    if clean:
        yield Finding(f"group {name}", Level.OK, "nothing keeps it from replacing a machine")


def of_unkept(machines: Iterable[NodeIdentity], policy: Policy) -> Iterator[Finding]:
    """Machines that nobody would replace: those that the policy has repaired, and any with accelerators."""
    unkept: dict[Level, list[str]] = {Level.WRONG: [], Level.NOTE: []}
    for one in machines:
        holds = policy.for_node(one.group, one.nodegroup)
        by_people = holds.replacement.manual and not one.foreign_owners
        if one.group or by_people or not (holds.mode is Mode.ACT or one.devices):
            continue
        why = f" ({'; '.join(one.foreign_owners)})" if one.foreign_owners else ""
        unkept[Level.WRONG if holds.mode is Mode.ACT else Level.NOTE].append(f"{one.node}{why}")
    for level, names in unkept.items():
        if names:
            yield Finding(
                "nodes",
                level,
                f"nobody replaces {some(sorted(names))}",
                "a fault there ends with the node closed to new work, and a human is asked",
                "have an Auto Scaling group, a NodeClaim, or a Machine with an owner stand behind each; where people "
                "replace them, say replacement.manual in the policy (docs/policy.md)",
            )


def of_invalid_policy(source: str, wrong: Iterable[tuple[int, str]]) -> Finding:
    """A policy that no worker takes."""
    return Finding(
        "policy",
        Level.WRONG,
        f"{source} is no policy: " + some([f"line {line}, {what}" for line, what in wrong]),
        "workers go on with the policy before, and one that starts anew cannot; groups are judged by the default one",
        "mend these lines (docs/policy.md), and look with `nodemend policy check`",
    )


def of_policy(policy: Policy, groups: Mapping[str, str | None]) -> Iterator[Finding]:
    """Whether the policy means the groups that there are. ``groups``: Auto Scaling group to EKS node group."""
    there = {*groups, *(name for name in groups.values() if name)}
    if unknown := sorted(set(policy.groups) - there):
        yield Finding(
            "policy",
            Level.WRONG,
            f"it names {some(unknown)}, and no node is of such a group",
            "what it says of them holds for nobody; their nodes, if misspelt, have the default",
            f"groups here: {some(sorted(there)) or 'none'}",
        )
    acting = [name for name, nodegroup in groups.items() if policy.for_node(name, nodegroup).mode is Mode.ACT]
    if not acting:
        yield Finding("policy", Level.NOTE, "no group is in mode act", "decisions are recorded and nothing is touched")
    elif not unknown:
        yield Finding("policy", Level.OK, f"acts on {some(acting)}")


def _is_silent(spec: Json, now: datetime) -> bool:
    at = spec.get("renewTime")
    within = timedelta(seconds=SILENT_AFTER * float(spec.get("leaseDurationSeconds") or 600))
    return not at or now - datetime.fromisoformat(str(at)) > within


def _is_accelerated(node: Json) -> bool:
    return any(str(key).startswith(_ACCELERATORS) for key in node.get("status", {}).get("capacity", {}))


def some(names: list[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
