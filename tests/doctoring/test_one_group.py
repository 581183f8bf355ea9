"""`nodemend doctor` where AWS refuses its caller an action for one group: that one is told, and the others are seen."""

from pathlib import Path

import pytest
import yaml

from contract.names import ExitCode
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.doctoring.aws_front import refusing_front
from tests.doctoring.examining import examined

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("action", ["DescribeLifecycleHooks", "DescribeScalingActivities"])
def test_group_that_may_not_be_looked_at_is_told_with_the_action_and_the_others_are_looked_at(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path, action: str
) -> None:
    closed, whole = node_group(1).name, node_group(1).name
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"groups": {group: {"mode": "act"} for group in (closed, whole)}}))
    with refusing_front(local_stack.aws, action, closed) as front:
        code, found = examined(local_stack, policy, AWS_ENDPOINT_URL=front.url)
        assert front.refused
        assert code == ExitCode.FAILED
        (told,) = found[f"group {closed}"]
        assert told["level"] == "wrong"
        assert f"AWS refuses `autoscaling:{action}` (AccessDenied: User: " in told["says"]
        assert told["means"] == "whether a machine of it can be replaced is not known"
        assert "allow it to whoever runs the doctor" in told["mend"]
        assert "deploy/aws/iam/worker.json" in told["mend"]
        assert {one["level"] for one in found[f"group {whole}"]} <= {"ok", "note"}

        front.open = True
        _, found = examined(local_stack, policy, AWS_ENDPOINT_URL=front.url)
    assert {one["level"] for one in found[f"group {closed}"]} <= {"ok", "note"}
