"""Every act on nodes and instances, bound to its clients: what the worker registers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from activities.auto_scaling import AutoScaling
from activities.await_replacement import AwaitReplacementActivity
from activities.checkpoint import CheckpointActivity
from activities.close import CloseActivity
from activities.cluster import Cluster
from activities.drain import DrainActivity
from activities.identify import IdentifyNodeActivity
from activities.permits import PermitDesk
from activities.preserve import PreserveActivity
from activities.quarantine import QuarantineActivity
from activities.record import RecordActivity
from activities.replace import ReplaceActivity
from activities.verify import VerifyActivity
from contract.policy import Policy


def node_activities(
    cluster: Cluster,
    auto_scaling: AutoScaling,
    policy: Callable[[], Policy],
    desk: PermitDesk,
    record_dir: Path,
    cluster_name: str,
) -> list[Callable[..., Any]]:
    """The acts of RemediateNode, in the order of the runbook."""
    quarantine = QuarantineActivity(cluster)
    replace = ReplaceActivity(cluster, auto_scaling, policy)
    return [
        IdentifyNodeActivity(cluster, auto_scaling, policy, desk.ask, cluster_name).identify_node,
        quarantine.quarantine_node,
        PreserveActivity(cluster, auto_scaling, record_dir).preserve_evidence,
        CheckpointActivity(cluster, desk.spend).request_checkpoints,
        DrainActivity(cluster).drain_node,
        replace.survey_group,
        replace.mark_instance_unhealthy,
        AwaitReplacementActivity(cluster, auto_scaling).await_replacement,
        VerifyActivity(cluster).verify_replacement,
        CloseActivity(cluster, auto_scaling).close_incident,
        quarantine.give_back_node,
        RecordActivity(record_dir).write_record,
    ]
