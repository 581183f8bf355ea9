"""Whether a report comes from whoever may speak for its node (``contract.proof``).

The report and its proof travel on two ways, to Temporal and to the Node, and the report is usually first: so the
proof is waited for, a moment in the act and longer by its retries, which hold no worker.
"""

from datetime import timedelta
from typing import Final

from activities.accusation import is_vouched_for
from activities.claim import annotations
from activities.cluster import Cluster, Json
from activities.errors import failure
from activities.waiting import deadline, overdue, pause
from contract.fault import FaultReport
from contract.identity import NodeIdentity
from contract.names import ErrorType
from contract.proof import annotation_of

_LOOKS: Final = 15
_BETWEEN_S: Final = 0.2


def nearly_proven(
    cluster: Cluster,
    identity: NodeIdentity,
    reports: tuple[FaultReport, ...],
    patience: timedelta,
    just_read: Json | None = None,
) -> tuple[FaultReport, ...]:
    """The reports whose digest the Node carries; none of them once ``patience`` is over.

    ``just_read`` is the Node as it was a moment ago, for the first look.

    Raises:
        ApplicationError: ``NotProven`` when none is proven yet and the patience lasts; otherwise as the API.
    """
    for look in range(_LOOKS):
        if look:
            pause(_BETWEEN_S)
        node = just_read if just_read and not look else cluster.node(identity.node)
        if node is None or node["metadata"]["uid"] != identity.node_uid:
            return ()
        if proven := tuple(report for report in reports if is_vouched_for(report, node, annotations(node))):
            return proven
    if not reports or overdue(deadline(patience)):
        return ()
    raise failure(
        ErrorType.NOT_PROVEN,
        f"Node {identity.node} does not carry the digest of this report yet ({annotation_of(reports[0].source)}): "
        "its detector writes it. It is looked again.",
    )


def unproven(reports: tuple[FaultReport, ...], patience: timedelta) -> str:
    """Why a report is refused, and what to look at."""
    first = reports[0]
    return (
        f"Refused: for {patience} Node {first.node} did not carry the digest of this report in "
        f"{annotation_of(first.source)}, so nobody who may speak for it says that it has {first.reason}. Nothing was "
        "done. If the fault is real, see in the detector's log whether it may write its own Node; if it is not, "
        "somebody reports faults with Temporal's credentials."
    )
