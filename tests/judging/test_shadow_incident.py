"""A whole incident in mode shadow whose node another repairer replaces: it is seen, recorded, and scored."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from contract.aftermath import Fate
from contract.names import Outcome
from deploy.local.stack import CLUSTER, Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, until, write_policy
from tests.operating.command import nodemend


@pytest.mark.stack
@pytest.mark.timeout(240)
async def test_what_another_repairer_did_to_the_node_is_set_against_the_decision(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(2)
    rules = {**QUICK_POLICY, "mode": "shadow", "follow_shadow": "PT2M"}
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: rules})
    with running_worker(local_stack, policy, tmp_path):
        handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
        await until(handle, lambda report: any("Looking on" in step.summary for step in report.steps))
        with closing(local_stack.aws.client("autoscaling")) as auto_scaling:
            auto_scaling.set_instance_health(InstanceId=group.instance_ids[0], HealthStatus="Unhealthy")
        report = await handle.result()
    assert report.outcome is Outcome.SHADOWED, report.summary
    assert report.aftermath is not None
    assert report.aftermath.fate is Fate.REPLACED

    folder = json.loads(nodemend("scorecard", str(tmp_path / "records"), "-o", "json").stdout)
    assert [(row["group"], row["followed"], row["agreed"]) for row in folder["rows"]] == [(group.name, 1, 1)]
    environment = {**local_stack.environment(), "NODEMEND_CLUSTER": CLUSTER}
    of_temporal = nodemend("scorecard", "--temporal", "-o", "json", **environment)
    assert of_temporal.returncode == 0, of_temporal.stderr
    # The stack is shared: other tests leave incidents in it.
    scored = {decision["incident_id"]: decision["score"] for decision in json.loads(of_temporal.stdout)["decisions"]}
    assert scored[handle.id] == "agreed"
