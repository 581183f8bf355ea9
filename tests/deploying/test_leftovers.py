"""What ``nodemend uninstall`` takes for ours, and what it does not dare. Without a cluster."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cli.leftovers import ours_on
from cli.uninstall import is_committed
from contract.incident import IncidentReport, StepRecord, StepStatus
from contract.names import Phase, Step

TYPES = frozenset({"NeuronHealth", "KernelLogHealth"})


def node(**changes: Any) -> dict[str, Any]:
    kinds = changes.pop("conditions", ["Ready"])
    return {
        "metadata": {"name": "n", **changes},
        "spec": {"taints": [{"key": "example.com/mine", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": kind} for kind in kinds]},
    }


def test_what_users_write_about_nodemend_is_theirs() -> None:
    theirs = {"nodemend.io/skip": "true", "nodemend.io/device-serials": "1", "example.com/owner": "me"}
    assert ours_on(node(annotations=theirs, labels={"nodemend.io/detect": "true"}), TYPES) == []


def test_condition_of_the_neuron_node_problem_detector_is_not_ours() -> None:
    assert ours_on(node(conditions=["Ready", "NeuronHealth"]), TYPES) == []
    both = ours_on(node(conditions=["Ready", "NeuronHealth", "KernelLogHealth"]), TYPES)
    assert both == ["condition NeuronHealth", "condition KernelLogHealth"]


@pytest.mark.parametrize(
    ("steps", "committed"),
    [
        ({}, False),
        ({Step.DRAIN: StepStatus.DONE}, False),
        ({Step.DRAIN: StepStatus.DONE, Step.REPLACE: StepStatus.WAITING}, False),
        ({Step.REPLACE: StepStatus.SHADOWED}, False),
        ({Step.REPLACE: StepStatus.RUNNING}, True),
        ({Step.REPLACE: StepStatus.FAILED}, True),
        ({Step.REPLACE: StepStatus.DONE}, True),
        ({Step.REPLACE: StepStatus.DONE, Step.AWAIT_REPLACEMENT: StepStatus.WAITING}, True),
    ],
)
def test_point_of_no_return_is_when_the_instance_is_given_up_or_may_be(
    steps: dict[Step, StepStatus], committed: bool
) -> None:
    now = datetime.now(UTC)
    report = IncidentReport(
        incident_id="remediate-prod-n-i",
        run_id="r",
        cluster="prod",
        node="n",
        phase=Phase.ADMITTED,
        summary="",
        opened_at=now,
        steps=tuple(StepRecord(step=step, status=status, started_at=now) for step, status in steps.items()),
    )
    assert is_committed(report) is committed
