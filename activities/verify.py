"""Proving that a replacement is whole before work may land on it: rules V1 to V14, as far as they can be read."""

from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio import activity

from activities.claim import annotations, conditional, labels
from activities.cluster import Cluster, Json, retry_on_conflict
from activities.errors import failure
from activities.identify import devices, is_ready
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import Replacement, Verified, VerifyReplacement
from contract.names import (
    INSTANCE_TYPE_LABEL,
    REPLACES_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    STARTUP_TAINT,
    ZONE_LABEL,
    ActivityName,
    ErrorType,
)

_LOOK_EVERY_S: Final = 0.5
_FRESH_LEASE: Final = timedelta(seconds=40)
"""Older than that the node lifecycle controller calls the node Unknown."""


class VerifyActivity:
    """The act ``verify_replacement``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @activity.defn(name=ActivityName.VERIFY_REPLACEMENT, no_thread_cancel_exception=True)
    def verify_replacement(self, argument: VerifyReplacement) -> Verified:
        """Look until every check holds for the whole soak time; then open the node to work.

        Raises:
            ApplicationError: ``NotVerified`` past the deadline, with what is missing.
        """
        end = deadline(argument.deadline)
        whole_since: datetime | None = None
        while True:
            go_on()
            now = datetime.now(UTC)
            node = self._cluster.node(argument.replacement.node)
            missing = self._missing(argument, node, now)
            if missing or node is None:
                whole_since = None
            else:
                whole_since = whole_since or now
                if now - whole_since >= argument.soak:
                    retry_on_conflict(lambda: self._open(argument))
                    return _verified(argument, node, whole_since)
            if overdue(end):
                raise failure(ErrorType.NOT_VERIFIED, _explanation(argument.replacement, missing))
            soaked = f"whole since {whole_since:%H:%M:%S}" if whole_since else "; ".join(missing)
            report_progress({"node": argument.replacement.node, "state": soaked})
            pause(_LOOK_EVERY_S)

    def _missing(self, argument: VerifyReplacement, node: Json | None, now: datetime) -> list[str]:
        if node is None:
            return ["its Node is gone"]
        missing = missing_in(node, argument)
        lease = self._cluster.node_lease(argument.replacement.node)
        renewed = lease["spec"].get("renewTime") if lease else None
        if renewed is None or now - datetime.fromisoformat(renewed) > _FRESH_LEASE:
            missing.append("its kubelet's Lease is not renewed")
        return missing

    def _open(self, argument: VerifyReplacement) -> None:
        node = self._cluster.node(argument.replacement.node)
        if node is None or missing_in(node, argument):
            raise failure(
                ErrorType.NOT_VERIFIED, _explanation(argument.replacement, ["it changed while it was opened to work"])
            )
        taints = [taint for taint in node["spec"].get("taints", []) if taint["key"] != STARTUP_TAINT]
        patch = conditional(node, {SCALE_DOWN_DISABLED_ANNOTATION: None}, taints=taints or None)
        self._cluster.patch_node(argument.replacement.node, patch)


def missing_in(node: Json, argument: VerifyReplacement) -> list[str]:
    """What keeps a Node object from being the whole replacement of what failed; empty when nothing does. Pure."""
    identity, replacement = argument.target.identity, argument.replacement
    known, missing = labels(node), []
    if node["metadata"]["uid"] != replacement.node_uid:
        missing.append("another Node took its name")
    if node["spec"].get("providerID", "").rpartition("/")[2] != replacement.instance_id:
        missing.append(f"it is not {replacement.instance_id} any more")
    if replacement.node_uid == identity.node_uid or replacement.instance_id == identity.instance_id:
        missing.append("it is the machine that failed")
    if annotations(node).get(REPLACES_ANNOTATION) != argument.target.fence.incident_id:
        missing.append("its claim by this incident was removed")
    for key, wanted in ((ZONE_LABEL, identity.zone), (INSTANCE_TYPE_LABEL, identity.instance_type)):
        if wanted and known.get(key) != wanted:
            missing.append(f"{key} is {known.get(key)}, the failed node's was {wanted}")
    if not is_ready(node):
        missing.append("it is not Ready")
    allocatable = {name: int(amount) for name, amount in node["status"].get("allocatable", {}).items() if "/" in name}
    for name, count in identity.devices.items():
        if allocatable.get(name, 0) != count:
            missing.append(f"it has {allocatable.get(name, 0)} of {count} {name}")
    return missing


def _verified(argument: VerifyReplacement, node: Json, whole_since: datetime) -> Verified:
    identity, replacement = argument.target.identity, argument.replacement
    found = devices(node)
    checks = [
        f"{replacement.instance_id} is another machine than {identity.instance_id}",
        f"{replacement.instance_type} in {replacement.zone}, as before",
        f"Ready with a fresh Lease for {argument.soak.total_seconds():g} s",
        *(f"{found.get(name, 0)} of {count} {name}" for name, count in identity.devices.items()),
        "the startup taint is removed",
    ]
    return Verified(checks=tuple(checks), devices=found, ready_since=whole_since)


def _explanation(replacement: Replacement, missing: list[str]) -> str:
    return (
        f"{replacement.node} ({replacement.instance_id}) is not proven whole: {'; '.join(missing) or 'no time left'}. "
        "It keeps its startup taint, so no work lands on it. Mend it and press `resume`, or press `abort` to leave it "
        "as replaced-unverified."
    )
