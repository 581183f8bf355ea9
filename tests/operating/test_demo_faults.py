"""Every fault that the demo offers is the rule's own line, on the demo's machine, and ends in a way that is told."""

import pytest

from cli.demo_faults import DEMO, Fault, faults
from cli.demo_processes import about
from deploy.local.scene import DemoScene
from detector.catalogue import catalogue

SCENE = DemoScene(
    group="g",
    node="ip-10-0-0-1.us-west-2.compute.internal",
    instance_id="i-0123456789abcdef0",
    zone="us-west-2a",
    namespace="default",
    training_job="t",
    training_pod="t-0",
    feature_job="f",
    feature_pods=(),
    web="w",
    web_pods=(),
    daemonset="d",
)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", faults().values(), ids=lambda fault: fault.rule)
def test_line_is_known_to_its_rule_and_names_the_demo_machine(fault: Fault) -> None:
    found = catalogue().match(about(fault.line, SCENE))
    assert found is not None
    assert found.rule.id == ("neuron-memory-uncorrectable" if fault.rule == DEMO else fault.rule)
    assert found.rule.threshold is None
    assert found.fields.get("instance-id", SCENE.instance_id) == SCENE.instance_id
    assert found.fields.get("hostname", SCENE.node) == SCENE.node
    assert fault.outcome
