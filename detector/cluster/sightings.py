"""What is wrong with a node at this moment, as far as the cluster can see. Pure: views and rules in, sightings out."""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from contract.fault import DataTrust, EvidenceEnd, Verdict
from contract.model import MESSAGE_MAX
from contract.names import ClusterSource
from detector.cluster.documents import ConditionDocument, Ec2Document, RuleDocument, Rules, TaintDocument
from detector.cluster.view import Condition, NodeView, moment
from detector.rules import Match

OUTAGE_FLOOR: Final = 1
"""So many nodes may always be away: with two or three, every failure is a large share."""
_WATCHED_S: Final = 900.0
"""A detector that has not refreshed its condition for so long is not believed to read (C5)."""
_BY_OUR_DETECTOR: Final = re.compile(r"\(rule [a-z][a-z0-9-]+, boot [^ ,]+, record \d+\)(?: \(and \d+ more\))?$")
"""How ``detector.conditions`` ends the message of every condition that it writes."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

NOT_READY: Final = RuleDocument(id="node-not-ready", reason=".*", verdict=Verdict.AMBIGUOUS, workload_alive=True)
SILENT: Final = RuleDocument(id="detector-silent", reason=".*", verdict=Verdict.NOTICE, level=5)
"""Nobody knows what such a node's kernel says: that is to be looked at, and is nothing against the machine."""

Reads = Callable[[str], Match | None]
"""The kernel rules: what a message says, if it is a line of the kernel log."""


class Sighting(NamedTuple):
    """Something that is so now."""

    subject: str
    """What it is about, on its node: it is one finding as long as this is seen."""
    transition: str
    """When it became so, as its source tells it; another one is another occurrence. Empty: the source tells none."""
    since: float | None
    hold_s: float
    stale: bool
    """Its writer is silent: it is neither known to be so nor known to be over (C5)."""
    source: ClusterSource
    rule: str
    component: str
    verdict: Verdict
    data: DataTrust
    evidence_end: EvidenceEnd
    workload_alive: bool
    device_resource: str | None
    level: int
    condition_type: str
    reason: str
    signature: str
    fields: dict[str, str]
    message: str


class Ec2Word(NamedTuple):
    """Something that EC2 says of an instance."""

    kind: str
    """``event``, ``system-status`` or ``instance-status``."""
    code: str
    id: str
    """Of the event; empty for a status."""
    since: str
    """When the event is due, or since when the status is so; empty where EC2 does not tell."""
    message: str


def of_conditions(view: NodeView, rules: Rules, reads: Reads, now: float) -> list[Sighting]:
    """Conditions that others wrote. What the node's own detector wrote or read itself comes from there."""
    described = {entry.type: entry for entry in rules.conditions}
    watched = now - view.watched_since < _WATCHED_S
    found = []
    for condition in view.conditions:
        entry = described[condition.type]
        if _BY_OUR_DETECTOR.search(condition.message):
            continue
        rule, groups = entry.rule_for(condition.reason)
        if rule.kernel_log and watched:
            continue
        found.append(_of_condition(condition, entry, rule, groups, reads, now))
    return found


def _of_condition(
    condition: Condition,
    entry: ConditionDocument,
    rule: RuleDocument,
    groups: dict[str, str],
    reads: Reads,
    now: float,
) -> Sighting:
    # Where the message is the kernel's line, the finding is the same as the detector's would be: one signature.
    line = reads(condition.message) if rule.kernel_log else None
    signature = line.signature if line else _signature(rule, groups)
    return Sighting(
        subject=f"{ClusterSource.CONDITION}/{condition.type}/{signature}",
        transition=f"{condition.since:.0f}",
        since=condition.since,
        hold_s=entry.hold_s,
        stale=entry.heartbeat_s is not None and now - condition.heartbeat > entry.heartbeat_s,
        source=ClusterSource.CONDITION,
        rule=rule.id,
        component=line.rule.component if line else rule.component or entry.component,
        verdict=rule.verdict,
        data=rule.data,
        evidence_end=rule.evidence_end,
        workload_alive=rule.workload_alive,
        device_resource=rule.device_resource or (line.rule.device_resource if line else None),
        level=rule.level,
        condition_type=condition.type,
        reason=condition.reason or condition.type,
        signature=signature,
        fields={**(line.fields if line else {}), **groups, "condition.status": entry.bad_status},
        message=bounded(condition.message or f"{condition.type} is {entry.bad_status}."),
    )


def of_taints(view: NodeView, rules: Rules) -> list[Sighting]:
    """Taints that somebody puts on nodes whose devices fail."""
    described = {entry.key: entry for entry in rules.taints}
    return [_of_taint(described[taint.key], taint.value, taint.since) for taint in view.taints]


def _of_taint(entry: TaintDocument, value: str, since: float | None) -> Sighting:
    rule, groups = entry.rule_for(value)
    signature = _signature(rule, groups)
    said = f"{entry.key}={value}" if value else entry.key
    return _plain(
        rule,
        subject=f"{ClusterSource.TAINT}/{entry.key}/{signature}",
        transition=f"{since:.0f}" if since is not None else "",
        since=since,
        hold_s=entry.hold_s,
        source=ClusterSource.TAINT,
        component=rule.component or entry.component,
        condition_type=entry.key,
        reason=value or entry.key,
        signature=signature,
        fields=groups,
        message=f"The node carries the taint {said}.",
    )


def of_readiness(view: NodeView, hold_s: float) -> list[Sighting]:
    """A node that is not ready, unless somebody is removing it."""
    if view.ready or view.going:
        return []
    return [
        _plain(
            NOT_READY,
            subject=ClusterSource.NOT_READY,
            transition=f"{view.ready_since:.0f}",
            since=view.ready_since,
            hold_s=hold_s,
            source=ClusterSource.NOT_READY,
            component="node",
            condition_type="Ready",
            reason=view.ready_reason or "NodeNotReady",
            signature=NOT_READY.id,
            fields={},
            message=f"The node is not ready ({view.ready_reason or 'no reason given'}).",
        )
    ]


def of_ec2(view: NodeView, words: Sequence[Ec2Word], rules: Rules) -> list[Sighting]:
    """What EC2 says of the node's instance."""
    described = {entry.kind: entry for entry in rules.ec2}
    found: dict[str, Sighting] = {}
    for word in words:
        if word.kind in described and not view.going:
            sighting = _of_ec2(described[word.kind], word)
            found.setdefault(sighting.subject, sighting)
    return list(found.values())


def event_class(code: str) -> str:
    """What an event comes to: AWS calls the end of one and the same machine a retirement here and a stop there."""
    return "end" if code in ("instance-retirement", "instance-stop") else code


def _of_ec2(entry: Ec2Document, word: Ec2Word) -> Sighting:
    rule, groups = entry.rule_for(word.code)
    signature = _signature(rule, groups)
    # EC2 and AWS Health give one event two ids and may give it two dates: neither says that it is another one.
    event = word.kind == "event"
    what = f"{rule.id}/{event_class(word.code)}" if event else signature
    return _plain(
        rule,
        subject=f"{ClusterSource.EC2}/{word.kind}/{what}",
        transition="" if event else word.since,
        # An event is about the future; what holds is counted from when it is first seen.
        since=None,
        hold_s=entry.hold_s,
        source=ClusterSource.EC2,
        component=rule.component or entry.component,
        condition_type=entry.name,
        reason=f"Ec2{word.code.title().replace('-', '')}",
        signature=signature,
        fields={**groups, **({"event": word.id} if word.id else {}), **({"since": word.since} if word.since else {})},
        message=word.message,
    )


def of_silence(view: NodeView, renewed: float | None) -> list[Sighting]:
    """A detector that last renewed its Lease too long ago. Of a node that is not ready that says nothing new."""
    if renewed is None or not view.ready or view.going:
        return []
    return [
        _plain(
            SILENT,
            subject=ClusterSource.SILENCE,
            transition=f"{renewed:.0f}",
            since=renewed,
            hold_s=0.0,
            source=ClusterSource.SILENCE,
            component="detector",
            condition_type="DetectorLease",
            reason="DetectorSilent",
            signature=SILENT.id,
            fields={},
            message=f"The node's detector has not renewed its Lease since {moment(renewed):%Y-%m-%d %H:%M:%S} UTC: "
            "nobody reads this node's kernel log. Look at its pod there.",
        )
    ]


def looks_like_outage(away: int, total: int, share: float) -> bool:
    """Whether so many nodes are away at once that the control plane, or the network to it, is the likelier cause."""
    return away > max(OUTAGE_FLOOR, share * total)


def bounded(text: str) -> str:
    """A message that may travel: bounded, without control characters (C14)."""
    return _CONTROL.sub(" ", text)[:MESSAGE_MAX]


def _plain(rule: RuleDocument, *, message: str, **facts: object) -> Sighting:
    return Sighting(
        stale=False,
        rule=rule.id,
        verdict=rule.verdict,
        data=rule.data,
        evidence_end=rule.evidence_end,
        workload_alive=rule.workload_alive,
        device_resource=rule.device_resource,
        level=rule.level,
        message=bounded(message),
        **facts,  # type: ignore[arg-type]
    )


def _signature(rule: RuleDocument, groups: dict[str, str]) -> str:
    return "/".join([rule.id, *(f"{key}={groups[key]}" for key in sorted(groups))])[:200]
