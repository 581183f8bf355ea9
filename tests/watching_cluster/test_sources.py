"""Every source, on the real API server and the real Temporal: what starts an incident, and what does not.

No worker runs: what was sent stands in the history of the incident that it started.
"""

from contract.fault import Verdict
from contract.names import CLUSTER_FINDING_DIGESTS_ANNOTATION, ClusterSource
from contract.proof import digest, is_proven
from tests.conftest import MakeNodeGroup
from tests.detecting.running import wait_until
from tests.watching_cluster.running import Cluster, Replica, stamp

LONG_AGO = 1200.0


def sent(replica: Replica, number: int) -> None:
    """Wait until so many reports are with Temporal."""

    def total() -> float:
        lines = replica.get("/metrics")[1].splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("nodemend_watch_reports_sent"))

    wait_until(lambda: total() >= number, f"{number} reports sent: {replica.text()}")


async def test_c10_problem_true_and_ready_false_are_both_faults_and_each_is_one_proven_report(
    cluster: Cluster, node_group: MakeNodeGroup
) -> None:
    npd, eks, healthy = node_group(3).nodes
    cluster.condition(npd, "KernelDeadlock", "True", "DockerHung", "task docker:7 blocked", ago_s=LONG_AGO)
    cluster.condition(npd, "ReadonlyFilesystem", "False", "FilesystemIsNotReadOnly", ago_s=LONG_AGO)
    cluster.condition(eks, "NetworkingReady", "False", "IPAMDNotReady", ago_s=LONG_AGO)
    cluster.condition(eks, "KernelReady", "True", "KernelIsReady", ago_s=LONG_AGO)
    cluster.condition(healthy, "KernelDeadlock", "False", "KernelHasNoDeadlock", ago_s=LONG_AGO)
    with cluster.watching() as replica:
        sent(replica, 2)
    (problem,) = await cluster.reports(npd)
    (unready,) = await cluster.reports(eks)
    assert (problem.rule, problem.reason, problem.source) == (
        "npd-kernel-deadlock",
        "DockerHung",
        ClusterSource.CONDITION,
    )
    assert (unready.rule, unready.component, unready.signature) == (
        "eks-ipamd",
        "network",
        "eks-ipamd/code=IPAMDNotReady",
    )
    assert problem.boot_id == cluster.node(npd)["status"]["nodeInfo"]["bootID"]
    assert not await cluster.reports(healthy)
    for node, report in ((npd, problem), (eks, unready)):
        assert is_proven(report, cluster.node(node)["metadata"]["annotations"])
        (event,) = cluster.events(node)
        # C12: of this very Node.
        assert event["involvedObject"]["uid"] == cluster.node(node)["metadata"]["uid"]
        assert event["reason"] == report.reason
    assert not cluster.annotation(healthy, CLUSTER_FINDING_DIGESTS_ANNOTATION)


async def test_the_proof_is_on_the_node_before_temporal_knows(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    (node,) = node_group(1).nodes
    cluster.condition(node, "ToasterReady", "False", "BurnsHot")
    with cluster.watching(TEMPORAL_ADDRESS="127.0.0.1:1") as replica:
        wait_until(lambda: cluster.annotation(node, CLUSTER_FINDING_DIGESTS_ANNOTATION))
        wait_until(lambda: replica.metric("delivery_failures_total"))
        assert not cluster.ledger()
        # Temporal being away is no reason to start the process anew.
        assert replica.is_healthy()
    with cluster.watching() as replica:
        sent(replica, 1)
    (report,) = await cluster.reports(node)
    assert cluster.annotation(node, CLUSTER_FINDING_DIGESTS_ANNOTATION) == digest(report)


async def test_unknown_reason_is_ambiguous(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    (node,) = node_group(1).nodes
    with cluster.watching() as replica:
        cluster.condition(node, "ToasterReady", "False", "SomethingNew")
        sent(replica, 1)
    (report,) = await cluster.reports(node)
    assert (report.rule, report.verdict) == ("unknown-toaster-ready", Verdict.AMBIGUOUS)
    assert report.fields["reason"] == "SomethingNew"


async def test_device_taint(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    (node,) = node_group(1).nodes
    with cluster.watching() as replica:
        taint = {"key": "example.com/broken-device", "value": "burnt", "effect": "NoSchedule"}
        cluster.patch(node, {"spec": {"taints": [taint]}})
        sent(replica, 1)
    (report,) = await cluster.reports(node)
    assert (report.rule, report.source, report.verdict) == ("toaster-tainted", ClusterSource.TAINT, Verdict.REPAIRABLE)


async def test_node_that_is_not_ready_for_long(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    away, going = node_group(2).nodes
    for node in (away, going):
        # KWOK leaves such a node as it is.
        cluster.annotate(node, "nodemend.local/unready", "true")
        cluster.condition(node, "Ready", "False", "KubeletNotReady", ago_s=LONG_AGO)
    # C20: that a node stops which somebody removes is no failure.
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    cluster.patch(going, {"spec": {"taints": [taint]}})
    with cluster.watching() as replica:
        sent(replica, 1)
    (report,) = await cluster.reports(away)
    assert (report.rule, report.source) == ("node-not-ready", ClusterSource.NOT_READY)
    assert not await cluster.reports(going)


async def test_silent_detector_is_a_notice_and_an_event(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    silent, alive = node_group(2).nodes
    for node, ago_s in ((silent, 3 * 600.0 + 60), (alive, 2 * 600.0)):
        renewed = stamp(ago_s).replace("Z", ".000001Z")
        cluster.leases.create_namespaced_lease(
            cluster.namespace,
            {
                "metadata": {"name": f"nodemend-detector-{node}"},
                "spec": {"holderIdentity": node, "leaseDurationSeconds": 600, "renewTime": renewed},
            },
        )
    with cluster.watching() as replica:
        sent(replica, 1)
        assert replica.metric("detectors_silent") == 1
    (report,) = await cluster.reports(silent)
    assert (report.rule, report.verdict) == ("detector-silent", Verdict.NOTICE)
    assert [event["reason"] for event in cluster.events(silent)] == ["DetectorSilent"]
    assert not await cluster.reports(alive)


async def test_c5_condition_whose_writer_is_silent_says_nothing(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    stale, fresh = node_group(2).nodes
    cluster.condition(stale, "KernelDeadlock", "True", "DockerHung", ago_s=LONG_AGO, beat_s=LONG_AGO)
    cluster.condition(fresh, "KernelDeadlock", "True", "DockerHung", ago_s=LONG_AGO)
    with cluster.watching() as replica:
        sent(replica, 1)
    assert len(await cluster.reports(fresh)) == 1
    assert not await cluster.reports(stale)


async def test_what_the_nodes_own_detector_writes_or_reads_itself_comes_from_there(
    cluster: Cluster, node_group: MakeNodeGroup
) -> None:
    written, read, blind = node_group(3).nodes
    line = "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3 nc-id=0 serial-num=19fcda00 action=TERMINATE_INSTANCE"
    reason = "NeuronHasError_HBM_UNCORRECTABLE_ERROR"
    ours = f"{line} (rule neuron-memory-uncorrectable, boot 1234-5678, record 77)"
    cluster.condition(written, "NeuronHealth", "True", reason, ours, ago_s=LONG_AGO)
    # The node problem detector's, beside a detector of ours that reads the same log.
    cluster.condition(read, "NeuronHealth", "True", reason, line, ago_s=LONG_AGO)
    cluster.condition(read, "KernelLogHealth", "False", "KernelLogIsRead")
    # And beside one that is blind: then it is the only witness, and its finding is the same as the detector's would be.
    cluster.condition(blind, "NeuronHealth", "True", reason, line, ago_s=LONG_AGO)
    cluster.condition(blind, "KernelLogHealth", "True", "KernelLogUnreadable")
    with cluster.watching() as replica:
        sent(replica, 1)
    (report,) = await cluster.reports(blind)
    assert report.signature == ("neuron-memory-uncorrectable/code=HBM_UNCORRECTABLE_ERROR/nd-id=3/serial-num=19fcda00")
    # It cannot say who wrote the line, so a human decides.
    assert report.verdict is Verdict.AMBIGUOUS
    assert not await cluster.reports(written)
    assert not await cluster.reports(read)
