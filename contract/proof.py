"""Proof of origin: who may report a fault of a node is who may write that node's annotation.

A report reaches Temporal from any process that has Temporal's credentials, and every node has them. What the
admission policies of ``deploy/`` can prove is who writes a Node: a detector its own and no other, the cluster's
watcher one annotation of each. So whoever reports puts the report's digest there, and ``identify`` believes a report
whose digest the named Node carries. The proof does not expire, and puts no secret into a history. The culprit of a
hang, whom other nodes name, is the one exception: its Node's own conditions are asked (``activities.accusation``).
"""

import hashlib
from typing import Final

from contract.fault import FaultReport
from contract.names import CLUSTER_FINDING_DIGESTS_ANNOTATION, DEVICE_COUNTERS, FINDING_DIGESTS_ANNOTATION, KERNEL_LOG

DIGESTS_MAX: Final = 64
"""How many digests a Node carries: the newest. 33 characters each, 2 KiB of the 256 KiB that annotations may have."""

_FACTS: Final = (
    "source",
    "cluster",
    "node",
    "boot_id",
    "seq",
    "rule",
    "component",
    "verdict",
    "data",
    "evidence_end",
    "workload_alive",
    "device_resource",
    "signature",
    "facility",
    "drill",
)
"""What decisions rest on and what never changes while a finding is updated. The machine is compared with the Node."""


def digest(report: FaultReport) -> str:
    """Digest of what a report claims: 32 hexadecimal digits of SHA-256 over its facts."""
    asks = {"corroboration"} if report.corroboration else set()
    # A detector of before 0.3 knows no such field: what is not asked for is not in the digest either.
    facts = report.model_dump_json(include={*_FACTS, *asks})
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


def annotation_of(source: str) -> str:
    """The Node annotation that carries the digests of a source: the node's own detector's, or the watcher's."""
    own = source in (KERNEL_LOG, DEVICE_COUNTERS)
    return FINDING_DIGESTS_ANNOTATION if own else CLUSTER_FINDING_DIGESTS_ANNOTATION


def with_digest(carried: str, new: str) -> str:
    """The annotation's value with a digest added: newest last, each once, the oldest dropped past the limit."""
    others = [known for known in carried.split(",") if known and known != new]
    return ",".join([*others, new][-DIGESTS_MAX:])


def is_proven(report: FaultReport, annotations: dict[str, str]) -> bool:
    """Whether the Node's annotations carry the digest of a report about it."""
    return digest(report) in annotations.get(annotation_of(report.source), "").split(",")
