"""What an incident makes of reports by ``watch-cluster``: with a real worker, and beside the detector's own."""

from datetime import timedelta
from pathlib import Path

from contract.fault import FaultReport, RemediationRequest, Verdict
from contract.identity import NodeIdentity
from contract.names import ClusterSource, Phase
from contract.plan import Rung
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, running_worker, until, write_policy
from tests.runbook.world import NOW, finding, identity
from tests.watching_cluster.running import Cluster
from workflows.assess import assess
from workflows.incident_state import Incident


def incident() -> Incident:
    """An incident of the node of `finding`."""
    return Incident(RemediationRequest(cluster="test", node="node-1"), "incident", "run", NOW)


def second_hand(**changes: object) -> FaultReport:
    """The same fault, as a condition of others tells it."""
    usual = {"source": ClusterSource.CONDITION, "seq": 10**15, "verdict": Verdict.AMBIGUOUS, "facility": 3}
    return finding(**{**usual, **changes})


def test_what_the_detector_said_is_not_made_less_by_who_repeats_it() -> None:
    """The same kernel line through the node problem detector: one finding, and the first-hand one."""
    known = incident()
    known.join(finding())
    known.join(second_hand())
    assert known.findings == (finding(),)
    assert assess(known.findings, identity()).rung is Rung.REPLACE


def test_first_hand_finding_takes_the_place_of_the_second_hand_one() -> None:
    known = incident()
    known.join(second_hand(first_seen=NOW - timedelta(minutes=5)))
    known.join(finding())
    (kept,) = known.findings
    assert (kept.verdict, kept.source) == (Verdict.HARDWARE, "kmsg")
    assert kept.first_seen == NOW - timedelta(minutes=5)


def test_giving_back_a_node_does_not_silence_its_kernel_log() -> None:
    """Numbers of ``watch-cluster`` are made of time, far above those of kernel records: they are not mixed."""
    known = incident()
    known.identity = NodeIdentity.model_validate(identity().model_dump())
    known.join(second_hand(signature="other"))
    assert known.handled_seq() == 0
    known.join(finding())
    assert known.handled_seq() == finding().seq


async def test_condition_closes_the_node_and_waits_for_a_human(
    cluster: Cluster, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(2)
    node = group.nodes[0]
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: QUICK_POLICY})
    with running_worker(cluster.stack, policy, tmp_path), cluster.watching():
        cluster.condition(node, "ToasterReady", "False", "BurnsHot")
        handle = (await connect(cluster.stack)).get_workflow_handle(cluster.incident(node))
        report = await until(handle, lambda report: report.phase is Phase.NEEDS_HUMAN)
        assert [found.rule for found in report.findings] == ["toaster-burns"]
        assert cluster.node(node)["spec"]["unschedulable"]
        await handle.signal("abort", {"by": "test", "reason": "seen"})
        await handle.result()
