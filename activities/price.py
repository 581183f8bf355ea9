"""What an approval costs, found out when one is asked for. It reads and disturbs nothing: no job is asked to save."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.auto_scaling import AutoScaling
from activities.checkpoint_ask import accelerators, is_running
from activities.checkpoint_declared import declaration_of, is_declared
from activities.checkpoint_talk import Talk
from activities.claim import labels
from activities.cluster import Cluster, Json
from activities.gang_reader import job_object, pods_of, read_attempts, why_dead
from activities.gangs import Gang, gang_of, is_work
from activities.identities import is_ready
from contract.acts import LIST_MAX
from contract.identity import MachineKind, NodeIdentity
from contract.names import INSTANCE_TYPE_LABEL, NODEGROUP_LABEL, ActivityName
from contract.price import JobPrice, Price, PriceDisruption, total_idle

_LOOKED_AT: Final = 20
"""Other nodes whose pods are read: whoever decides wants to know whether there is room, not how much in a thousand."""


class PriceActivity:
    """The act ``price_disruption``."""

    def __init__(self, cluster: Cluster, auto_scaling: AutoScaling, talk: Talk | None = None) -> None:
        self._cluster = cluster
        self._auto_scaling = auto_scaling
        self._talk = talk or Talk(cluster)

    @activity.defn(name=ActivityName.PRICE_DISRUPTION, no_thread_cancel_exception=True)
    def price_disruption(self, argument: PriceDisruption) -> Price:
        """What stops, what is lost, where there is room, and what stands idle meanwhile.

        Raises:
            ApplicationError: ``Unreachable`` or ``AccessDenied``.
        """
        identity = argument.target.identity
        work = [pod for pod in self._cluster.pods_on(identity.node) if is_work(pod)]
        found: dict[Gang, list[Json]] = {}
        for pod in work:
            found.setdefault(gang_of(pod), []).append(pod)
        jobs = [self._job(gang, pods) for gang, pods in sorted(found.items(), key=lambda item: item[0].job)]
        jobs.sort(key=lambda job: (not job.ends, job.nodes <= 1, not job.declared))
        others = self._others(identity)
        held = sum(accelerators(pod) for pod in work if is_running(pod))
        return Price(
            at=datetime.now(UTC),
            jobs=tuple(jobs[:LIST_MAX]),
            jobs_total=len(jobs),
            pods=len(work),
            group=identity.group or identity.nodegroup or "",
            others=len(others),
            free=sum(self._is_free(node) for node in others[:_LOOKED_AT]),
            idle=total_idle(sum(identity.devices.values()), held, [job.accelerators for job in jobs if not job.alive]),
        )

    def _job(self, gang: Gang, here: Sequence[Json]) -> JobPrice:
        job = job_object(self._cluster, gang)
        left = read_attempts(self._cluster, gang, job, here)
        pods = [pod for pod in pods_of(self._cluster, gang) if is_work(pod)] if gang.gang else list(here)
        counted = left.left is not None
        return JobPrice(
            job=gang.job,
            pods=len(here),
            nodes=max(1, len({pod["spec"].get("nodeName") for pod in pods} - {None})),
            alive=not why_dead(job, pods),
            accelerators=sum(accelerators(pod) for pod in pods),
            attempt=left.used + 1 if counted else None,
            attempts=left.used + max(0, left.left) + 1 if left.left is not None else None,
            ends=left.ends,
            why=left.why,
            **self._checkpoint(pods),
        )

    def _checkpoint(self, pods: Iterable[Json]) -> "dict[str, object]":
        """The newest checkpoint, read as the job declares it, from whichever pod is first; never asked for."""
        declaring = sorted((pod for pod in pods if is_declared(pod)), key=lambda pod: str(pod["metadata"]["name"]))
        if not declaring:
            return {}
        speaker = next((pod for pod in declaring if is_running(pod)), None)
        try:
            declared = declaration_of(speaker or declaring[0])
            if speaker is None and not declared.manifests.startswith("s3://"):
                return {"declared": True, "unread": "none of its pods runs"}
            known = self._talk.known(speaker or declaring[0], declared)
        except (ValueError, ApplicationError) as error:
            # The price informs a decision; what of it cannot be read is said, and holds nothing up.
            return {"declared": True, "unread": str(error)}
        if known.newest is None:
            return {"declared": True, "unread": known.problem or "it has none yet"}
        return {"declared": True, "step": known.newest.step, "saved_at": known.newest.time}

    def _others(self, identity: NodeIdentity) -> list[Json]:
        """Nodes beside this one that its work might go to: of its group, else of its kind of machine."""
        nodes = [node for node in self._cluster.nodes() if node["metadata"]["name"] != identity.node]
        if identity.kind is MachineKind.AUTO_SCALING and identity.group:
            groups = self._auto_scaling.groups([identity.group])
            members = {one["InstanceId"] for group in groups for one in group.get("Instances", [])}
            return [node for node in nodes if node["spec"].get("providerID", "").rpartition("/")[2] in members]
        key, value = (
            (NODEGROUP_LABEL, identity.nodegroup)
            if identity.nodegroup
            else (INSTANCE_TYPE_LABEL, identity.instance_type)
        )
        return [node for node in nodes if value and labels(node).get(key) == value]

    def _is_free(self, node: Json) -> bool:
        if node["spec"].get("unschedulable") or not is_ready(node):
            return False
        return not any(accelerators(pod) for pod in self._cluster.pods_on(node["metadata"]["name"]) if is_work(pod))
