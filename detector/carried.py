"""Findings that the Node itself carries, where nodes hold no Temporal credentials (``NODEMEND_DELIVERY=node``). Pure.

The annotation is bounded: what does not fit is left out from the least grave on, and of equals the oldest.
"""

import json
from typing import Final

from pydantic import ValidationError

from contract.fault import FaultReport, Verdict

FINDINGS_MAX: Final = 16
BYTES_MAX: Final = 48 * 1024
"""Of the 256 KiB that all annotations of an object may have (Kubernetes, ``TotalAnnotationSizeLimitB``)."""
_RANK: Final = {verdict: rank for rank, verdict in enumerate(Verdict)}


def carried_reports(value: str) -> list[FaultReport]:
    """The findings of an annotation, oldest first; what cannot be read is left out."""
    try:
        found = json.loads(value or "[]")
    except ValueError:
        return []
    reports = []
    for item in found if isinstance(found, list) else []:
        try:
            reports.append(FaultReport.model_validate(item))
        except ValidationError:
            continue
    return reports


def with_report(value: str, new: FaultReport) -> str:
    """The annotation's value with a finding added, or brought up to date."""
    reports = [known for known in carried_reports(value) if known.key != new.key]
    reports.append(new)
    while len(reports) > FINDINGS_MAX or len(_encoded(reports)) > BYTES_MAX:
        if len(reports) == 1:
            break
        reports.remove(max(reports, key=lambda report: (_RANK[report.verdict], -report.last_seen.timestamp())))
    return _encoded(reports)


def _encoded(reports: list[FaultReport]) -> str:
    return "[" + ",".join(report.model_dump_json(exclude_defaults=True) for report in reports) + "]"
