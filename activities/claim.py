"""The claim of an incident on its node: an annotation that every act reads before it does anything.

Terminate, Reset and a dead worker run no clean-up, so the truth about who holds a node is on the node. The claim
names the run, so a run that was terminated or reset cannot write after its successor took over.
"""

from typing import Any

from pydantic import ValidationError

from activities.cluster import Cluster, Json, retry_on_conflict
from activities.errors import failure
from contract.identity import Ownership, Target
from contract.names import OWNER_ANNOTATION, REPLACES_ANNOTATION, STARTUP_TAINT, ErrorType


def read_owner(node: Json) -> Ownership | None:
    """Who claims the node; None when nobody does, or when the annotation cannot be read."""
    text = annotations(node).get(OWNER_ANNOTATION)
    if not text:
        return None
    try:
        return Ownership.model_validate_json(text)
    except ValidationError:
        return None


def under_verification(node: Json) -> str:
    """The incident that is proving this machine; empty once it was opened to work, or was never a replacement."""
    closed = any(taint["key"] == STARTUP_TAINT for taint in node["spec"].get("taints", []))
    return annotations(node).get(REPLACES_ANNOTATION, "") if closed else ""


def claimed_node(cluster: Cluster, target: Target) -> tuple[Json, Ownership]:
    """The incident's node, still claimed by this very run and still closed.

    Raises:
        ApplicationError: ``NodeGone``, ``HumanVeto``, ``OwnedByAnother`` or ``FencedOut``, each with what was seen.
    """
    node = live_node(cluster, target)
    owner = read_owner(node)
    name, fence = target.identity.node, target.fence
    if owner is None:
        raise failure(
            ErrorType.HUMAN_VETO,
            f"The claim on Node {name} ({OWNER_ANNOTATION}) was removed by somebody: that is a veto, nothing more is "
            "done to it.",
        )
    if owner.incident != fence.incident_id:
        raise failure(
            ErrorType.OWNED_BY_ANOTHER, f"Node {name} is claimed by {owner.incident}: this incident leaves it alone."
        )
    if owner.run != fence.run_id:
        raise failure(
            ErrorType.FENCED_OUT,
            f"A newer run of this incident ({owner.run}) has taken Node {name} over: this one stops.",
        )
    if not node["spec"].get("unschedulable", False):
        raise failure(
            ErrorType.HUMAN_VETO,
            f"Node {name} was uncordoned by somebody: that is a veto, nothing more is done to it.",
        )
    return node, owner


def live_node(cluster: Cluster, target: Target) -> Json:
    """The very Node that was identified.

    Raises:
        ApplicationError: ``NodeGone`` when it is gone or another has its name.
    """
    node = cluster.node(target.identity.node)
    if node is None or node["metadata"]["uid"] != target.identity.node_uid:
        seen = "is gone" if node is None else "was replaced by another of the same name"
        raise failure(
            ErrorType.NODE_GONE,
            f"The Node {target.identity.node} {seen}: there is nothing left to repair here. See in AWS whether "
            f"{target.identity.instance_id or 'its machine'} still runs.",
        )
    return node


def mark_disrupting(cluster: Cluster, target: Target, labelled: dict[str, str] | None = None) -> None:
    """Note on the node that its work is being stopped, so that the budget counts it. Doing it twice is harmless.

    Args:
        cluster: where.
        target: the node.
        labelled: labels to put on it in the same write. The claim remembers what they were, for ``give_back_node``.
    """

    wanted = labelled or {}

    def attempt() -> None:
        node, owner = claimed_node(cluster, target)
        found = labels(node)
        before = {key: found.get(key) for key in wanted} | owner.before.labels
        claim = owner.model_copy(
            update={"disrupting": True, "before": owner.before.model_copy(update={"labels": before})}
        )
        if claim != owner or any(found.get(key) != value for key, value in wanted.items()):
            patch = conditional(node, {OWNER_ANNOTATION: claim.model_dump_json()})
            patch["metadata"]["labels"] = wanted
            cluster.patch_node(target.identity.node, patch)

    retry_on_conflict(attempt)


def conditional(node: Json, annotated: dict[str, str | None], **spec: Any) -> Json:
    """A merge patch that holds only while the node is as it was read."""
    patch: Json = {
        "metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotated},
    }
    if spec:
        patch["spec"] = spec
    return patch


def annotations(thing: Json) -> dict[str, str]:
    """An object's annotations."""
    found: dict[str, str] = thing["metadata"].get("annotations") or {}
    return found


def labels(thing: Json) -> dict[str, str]:
    """An object's labels."""
    found: dict[str, str] = thing["metadata"].get("labels") or {}
    return found
