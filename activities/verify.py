"""Proving that a replacement is whole before work may land on it: rules V1 to V14.

What cannot be proven is handled as a failed repair, remembered, and counted against the group; never silent success.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from temporalio import activity

from activities.auto_scaling import AutoScaling
from activities.claim import annotations, conditional, labels
from activities.cluster import Cluster, Json, retry_on_conflict
from activities.errors import failure
from activities.identities import devices
from activities.memory import Memory, known_bad
from activities.node_facts import host_of
from activities.node_jobs import JobState, job_name, node_job, run_once
from activities.objects import Objects
from activities.placement import placement_of
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from activities.whole import findings_on, heard_of_log, missing_daemons, missing_on, stale_lease
from contract.acts import Replacement, Verified, VerifyReplacement
from contract.memory import FailedMachine, Failure
from contract.names import (
    INSTANCE_TYPE_LABEL,
    REPLACES_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    SERIALS_ANNOTATION,
    STARTUP_TAINT,
    ZONE_LABEL,
    ActivityName,
    ErrorType,
)
from contract.replacement import ReturningMachine
from contract.words import counted

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import InstanceTypeDef

_LOOK_EVERY_S: Final = 0.5
_NO_PROBE: Final = JobState(finished=True, succeeded=True)


class VerifyActivity:
    """The act ``verify_replacement``."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling, memory: Memory) -> None:
        self._cluster = cluster
        self._auto_scaling = auto_scaling
        self._memory = memory
        self._objects = Objects(cluster)

    @activity.defn(name=ActivityName.VERIFY_REPLACEMENT, no_thread_cancel_exception=True)
    def verify_replacement(self, argument: VerifyReplacement) -> Verified:
        """Look until every check holds for the whole soak time and the probe succeeded; then open the node to work.

        Raises:
            ApplicationError: ``NotVerified`` past the deadline, or at once where waiting mends nothing, with what is
                missing.
        """
        end = deadline(argument.deadline)
        instance = self._instance(argument.replacement)
        network_node = self._auto_scaling.ec2.network_node(argument.replacement.instance_id) if instance else ""
        returning, for_good = self._returning(argument, instance)
        neighbour = self._neighbour(network_node)
        for_good += misplaced(argument, instance)
        whole_since: datetime | None = None
        while True:
            go_on()
            now = datetime.now(UTC)
            node = self._cluster.node(argument.replacement.node)
            missing = self._missing(argument, node, now)
            whole_since = None if missing else whole_since or now
            soaked = whole_since is not None and now - whole_since >= argument.soak
            # Last of all, for it takes the devices: a machine that is not whole needs no probe to say so.
            probe = self._probe(argument) if soaked else JobState(finished=False)
            if probe.finished and not probe.succeeded:
                for_good.append(f"{probe.says} (V9)")
            if for_good or overdue(end):
                self._remember_failure(argument, instance, network_node, for_good or missing)
                raise failure(ErrorType.NOT_VERIFIED, _explanation(argument.replacement, for_good + missing))
            if node is not None and whole_since and probe.finished:
                retry_on_conflict(lambda: self._open(argument))
                return _verified(argument, node, whole_since, [probe.says, returning, neighbour])
            state = f"whole since {whole_since:%H:%M:%S}" if whole_since else "; ".join(missing)
            report_progress({"node": argument.replacement.node, "state": state, "probe": probe.says})
            pause(_LOOK_EVERY_S)

    def _missing(self, argument: VerifyReplacement, node: Json | None, now: datetime) -> list[str]:
        if node is None:
            return ["its Node is gone"]
        name = argument.replacement.node
        return [
            *missing_in(node, argument),
            *stale_lease(self._cluster, name, now),
            *missing_daemons(self._cluster, name, argument.rules.required_daemon_sets),
        ]

    def _probe(self, argument: VerifyReplacement) -> JobState:
        job, replacement = argument.rules.probe, argument.replacement
        if job is None:
            return _NO_PROBE
        name = job_name("probe", argument.target, replacement.node_uid)
        body = node_job(job, name, replacement.node, argument.target.identity.devices, privileged=False)
        return run_once(self._objects, job, body)

    def _instance(self, replacement: Replacement) -> "InstanceTypeDef | None":
        if not replacement.instance_id.startswith("i-"):
            return None
        return self._auto_scaling.ec2.instance(replacement.instance_id)

    def _returning(self, argument: VerifyReplacement, instance: "InstanceTypeDef | None") -> tuple[str, list[str]]:
        """Whether it is a machine that failed before: a remark, or what speaks against it for good (V10)."""
        node = self._cluster.node(argument.replacement.node)
        if node is None:
            return "", []
        keys = {argument.replacement.instance_id, *names_of(node, instance)}
        if same := sorted(keys & set(argument.serials)):
            return "", [f"it has a device that just failed ({', '.join(same)}) (V10)"]
        bad = known_bad(self._memory.all(), keys)
        if bad is None:
            return "", []
        says = f"it is a machine that failed before: {bad.reason} on {bad.at:%Y-%m-%d} as {bad.node} (V10)"
        if argument.rules.returning_machine is ReturningMachine.WATCH:
            return f"{says}, and the policy takes it all the same", []
        return "", [says]

    def _neighbour(self, network_node: str) -> str:
        """A remark where it hangs on what a failed machine hung on: many do, so that it is watched and not refused."""
        failed = [m for m in self._memory.all() if network_node and m.network_node == network_node]
        if not failed:
            return ""
        last = failed[-1]
        remembered = counted(len(failed), "failure there is", "failures there are")
        return (
            f"it hangs on network node {network_node}, as {last.instance_id or last.node} did, which failed on "
            f"{last.at:%Y-%m-%d} ({last.reason}); {remembered} remembered (V10)"
        )

    def _remember_failure(
        self, argument: VerifyReplacement, instance: "InstanceTypeDef | None", network_node: str, missing: list[str]
    ) -> None:
        replacement, identity = argument.replacement, argument.target.identity
        self._memory.remember(
            FailedMachine(
                at=datetime.now(UTC),
                failure=Failure.NOT_VERIFIED,
                node=replacement.node,
                instance_id=replacement.instance_id,
                group=identity.group or "",
                zone=replacement.zone,
                host=host_of(instance),
                network_node=network_node,
                reason="; ".join(missing)[:300] or "no time left",
                incident=argument.target.fence.incident_id,
            )
        )

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
    missing += missing_on(node, identity.devices, argument.condition_types)
    return missing + findings_on(node)


def misplaced(argument: VerifyReplacement, instance: "InstanceTypeDef | None") -> list[str]:
    """What it is to be, or to share with its gang's machines, and is not; no waiting mends that (V2). Pure."""
    if instance is None:
        return []
    here = placement_of(instance)
    image, wanted_image = instance.get("ImageId", ""), argument.image
    # One that was launched before the template changed, or out of a warm pool, may run what nobody wants any more.
    other = [f"it runs {image}, and its group launches {wanted_image} (V2)"] if wanted_image not in ("", image) else []
    return other + [
        f"its {what} is {here.get(what, 'none')}, the failed machine's was {wanted} (V2)"
        for what, wanted in argument.target.identity.placement.items()
        if here.get(what) != wanted
    ]


def names_of(node: Json, instance: "InstanceTypeDef | None") -> set[str]:
    """Everything by which a machine may be known again: hardware id, host, serial numbers of its devices. Pure."""
    serials = annotations(node).get(SERIALS_ANNOTATION, "").split(",")
    return {host_of(instance), *(serial.strip() for serial in serials)} - {""}


def _verified(argument: VerifyReplacement, node: Json, whole_since: datetime, remarks: list[str]) -> Verified:
    identity, replacement = argument.target.identity, argument.replacement
    found = devices(node)
    checks = [
        f"{replacement.instance_id} is another machine than {identity.instance_id or identity.node}",
        f"{replacement.instance_type} in {replacement.zone}, as before",
        *(f"in {what} {name}, as before" for what, name in identity.placement.items()),
        f"Ready with a fresh Lease for {argument.soak.total_seconds():g} s",
        *(f"{found.get(name, 0)} of {count} {name}" for name, count in identity.devices.items()),
        heard_of_log(node),
        *(f"DaemonSet {name} is ready on it" for name in argument.rules.required_daemon_sets),
        *(remark for remark in remarks if remark),
        "the startup taint is removed",
    ]
    return Verified(checks=tuple(checks), devices=found, ready_since=whole_since)


def _explanation(replacement: Replacement, missing: list[str]) -> str:
    return (
        f"{replacement.node} ({replacement.instance_id}) is not proven whole: {'; '.join(missing) or 'no time left'}. "
        "It keeps its startup taint, so no work lands on it. Mend it and press `resume`, or press `abort` to leave it "
        "as replaced-unverified."
    )
