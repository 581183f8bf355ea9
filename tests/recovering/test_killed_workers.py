"""Workers die at every moment; the incident goes on, and exactly one instance is replaced."""

from pathlib import Path

import pytest

from contract.names import ActivityName, Outcome
from deploy.local.scene import create_training_job, running_pods, wait_for
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, send, worker_that_comes_back, write_policy

ACTS = [
    # After it has closed the node, and before.
    ActivityName.IDENTIFY_NODE,
    ActivityName.IDENTIFY_NODE,
    ActivityName.PRESERVE_EVIDENCE,
    ActivityName.ASK_PERMIT,
    ActivityName.REQUEST_CHECKPOINTS,
    ActivityName.DRAIN_NODE,
    ActivityName.SURVEY_GROUP,
    ActivityName.MARK_INSTANCE_UNHEALTHY,
    ActivityName.AWAIT_REPLACEMENT,
    ActivityName.VERIFY_REPLACEMENT,
    ActivityName.CLOSE_INCIDENT,
    ActivityName.RETURN_PERMITS,
    ActivityName.WRITE_RECORD,
]


@pytest.mark.timeout(600)
async def test_worker_killed_at_every_act_replaces_exactly_one_instance(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    group = node_group(3)
    # One rank: a job that spans nodes is its gang's business (tests/checkpointing/test_whole_incidents.py).
    create_training_job(local_stack, "train", ranks=1, namespace=namespace, group=group.name)
    wait_for(lambda: len(running_pods(local_stack, "train", namespace)) == 1, "the rank")
    node = running_pods(local_stack, "train", namespace)[0].spec.node_name
    launched, terminated = len(local_stack.fleet.launched), len(local_stack.fleet.terminated)
    deaths = tmp_path / "deaths"
    deaths.write_text("\n".join(f"{act} {'after' if n % 2 else 'before'}" for n, act in enumerate(ACTS, start=1)))
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: QUICK_POLICY})
    fault = report_about(local_stack, node)

    with worker_that_comes_back(
        local_stack, policy, tmp_path, "tests.recovering.dying_worker", TEST_DEATHS=str(deaths)
    ) as codes:
        handle = await send(await connect(local_stack), fault)
        report = await handle.result()

    assert deaths.read_text() == ""
    assert codes.count(-9) == len(ACTS)
    assert report.outcome is Outcome.REPLACED
    assert local_stack.fleet.terminated[terminated:] == [fault.instance_id]
    assert len(local_stack.fleet.launched[launched:]) == 1
    assert report.replacement_instance_id == local_stack.fleet.launched[-1]
