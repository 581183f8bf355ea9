"""A hang on collectives, on the real cluster: the node that complains is not the one that is named."""

import re
from pathlib import Path
from typing import Any

from kubernetes import client as kubernetes

from activities.circumstances import CircumstanceReader
from contract.fault import DataTrust, Verdict
from contract.incident import IncidentReport
from contract.memory import FailedMachine, Failure
from contract.names import Outcome, Phase
from deploy.local.scene import create_training_job, running_pods, wait_for
from deploy.local.stack import Stack
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, until, write_policy
from tests.runbook.world import NOW, finding
from workflows.culprit import FACT


def hang(stack: Stack, node: str) -> Any:
    """What the runtime writes where a collective waits in vain for another worker."""
    return report_about(
        stack,
        node,
        rule="neuron-hang-on-collectives",
        verdict=Verdict.ELSEWHERE,
        data=DataTrust.TRUSTED,
        reason="NeuronHasError_HANG_ON_COLLECTIVES",
        signature="neuron-hang-on-collectives/nd-id=0",
        message="NEURON_HW_ERR=HANG_ON_COLLECTIVES nd-id=0",
    )


def breaks(stack: Stack, node: str) -> None:
    """The node's own detector says that a device failed; no incident has been started for it."""
    with stack.kubernetes.connected() as api:
        core: Any = kubernetes.CoreV1Api(api)
        condition = {
            "type": "NeuronHealth",
            "status": "True",
            "reason": "NeuronHasError_DMA_ERROR",
            "message": "NEURON_HW_ERR=DMA_ERROR nd-id=5",
        }
        core.patch_node_status(node, {"status": {"conditions": [condition]}})


async def test_culprit_of_a_gang_is_named_to_one_human_and_the_complaining_nodes_are_left_alone(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    group = node_group(4)
    create_training_job(local_stack, "train", ranks=4, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(local_stack, "train", namespace)) == 4, "the ranks")
    first, culprit, second = group.nodes[0], group.nodes[1], group.nodes[2]
    breaks(local_stack, culprit)
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: QUICK_POLICY})
    with running_worker(local_stack, policy, tmp_path):
        temporal = await connect(local_stack)
        asking = await send(temporal, hang(local_stack, first))
        parked = await until(asking, lambda report: report.phase is Phase.NEEDS_HUMAN)
        also = await (await send(temporal, hang(local_stack, second))).result()
        await asking.signal("abort", {"by": "ada", "reason": "the culprit is replaced"})
        ended = await asking.result()

    says = f"Of the 3 other nodes of {namespace}/Job/train, {culprit} "
    assert parked.facts[FACT].startswith(says)
    assert "NeuronHasError_DMA_ERROR" in parked.summary
    assert ended.outcome is Outcome.ABORTED
    assert also.outcome is Outcome.OBSERVED, "one question is enough"
    assert also.facts[FACT].startswith(says)
    with local_stack.kubernetes.connected() as api:
        core: Any = kubernetes.CoreV1Api(api)
        assert not any(core.read_node(name).spec.unschedulable for name in group.nodes), "nothing was done to any"
        told = [e for e in core.list_namespaced_event("default").items if e.reason == "SuspectedCulprit"]
        assert [e.involved_object.name for e in told if namespace in e.message] == [culprit]
    assert len(running_pods(local_stack, "train", namespace)) == 4


async def test_culprit_is_taken_out_of_service_in_place_of_the_one_that_complained_where_the_policy_says_so(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    """Issue 9: acts there as policy allows. It is closed and doubted; the job's other nodes stay as they are."""
    group = node_group(4)
    create_training_job(local_stack, "train", ranks=4, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(local_stack, "train", namespace)) == 4, "the ranks")
    complaining, culprit = group.nodes[0], group.nodes[1]
    breaks(local_stack, culprit)
    rules = {**QUICK_POLICY, "culprits": "incident"}
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: rules})
    with running_worker(local_stack, policy, tmp_path):
        temporal = await connect(local_stack)
        observed = await (await send(temporal, hang(local_stack, complaining))).result()
        assert observed.outcome is Outcome.OBSERVED
        opened = re.search(r"its incident is (\S+?)\)", observed.facts[FACT])
        assert opened, observed.facts[FACT]
        incident = temporal.get_workflow_handle(opened[1], result_type=IncidentReport)
        parked = await until(incident, lambda report: report.phase is Phase.NEEDS_HUMAN)
        with local_stack.kubernetes.connected() as api:
            core: Any = kubernetes.CoreV1Api(api)
            closed = [name for name in group.nodes if core.read_node(name).spec.unschedulable]
        await incident.signal("release", {"by": "ada", "reason": "looked at"})
        ended = await incident.result()

    assert closed == [culprit]
    assert "NeuronHasError_DMA_ERROR" in parked.findings[0].message, "with the evidence"
    assert (parked.identity.node if parked.identity else None) == culprit
    assert ended.outcome is Outcome.RELEASED
    assert len(running_pods(local_stack, "train", namespace)) == 4


def test_circumstances_of_a_doubtful_finding_are_read_from_ec2_and_from_the_memory(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    """With the worker's own rights. EC2's silence is an answer, and the past of a device under other work a proof."""
    node = node_group(1).nodes[0]
    identity, serial = acting.target(node).identity, f"sn-{node}"
    acting.memory.remember(
        FailedMachine(
            at=NOW,
            failure=Failure.GIVEN_UP,
            node="gone",
            serials=(serial,),
            reason="x",
            incident=node,
            job="team/Job/other",
        )
    )
    doubtful = finding(
        verdict=Verdict.AMBIGUOUS, fields={"serial-num": serial}, signature=f"neuron-hardware-error/serial-num={serial}"
    )
    reader = CircumstanceReader(acting.auto_scaling.ec2, acting.memory)
    known = reader.read(identity, (doubtful,), lambda: "team/Job/mine")
    assert (known.ec2, known.ec2_asked) == ((), True)
    assert "team/Job/other" in known.recurrence[0]
    assert reader.read(identity, (finding(),), lambda: "team/Job/mine").recurrence == ()
