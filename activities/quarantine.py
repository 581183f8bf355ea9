"""Closing a node to new work, and giving it back exactly as it was."""

import hashlib
from datetime import UTC, datetime
from typing import Final

from temporalio import activity

from activities.allowed import Allowed, always
from activities.claim import annotations, conditional, live_node, read_owner
from activities.cluster import Cluster, Json, retry_on_conflict
from activities.errors import failure
from activities.lifecycle import REPAIRING, Lifecycle
from contract.acts import GiveBackNode, GivenBack, Quarantined, QuarantineNode
from contract.identity import NodeBefore, Ownership
from contract.names import (
    DO_NOT_DISRUPT_ANNOTATION,
    HANDLED_ANNOTATION,
    INCIDENT_LABEL,
    OWNER_ANNOTATION,
    QUARANTINE_TAINT,
    SCALE_DOWN_DISABLED_ANNOTATION,
    SKIP_ANNOTATION,
    ActivityName,
    ErrorType,
)

_MARKERS: Final = {SCALE_DOWN_DISABLED_ANNOTATION: "true", DO_NOT_DISRUPT_ANNOTATION: "true"}
"""They keep other controllers off a node that an incident works on."""
_TAINT_VALUE_MAX: Final = 63


class QuarantineActivity:
    """The acts ``quarantine_node`` and ``give_back_node``."""

    def __init__(self, cluster: Cluster, allowed: Allowed = always) -> None:
        """``allowed`` raises once the policy lets the node be touched no more."""
        self._cluster = cluster
        self._allowed = allowed
        self._lifecycle = Lifecycle(cluster)

    @activity.defn(name=ActivityName.QUARANTINE_NODE, no_thread_cancel_exception=True)
    def quarantine_node(self, argument: QuarantineNode) -> Quarantined:
        """Claim, cordon, taint and label the node in one conditional write.

        Raises:
            ApplicationError: ``NodeGone``, ``PolicyForbids`` (opted out, or the policy of now), ``OwnedByAnother``,
                ``HumanVeto``.
        """
        return self.close(argument)

    def close(self, argument: QuarantineNode, just_read: Json | None = None) -> Quarantined:
        """The same, from within another act that has ``just_read`` the Node: it may be out of date, and is tried first.

        Raises:
            ApplicationError: as ``quarantine_node``.
        """
        self._allowed(argument.target.identity, argument.drill)
        known = [just_read] if just_read else []
        node: Json
        claim: Ownership
        node, claim = retry_on_conflict(
            lambda: self._close(argument, known.pop() if known else live_node(self._cluster, argument.target))
        )
        self._lifecycle.tell(node, **{REPAIRING: True})
        self._cluster.record_event(
            node,
            "NodemendQuarantined",
            f"Closed to new work: {argument.reason}. Incident {claim.incident}.",
            key=_event_key(claim, "quarantined"),
            warning=True,
        )
        return Quarantined(epoch=claim.epoch, was_unschedulable=claim.before.unschedulable, at=claim.since)

    def _close(self, argument: QuarantineNode, node: Json) -> tuple[Json, Ownership]:
        target = argument.target
        name, closed = target.identity.node, bool(node["spec"].get("unschedulable", False))
        if SKIP_ANNOTATION in annotations(node):
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"Node {name} carries {SKIP_ANNOTATION}: Nodemend leaves it alone until that annotation is removed.",
            )
        owner = read_owner(node)
        if owner and owner.incident != target.fence.incident_id:
            raise failure(
                ErrorType.OWNED_BY_ANOTHER,
                f"Node {name} is claimed by {owner.incident}: this incident leaves it alone.",
            )
        if owner and not closed:
            raise failure(
                ErrorType.HUMAN_VETO,
                f"Node {name} was uncordoned by somebody: that is a veto, nothing more is done to it.",
            )
        if owner and owner.run == target.fence.run_id:
            return node, owner
        claim = _new_claim(argument, node, owner)
        taint = {"key": QUARANTINE_TAINT, "value": _taint_value(argument.rule), "effect": "NoSchedule"}
        patch = conditional(
            node,
            {OWNER_ANNOTATION: claim.model_dump_json(), **_MARKERS},
            unschedulable=True,
            # The whole list, conditional on the version that was read: a strategic merge by key alone would fold
            # two taints of one key and different effects into one.
            taints=[*_taints_of_others(node), taint],
        )
        patch["metadata"]["labels"] = {INCIDENT_LABEL: "true"}
        return self._cluster.patch_node(name, patch), claim

    @activity.defn(name=ActivityName.GIVE_BACK_NODE, no_thread_cancel_exception=True)
    def give_back_node(self, argument: GiveBackNode) -> GivenBack:
        """Remove what is ours, restore what was before, and leave on the node what was said.

        Raises:
            ApplicationError: ``OwnedByAnother`` or ``FencedOut`` when it is no longer this run's to give.
        """
        given: GivenBack = retry_on_conflict(lambda: self._give_back(argument))
        return given

    def _give_back(self, argument: GiveBackNode) -> GivenBack:
        target = argument.target
        node = self._cluster.node(target.identity.node)
        if node is None or node["metadata"]["uid"] != target.identity.node_uid:
            return GivenBack(changed=False, unschedulable=False)
        owner, closed = read_owner(node), bool(node["spec"].get("unschedulable", False))
        if owner is None:
            return GivenBack(changed=False, unschedulable=closed)
        if owner.incident != target.fence.incident_id:
            raise failure(ErrorType.OWNED_BY_ANOTHER, f"Node {target.identity.node} is claimed by {owner.incident}.")
        # After a veto even an earlier run's marks are cleared away: nobody works on the node any more.
        if owner.run != target.fence.run_id and closed:
            raise failure(ErrorType.FENCED_OUT, f"A newer run ({owner.run}) holds Node {target.identity.node}.")
        # Never more closed than now: somebody may have uncordoned what was closed before us.
        stays_closed = owner.before.unschedulable and closed
        patch = conditional(
            node,
            {
                OWNER_ANNOTATION: None,
                **{key: owner.before.annotations.get(key) for key in _MARKERS},
                HANDLED_ANNOTATION: f"{target.identity.boot_id}/{argument.handled_seq}",
            },
            unschedulable=stays_closed or None,
            taints=_taints_of_others(node) or None,
        )
        patch["metadata"]["labels"] = {INCIDENT_LABEL: None, **owner.before.labels}
        self._cluster.patch_node(target.identity.node, patch)
        self._lifecycle.forget(node)
        self._cluster.record_event(
            node,
            "NodemendGaveBack",
            f"Given back by {argument.by}: {argument.reason} Known against it: rule {owner.rule}, since "
            f"{owner.since:%Y-%m-%d %H:%M} UTC.",
            key=_event_key(owner, "gave-back"),
        )
        return GivenBack(changed=True, unschedulable=stays_closed)


def _new_claim(argument: QuarantineNode, node: Json, owner: Ownership | None) -> Ownership:
    """A first claim, or one that takes over from an earlier run and keeps what was there before that."""
    found = annotations(node)
    before = NodeBefore(
        unschedulable=bool(node["spec"].get("unschedulable", False)),
        annotations={key: found[key] for key in _MARKERS if key in found},
    )
    return Ownership(
        incident=argument.target.fence.incident_id,
        run=argument.target.fence.run_id,
        epoch=owner.epoch + 1 if owner else 1,
        rule=argument.rule,
        since=owner.since if owner else datetime.now(UTC),
        before=owner.before if owner else before,
        disrupting=owner.disrupting if owner else False,
    )


def _taints_of_others(node: Json) -> list[Json]:
    return [taint for taint in node["spec"].get("taints", []) if taint["key"] != QUARANTINE_TAINT]


def _taint_value(rule: str) -> str:
    """A rule's id as a taint value: letters, digits, dashes, dots and underscores (Kubernetes label values)."""
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in rule)
    return kept[:_TAINT_VALUE_MAX].strip("-_.")


def _event_key(claim: Ownership, what: str) -> str:
    digest = hashlib.sha256(f"{claim.incident}/{claim.run}/{what}".encode()).hexdigest()[:12]
    return f"nodemend-{what}-{digest}"
