"""The rungs below replacement: a reboot that is proven by its boot id, a reset that ends, and the memory of both."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.mend import MendActivity
from activities.node_facts import REMEMBERED, boot_id, read_tried
from contract.acts import Mended, MendMachine
from contract.identity import Target
from contract.names import TRIED_ANNOTATION, ErrorType
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import NodeJob
from deploy.local.scene import wait_for
from tests.acting import Acting, meanwhile, refusal
from tests.conftest import MakeNodeGroup

ACTS = Policy(default=GroupPolicy(mode=Mode.ACT))
RESET = NodeJob(image="vendor/tools:1", command=("reset", "--all"))


def mend(acting: Acting, target: Target, act: str = "reboot_machine", policy: Policy = ACTS, **changes: Any) -> Mended:
    usual: dict[str, Any] = {"soak": timedelta(seconds=0.5), "deadline": timedelta(seconds=30)}
    argument = MendMachine(target=target, **{**usual, **changes})
    activity = MendActivity(acting.cluster, acting.auto_scaling, acting.memory, lambda: policy)
    made: Mended = acting.do(getattr(activity, act), argument)
    return made


def node(acting: Acting, name: str) -> Any:
    found = acting.cluster.node(name)
    assert found
    return found


def reboots(acting: Acting, instance_id: str) -> int:
    return int(acting.stack.aws.note()["reboots"].count(instance_id))


def test_reboot_is_proven_by_another_boot_and_a_whole_machine(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    done = mend(acting, target)
    assert done.whole, done.explanation
    assert done.boot_id == boot_id(node(acting, group.nodes[0])) != target.identity.boot_id
    assert "reboot" in read_tried(node(acting, group.nodes[0]), datetime.now(UTC))
    assert reboots(acting, group.instance_ids[1]) == 0


def test_second_try_after_a_lost_answer_does_not_reboot_again(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    mend(acting, target)
    assert mend(acting, target).whole
    assert reboots(acting, group.instance_ids[0]) == 1


def test_machine_that_comes_back_with_devices_missing_is_not_mended(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.devices_after_reboot = 15
    done = mend(acting, acting.claim(group.nodes[0]), deadline=timedelta(seconds=4))
    assert not done.whole
    assert "15 of 16" in done.explanation


def test_machine_that_never_comes_back_is_not_mended(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.reboot_delay_s = 3600.0
    done = mend(acting, acting.claim(group.nodes[0]), deadline=timedelta(seconds=2))
    assert not done.whole
    assert "its new boot is not there" in done.explanation


def test_fault_that_its_detector_still_shows_after_the_reboot_is_not_mended(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    fault = {"type": "NeuronHealth", "status": "True", "reason": "NeuronHasError_X", "message": "again"}
    acting.core.patch_node_status(group.nodes[0], {"status": {"conditions": [fault]}})
    done = mend(acting, target, condition_types=("NeuronHealth",), deadline=timedelta(seconds=4))
    assert not done.whole
    assert "NeuronHasError_X" in done.explanation


@pytest.mark.parametrize("act", ["reboot_machine", "reset_devices"])
def test_policy_and_veto_are_asked_at_the_last_moment(acting: Acting, node_group: MakeNodeGroup, act: str) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    shadow = Policy(default=GroupPolicy(mode=Mode.SHADOW))
    assert refusal(lambda: mend(acting, target, act, shadow, job=RESET))[0] == ErrorType.POLICY_FORBIDS
    acting.patch(group.nodes[0], {"spec": {"unschedulable": None}})
    assert refusal(lambda: mend(acting, target, act, job=RESET))[0] == ErrorType.HUMAN_VETO
    assert reboots(acting, group.instance_ids[0]) == 0
    assert TRIED_ANNOTATION not in node(acting, group.nodes[0])["metadata"]["annotations"]


def pods_of_jobs(acting: Acting, name: str) -> list[Any]:
    return [
        pod
        for pod in acting.cluster.pods_on(name)
        if any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", []))
    ]


def finish(acting: Acting, name: str, phase: str, said: str = "") -> None:
    """Be the kubelet of the Job's pod."""
    wait_for(lambda: bool(pods_of_jobs(acting, name)), "the Job's pod")
    (pod,) = pods_of_jobs(acting, name)
    terminated = {"exitCode": 0 if phase == "Succeeded" else 3, "reason": "Completed", "message": said}
    status = {"phase": phase, "containerStatuses": [container(terminated)]}
    acting.core.patch_namespaced_pod_status(pod["metadata"]["name"], pod["metadata"]["namespace"], {"status": status})


def container(terminated: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "vendor/tools:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }


@pytest.mark.parametrize(("phase", "whole"), [("Succeeded", True), ("Failed", False)])
def test_reset_runs_once_privileged_on_the_closed_node_and_its_end_decides(
    acting: Acting, node_group: MakeNodeGroup, phase: str, whole: bool
) -> None:
    group = node_group(2)
    target = acting.claim(group.nodes[0])
    with meanwhile(lambda: finish(acting, group.nodes[0], phase)):
        done = mend(acting, target, "reset_devices", job=RESET)
    assert done.whole is whole, done.explanation
    assert mend(acting, target, "reset_devices", job=RESET).whole is whole
    (pod,) = pods_of_jobs(acting, group.nodes[0])
    assert pod["spec"]["containers"][0]["securityContext"]["privileged"] is True
    assert pod["spec"]["containers"][0]["command"] == ["reset", "--all"]


NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@given(written=st.text(max_size=60))
def test_memory_that_somebody_edited_never_stops_a_repair(written: str) -> None:
    tried = read_tried({"metadata": {"annotations": {TRIED_ANNOTATION: written}}}, NOW)
    assert all(NOW - at < REMEMBERED for at in tried.values())


def test_what_was_tried_long_ago_may_be_tried_again() -> None:
    written = "reboot@2026-11-01T00:00:00Z,reset-device@2026-12-01T11:00:00Z"
    tried = read_tried({"metadata": {"annotations": {TRIED_ANNOTATION: written}}}, NOW)
    assert list(tried) == ["reset-device"]
