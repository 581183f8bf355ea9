"""Every act on nodes and instances, bound to its clients: what the worker registers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from activities.aftermath import AftermathActivity
from activities.allowed import by_policy
from activities.archive import Archive
from activities.auto_scaling import AutoScaling
from activities.await_replacement import AwaitReplacementActivity
from activities.checkpoint import CheckpointActivity
from activities.circumstances import CircumstanceReader
from activities.close import CloseActivity
from activities.cluster import Cluster
from activities.culprit_search import CulpritFinder
from activities.drain import DrainActivity
from activities.follow import FollowActivity
from activities.identify import IdentifyNodeActivity
from activities.jobs import JobActivities
from activities.machines.all import Machines
from activities.managed_groups import ManagedGroups, described_by
from activities.memory import Memory
from activities.mend import MendActivity
from activities.permits import PermitDesk
from activities.preserve import PreserveActivity
from activities.price import PriceActivity
from activities.quarantine import QuarantineActivity
from activities.receipt import ReceiptActivity
from activities.record import RecordActivity
from activities.record_webhook import RecordWebhook
from activities.replace import ReplaceActivity
from activities.verify import VerifyActivity
from contract.fault import FaultReport, RemediationRequest
from contract.policy import Policy


def node_activities(
    cluster: Cluster,
    auto_scaling: AutoScaling,
    policy: Callable[[], Policy],
    desk: PermitDesk,
    hand_over: Callable[[RemediationRequest, tuple[FaultReport, ...]], str],
    record_dir: Path,
    cluster_name: str,
    namespace: str,
    archive: Archive | None = None,
    webhook: RecordWebhook | None = None,
) -> list[Callable[..., Any]]:
    """The acts of RemediateNode, in the order of the runbook."""
    quarantine = QuarantineActivity(cluster, by_policy(policy))
    machines = Machines(cluster, auto_scaling)
    memory = Memory(cluster, namespace)
    replace = ReplaceActivity(cluster, auto_scaling, machines, memory, policy)
    mend = MendActivity(cluster, auto_scaling, memory, policy)
    doubts = CircumstanceReader(auto_scaling.ec2, memory), CulpritFinder(cluster, hand_over)
    identify = IdentifyNodeActivity(
        cluster, auto_scaling, policy, desk.ask, hand_over, cluster_name, *doubts, quarantine.close
    )
    beside_eks = ManagedGroups(by_policy(policy), described_by(auto_scaling), policy)
    jobs = JobActivities(cluster, desk.spend)
    return [
        identify.identify_node,
        identify.prove_reports,
        quarantine.quarantine_node,
        PreserveActivity(cluster, auto_scaling, record_dir).preserve_evidence,
        jobs.find_jobs,
        PriceActivity(cluster, auto_scaling).price_disruption,
        jobs.look_at_gang,
        jobs.request_gang_checkpoint,
        CheckpointActivity(cluster, desk.spend).request_checkpoints,
        DrainActivity(cluster, beside_eks.allowed).drain_node,
        mend.reset_devices,
        mend.reboot_machine,
        replace.survey_group,
        replace.raise_spare,
        replace.lower_spare,
        replace.mark_instance_unhealthy,
        AwaitReplacementActivity(cluster, auto_scaling, machines, record_dir).await_replacement,
        VerifyActivity(cluster, auto_scaling, memory).verify_replacement,
        FollowActivity(cluster).follow_jobs,
        ReceiptActivity(cluster).write_receipts,
        CloseActivity(cluster, machines).close_incident,
        quarantine.give_back_node,
        RecordActivity(record_dir, archive, cluster, webhook).write_record,
        AftermathActivity(cluster, policy).see_aftermath,
    ]
