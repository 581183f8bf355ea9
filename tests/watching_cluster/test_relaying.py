"""``NODEMEND_DELIVERY=node``: detectors without Temporal, whose reports ``watch-cluster`` hands on from their Nodes."""

from datetime import UTC, datetime

from contract.fault import FaultReport
from contract.names import FINDING_DIGESTS_ANNOTATION, FINDINGS_ANNOTATION
from contract.proof import digest, is_proven, with_digest
from deploy.components import Component
from deploy.local.stack import CLUSTER
from detector.carried import with_report
from tests.conftest import MakeNodeGroup
from tests.detecting.running import HBM, Detector, wait_until
from tests.harness import report_about
from tests.watching_cluster.running import Cluster
from tests.watching_cluster.test_sources import sent


def carry(cluster: Cluster, node: str, report: FaultReport) -> None:
    """Write a report as the node's detector does."""
    cluster.annotate(node, FINDINGS_ANNOTATION, with_report(cluster.annotation(node, FINDINGS_ANNOTATION), report))
    digests = with_digest(cluster.annotation(node, FINDING_DIGESTS_ANNOTATION), digest(report))
    cluster.annotate(node, FINDING_DIGESTS_ANNOTATION, digests)


async def test_kernel_line_becomes_an_incident_without_temporal_on_the_node(
    cluster: Cluster, node_group: MakeNodeGroup
) -> None:
    (node,) = node_group(1).nodes
    environment = {**cluster.stack.environment_of(Component.DETECTOR, node), "NODE_NAME": node}
    environment |= {"NODEMEND_DELIVERY": "node", "NODEMEND_INSTANCE_ID": cluster.instance(node)}
    environment |= {"TEMPORAL_ADDRESS": "127.0.0.1:1"}
    detector = Detector(cluster.folder, environment)
    with cluster.watching() as replica, detector.running():
        detector.write(HBM.format(device=3))
        sent(replica, 1)
    (report,) = await cluster.reports(node)
    assert (report.source, report.fields["nd-id"], report.verdict) == ("kmsg", "3", "hardware")
    assert is_proven(report, cluster.node(node)["metadata"]["annotations"])


async def test_each_report_is_handed_on_once_and_its_counts_follow_over_a_restart(
    cluster: Cluster, node_group: MakeNodeGroup
) -> None:
    (node,) = node_group(1).nodes
    first = report_about(cluster.stack, node, seq=5, signature="a")
    carry(cluster, node, first)
    with cluster.watching() as replica:
        sent(replica, 1)
        carry(cluster, node, report_about(cluster.stack, node, seq=6, signature="b"))
        sent(replica, 2)
        wait_until(lambda: len(cluster.ledger()) == 2)
        replica.process.kill()
    third = report_about(cluster.stack, node, seq=7, signature="c")
    carry(cluster, node, third)
    with cluster.watching() as replica:
        sent(replica, 1)
    assert [report.seq for report in await cluster.reports(node)] == [5, 6, 7]


async def test_node_may_speak_of_itself_alone(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    liar, victim = node_group(2).nodes
    of_victim = report_about(cluster.stack, victim, seq=1)
    carry(cluster, liar, of_victim)
    carry(cluster, liar, of_victim.model_copy(update={"node": liar, "seq": 2}))
    own = report_about(cluster.stack, liar, seq=3, cluster=CLUSTER, last_seen=datetime.now(UTC))
    carry(cluster, liar, own)
    with cluster.watching() as replica:
        sent(replica, 1)
        assert "may speak of" in replica.text()
    assert [report.seq for report in await cluster.reports(liar)] == [3]
    assert not await cluster.reports(victim)
