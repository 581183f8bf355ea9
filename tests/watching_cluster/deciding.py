"""A node as a test wants it, and what is seen in it, for tests of pure decisions."""

from datetime import UTC, datetime
from typing import Any

from detector.catalogue import catalogue
from detector.cluster.documents import load_rules
from detector.cluster.ec2 import words
from detector.cluster.findings import Findings, Look
from detector.cluster.sightings import Sighting, of_conditions, of_ec2
from detector.cluster.view import Lens, NodeView

RULES = load_rules()
LENS = Lens(RULES)
READS = catalogue().match
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()
INSTANCE = "i-0123456789abcdef0"


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(*conditions: tuple[str, str, str], since: float = NOW - 300, beat: float = NOW, **spec: Any) -> NodeView:
    """A Ready node with conditions of these types, statuses and reasons."""
    written = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": reason,
            "lastTransitionTime": at(since),
            "lastHeartbeatTime": at(beat),
        }
        for kind, status, reason in (("Ready", "True", "KubeletReady"), *conditions)
    ]
    return LENS.view(
        {
            "metadata": {"name": "node-1", "uid": "uid-1", "creationTimestamp": at(NOW - 3600)},
            "spec": {"providerID": f"aws:///us-west-2a/{INSTANCE}", **spec},
            "status": {"nodeInfo": {"bootID": "boot-1"}, "conditions": written},
        }
    )


def seen(view: NodeView) -> list[Sighting]:
    return of_conditions(view, RULES, READS, NOW)


def look(findings: Findings, view: NodeView, *sightings: Sighting, now: float) -> Look:
    return findings.look(view, sightings, [], now)


def deadlock(**changes: Any) -> tuple[NodeView, Sighting]:
    view = node(("KernelDeadlock", "True", "DockerHung"), **changes)
    return view, seen(view)[0]


EVENT = {
    "InstanceEventId": "instance-event-0d59937288b749b32",
    "Code": "instance-retirement",
    "Description": "The instance is running on degraded hardware",
    "NotBefore": datetime(2026, 12, 20, tzinfo=UTC),
}


def ec2(**status: Any) -> list[Sighting]:
    return of_ec2(node(), list(words({"InstanceId": INSTANCE, **status})), RULES)
