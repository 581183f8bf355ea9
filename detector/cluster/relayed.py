"""Whole reports in a Node's annotation (``NODEMEND_DELIVERY=node``): what a detector without Temporal hands on.

The admission policy lets only that node's own detector write there, so it may speak of its own node alone; what is
about another machine is refused here already. The proof of origin is the detector's own annotation of digests.
"""

from functools import lru_cache

from contract.fault import FaultReport
from contract.names import KERNEL_LOG
from detector.carried import carried_reports
from detector.cluster.tracks import Track
from detector.cluster.view import NodeView


def reports_in(view: NodeView, cluster: str) -> tuple[list[FaultReport], list[str]]:
    """The reports to hand on, and why others are not. Pure."""
    if not view.findings:
        return [], []
    found = _parsed(view.findings)
    taken: list[FaultReport] = []
    refused: list[str] = []
    if not found:
        refused.append(f"The annotation of Node {view.name} holds no readable report: is its detector of our version?")
    for report in found:
        if why := _why_not(report, view, cluster):
            refused.append(f"A report in the annotation of Node {view.name} is left out: {why}")
        else:
            taken.append(report if report.instance_id else report.model_copy(update={"instance_id": view.instance_id}))
    return taken, refused


def track_of(known: Track | None, report: FaultReport) -> Track:
    """The track of a report: its own numbers, and what of it was sent."""
    track = Track(
        seq=report.seq,
        last_seq=report.newest_seq,
        transition="",
        times=report.count,
        first_seen=report.first_seen.timestamp(),
        last_seen=report.last_seen.timestamp(),
    )
    return track._replace(sent_times=known.sent_times, sent_at=known.sent_at) if known else track


def _why_not(report: FaultReport, view: NodeView, cluster: str) -> str:
    if report.source != KERNEL_LOG:
        return f"its source is {report.source!r}, and a node's detector reads the kernel log."
    if (report.cluster, report.node) != (cluster, view.name):
        return f"it is about {report.cluster}/{report.node}, and may speak of {cluster}/{view.name} alone."
    if report.instance_id and view.instance_id and report.instance_id != view.instance_id:
        return f"it is about {report.instance_id}, and this Node is {view.instance_id}."
    return ""


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[FaultReport, ...]:
    """Looked at again and again while it is there, and the same most of the time."""
    return tuple(carried_reports(text))
