"""The proof that a replacement is whole: rules V1 to V14, on the real API server and as a pure function."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.verify import VerifyActivity, missing_in
from contract.acts import Replacement, Verified, VerifyReplacement
from contract.identity import Fence, Target
from contract.names import (
    INSTANCE_TYPE_LABEL,
    REPLACES_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    STARTUP_TAINT,
    ZONE_LABEL,
    ErrorType,
)
from deploy.local.scene import wait_for
from tests.acting import Acting, meanwhile, refusal
from tests.conftest import MakeNodeGroup
from tests.replacing.test_await import marked, wait
from tests.runbook.world import identity

NEURON = "aws.amazon.com/neuron"


def verify(
    acting: Acting,
    target: Target,
    replacement: Replacement,
    *,
    soak: float = 0.5,
    deadline: float = 30.0,
    **more: Any,
) -> Verified:
    argument = VerifyReplacement(
        target=target,
        replacement=replacement,
        soak=timedelta(seconds=soak),
        deadline=timedelta(seconds=deadline),
        **more,
    )
    made: Verified = acting.do(
        VerifyActivity(acting.cluster, acting.auto_scaling, acting.memory).verify_replacement, argument
    )
    return made


def taints(acting: Acting, node: str) -> set[str]:
    found = acting.cluster.node(node)
    assert found
    return {taint["key"] for taint in found["spec"].get("taints", [])}


def test_a24_v3_v5_v6_whole_node_is_opened_to_work_and_to_cluster_autoscaler_only_after_the_soak(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    target, survey = marked(acting, group.nodes[0])
    replacement = wait(acting, target, survey)
    assert STARTUP_TAINT in taints(acting, replacement.node)
    claimed = acting.cluster.node(replacement.node)
    assert claimed
    assert claimed["metadata"]["annotations"][SCALE_DOWN_DISABLED_ANNOTATION] == "true"
    done = verify(acting, target, replacement, soak=1.0)
    assert STARTUP_TAINT not in taints(acting, replacement.node)
    assert done.devices[NEURON] == 16
    node = acting.cluster.node(replacement.node)
    assert node
    assert SCALE_DOWN_DISABLED_ANNOTATION not in node["metadata"]["annotations"]


@pytest.mark.parametrize("devices", [0, 15])
def test_v5_v14_node_with_devices_missing_is_never_opened_and_says_how_many(
    acting: Acting, node_group: MakeNodeGroup, devices: int
) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.devices_on_launch = devices
    target, survey = marked(acting, group.nodes[0])
    replacement = wait(acting, target, survey)
    kind, message = refusal(lambda: verify(acting, target, replacement, deadline=3))
    assert kind == ErrorType.NOT_VERIFIED
    assert f"{devices} of 16 {NEURON}" in message
    assert STARTUP_TAINT in taints(acting, replacement.node)


def test_v3_soak_starts_again_when_the_node_was_not_whole_in_between(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target, survey = marked(acting, group.nodes[0])
    replacement = wait(acting, target, survey)

    def set_devices(count: int) -> None:
        amount = {NEURON: str(count)}
        acting.core.patch_node_status(
            replacement.node,
            {"status": {"allocatable": amount, "capacity": amount}},
            _content_type="application/merge-patch+json",
        )

    def flap() -> None:
        wait_for(lambda: any("whole since" in str(beat) for beat in acting.heartbeats), "the soak")
        set_devices(8)
        wait_for(lambda: any("8 of 16" in str(beat) for beat in acting.heartbeats), "the loss")
        set_devices(16)

    with meanwhile(flap):
        done = verify(acting, target, replacement, soak=2.0)
    lost = next(i for i, beat in enumerate(acting.heartbeats) if "8 of 16" in str(beat))
    assert f"{done.ready_since:%H:%M:%S}" in str(acting.heartbeats[-1])
    assert lost < len(acting.heartbeats) - 1


REPLACEMENT = Replacement(
    instance_id="i-0fedcba9876543210", node="n2", node_uid="uid-2", zone="us-west-2a", instance_type="trn1.32xlarge"
)
ARGUMENT = VerifyReplacement(
    target=Target(identity=identity(), fence=Fence(incident_id="me", run_id="r")),
    replacement=REPLACEMENT,
    soak=timedelta(0),
    deadline=timedelta(minutes=1),
)


def whole() -> dict[str, Any]:
    return {
        "metadata": {
            "name": "n2",
            "uid": "uid-2",
            "labels": {ZONE_LABEL: "us-west-2a", INSTANCE_TYPE_LABEL: "trn1.32xlarge"},
            "annotations": {REPLACES_ANNOTATION: "me"},
        },
        "spec": {"providerID": "aws:///us-west-2a/i-0fedcba9876543210"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {NEURON: "16"}},
    }


def test_whole_node_misses_nothing() -> None:
    assert missing_in(whole(), ARGUMENT) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda n: n["metadata"].update(uid="x"), "another Node"),
        (lambda n: n["spec"].update(providerID="aws:///z/i-0aaa"), "not i-0fedcba9876543210"),
        (lambda n: n["metadata"]["labels"].update({ZONE_LABEL: "us-west-2b"}), ZONE_LABEL),
        (lambda n: n["metadata"]["labels"].update({INSTANCE_TYPE_LABEL: "trn1.2xlarge"}), INSTANCE_TYPE_LABEL),
        (lambda n: n["metadata"]["annotations"].update({REPLACES_ANNOTATION: "other"}), "claim"),
        (lambda n: n["status"].update(conditions=[]), "not Ready"),
        (lambda n: n["status"].update(allocatable={}), "0 of 16"),
    ],
)
def test_v1_v2_v3_v5_each_thing_that_is_missing_is_named(change: Any, says: str) -> None:
    node = whole()
    change(node)
    (missing,) = missing_in(node, ARGUMENT)
    assert says in missing


@given(count=st.integers(0, 64))
def test_v5_only_the_exact_count_is_whole(count: int) -> None:
    node = whole()
    node["status"]["allocatable"][NEURON] = str(count)
    assert (missing_in(node, ARGUMENT) == []) == (count == 16)
