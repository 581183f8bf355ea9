"""Second witnesses of a doubtful line, as far as what one is given has any: the cluster and AWS, or one's own word.

A captured log has none in it: whatever else stands in the kernel log is the same witness (``workflows.corroborate``).
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from contract.corroboration import Circumstances, Corroboration
from contract.fault import FaultReport, Verdict
from contract.identity import NodeIdentity
from contract.names import DEVICE_COUNTERS, ClusterSource

if TYPE_CHECKING:
    from activities.auto_scaling import AutoScaling
    from activities.cluster import Cluster

_ASSUMED: Final = "Taken for granted (--witness {kind})"
NO_WITNESS: Final = (
    "No second witness was looked for: the device's counters, EC2, another source or the device's past may confirm a "
    "doubtful line, and then it is acted on. See what would be done with --witness."
)
LOOKED: Final = (
    "Second witnesses were looked for in the cluster and in EC2, and not in the device's counters: the node's own "
    "detector reads them."
)


class Around(NamedTuple):
    """What is known around a finding, as ``assess`` takes it."""

    circumstances: Circumstances = Circumstances()
    findings: tuple[FaultReport, ...] = ()
    """Of other sources than the kernel log."""


def is_in_doubt(report: FaultReport) -> bool:
    """Whether a second witness matters for it."""
    return report.verdict is Verdict.AMBIGUOUS or report.corroboration is not None


def assumed(kinds: Sequence[Corroboration], reports: Sequence[FaultReport]) -> Around:
    """Witnesses that one says there were, for each finding that is in doubt."""
    doubtful = [report for report in reports if is_in_doubt(report)]
    if not doubtful:
        return Around()
    said = {kind: _ASSUMED.format(kind=kind) for kind in kinds}
    ec2, past = said.get(Corroboration.EC2), said.get(Corroboration.RECURRENCE)
    sources = {Corroboration.COUNTERS: str(DEVICE_COUNTERS), Corroboration.OTHER_SOURCE: str(ClusterSource.NOT_READY)}
    return Around(
        Circumstances(ec2=(ec2,) if ec2 else (), ec2_asked=bool(ec2), recurrence=(f"{past}.",) if past else ()),
        tuple(
            report.model_copy(
                update={
                    "source": source,
                    "rule": "taken-for-granted",
                    "reason": f"{kind}",
                    "message": f"{said[kind]}.",
                    "signature": f"{kind}/{report.signature}",
                }
            )
            for kind, source in sources.items()
            if kind in said
            for report in doubtful
        ),
    )


def looked_for(
    cluster: "Cluster",
    auto_scaling: "AutoScaling",
    node: dict[str, Any],
    identity: NodeIdentity,
    job: str,
    report: FaultReport,
) -> Around:
    """What the cluster and EC2 say of the machine now: what watch-cluster would report, and what is remembered."""
    from activities.circumstances import CircumstanceReader
    from activities.memory import Memory
    from detector.catalogue import catalogue
    from detector.cluster.documents import load_rules
    from detector.cluster.settings import WatchSettings
    from detector.cluster.sightings import of_conditions, of_readiness, of_taints
    from detector.cluster.tracks import follow, report_of
    from detector.cluster.view import Lens

    rules, now = load_rules(), datetime.now(UTC).timestamp()
    view = Lens(rules).view(node)
    hold_s = WatchSettings.model_fields["not_ready_s"].default
    sightings = [
        *of_readiness(view, hold_s),
        *of_conditions(view, rules, catalogue().match, now),
        *of_taints(view, rules),
    ]
    held = [one for one in sightings if not one.stale and (one.since is None or now - one.since >= one.hold_s)]
    memory = Memory(cluster, os.environ.get("NODEMEND_NAMESPACE", "default"))
    known = CircumstanceReader(auto_scaling.ec2, memory).read(identity, (report,), lambda: job)
    found = tuple(report_of(view, one, follow(None, view.uid, one, now), report.cluster, "") for one in held)
    return Around(known, found)
