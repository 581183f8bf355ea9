"""V2 to V11: where a replacement is, what must run on it, what its own detector says, and whether it failed before."""

import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.memory import failed_repairs, known_bad
from activities.node_jobs import node_job
from activities.verify import misplaced, missing_in
from activities.whole import heard_of_log, missing_daemons
from contract.acts import Replacement, VerifyReplacement
from contract.identity import Target
from contract.memory import FailedMachine, Failure
from contract.names import FINDING_DIGESTS_ANNOTATION, SERIALS_ANNOTATION, STARTUP_TAINT, ErrorType
from contract.replacement import Probe, ReplacementPolicy, ReturningMachine
from deploy.local.scene import create_daemonset, wait_for
from tests.acting import Acting, meanwhile, refusal
from tests.conftest import MakeNodeGroup
from tests.replacing.test_await import marked, wait
from tests.replacing.test_mend import finish, pods_of_jobs
from tests.runbook.world import NOW, identity
from tests.verifying.test_verify import ARGUMENT, taints, verify, whole

PROBE = Probe(image="probe:1", command=("enumerate",))
NEURON = "aws.amazon.com/neuron"


def replaced(acting: Acting, node_group: MakeNodeGroup) -> tuple[Target, Replacement]:
    group = node_group(2)
    target, survey = marked(acting, group.nodes[0])
    return target, wait(acting, target, survey)


def condition(kind: str, status: str, reason: str = "R") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason}


def test_v4_network_that_is_not_set_up_is_named() -> None:
    node = whole()
    node["status"]["conditions"].append(condition("NetworkUnavailable", "True"))
    assert any("V4" in missing for missing in missing_in(node, ARGUMENT))


def test_v8_fault_that_the_new_nodes_own_detector_shows_is_named() -> None:
    argument = ARGUMENT.model_copy(update={"condition_types": ("NeuronHealth",)})
    node = whole()
    node["status"]["conditions"].append(condition("NeuronHealth", "False"))
    assert missing_in(node, argument) == []
    node["status"]["conditions"][-1] = condition("NeuronHealth", "True", "NeuronHasError_X")
    assert any("NeuronHasError_X" in missing for missing in missing_in(node, argument))


def test_v8_any_finding_in_the_new_nodes_kernel_log_speaks_against_it() -> None:
    node = whole()
    node["metadata"]["annotations"][FINDING_DIGESTS_ANNOTATION] = "abc"
    assert any("V8" in missing for missing in missing_in(node, ARGUMENT))


def test_v8_log_that_nobody_reads_is_not_called_a_clean_one() -> None:
    node = whole()
    assert "has not spoken" in heard_of_log(node)
    node["status"]["conditions"].append(condition("KernelLogHealth", "True", "KernelLogUnreadable"))
    assert "KernelLogUnreadable" in heard_of_log(node)
    node["status"]["conditions"][-1] = condition("KernelLogHealth", "False", "KernelLogIsRead")
    assert heard_of_log(node) == "nothing found by its own detector"


def placed(**wanted: str) -> VerifyReplacement:
    target = ARGUMENT.target.model_copy(update={"identity": identity(placement=wanted)})
    return ARGUMENT.model_copy(update={"target": target})


@pytest.mark.parametrize(
    ("what", "here"),
    [
        ("placement group", {"Placement": {"GroupName": "other"}}),
        ("capacity reservation", {}),
        ("capacity block", {"CapacityBlockId": "cb-2"}),
    ],
)
def test_v2_machine_outside_what_its_gang_shares_is_no_success(what: str, here: Any) -> None:
    (says,) = misplaced(placed(**{what: "wanted-1"}), here)
    assert what in says
    assert "wanted-1" in says


def test_v2_machine_in_the_same_place_misses_nothing() -> None:
    here: Any = {"Placement": {"GroupName": "pg-1"}, "CapacityReservationId": "cr-1"}
    assert misplaced(placed(**{"placement group": "pg-1", "capacity reservation": "cr-1"}), here) == []


@pytest.mark.parametrize(
    ("wanted", "runs", "says"), [("ami-2", "ami-1", "ami-1"), ("ami-2", "ami-2", ""), ("", "x", "")]
)
def test_v2_machine_of_another_image_than_its_group_launches_is_no_success(wanted: str, runs: str, says: str) -> None:
    here: Any = {"ImageId": runs}
    found = misplaced(ARGUMENT.model_copy(update={"image": wanted}), here)
    assert bool(found) == bool(says)
    assert says in " ".join(found)


def test_v7_required_daemon_set_has_to_be_ready_on_it(
    acting: Acting, node_group: MakeNodeGroup, namespace: str
) -> None:
    group = node_group(1)
    wanted = (f"{namespace}/agent", f"{namespace}/absent")
    assert len(missing_daemons(acting.cluster, group.nodes[0], wanted)) == 2
    create_daemonset(acting.stack, "agent", namespace=namespace, group=group.name)
    wait_for(lambda: len(missing_daemons(acting.cluster, group.nodes[0], wanted)) == 1, "the agent")
    (missing,) = missing_daemons(acting.cluster, group.nodes[0], wanted)
    assert "absent" in missing


def test_v9_probe_runs_on_all_devices_under_the_startup_taint_and_only_then_is_the_node_opened(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    target, replacement = replaced(acting, node_group)
    closed: list[bool] = []

    def play_kubelet() -> None:
        wait_for(lambda: bool(pods_of_jobs(acting, replacement.node)), "the probe")
        closed.append(STARTUP_TAINT in taints(acting, replacement.node))
        finish(acting, replacement.node, "Succeeded")

    with meanwhile(play_kubelet):
        done = verify(acting, target, replacement, rules=ReplacementPolicy(probe=PROBE))
    assert closed == [True]
    assert STARTUP_TAINT not in taints(acting, replacement.node)
    assert any("succeeded" in check for check in done.checks)
    (pod,) = pods_of_jobs(acting, replacement.node)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {NEURON: "16"}


@pytest.mark.parametrize(("there", "passes"), [(0, False), (3, False), (4, True), (5, False)])
def test_v9_probe_without_a_command_counts_the_devices_that_the_container_sees(
    tmp_path: Path, there: int, passes: bool
) -> None:
    rules = ReplacementPolicy.model_validate({"probe": {"image": "any:1"}})
    assert rules.probe
    devices = {NEURON: 4, "aws.amazon.com/neuroncore": 8, "vpc.amazonaws.com/efa": 0}
    job = node_job(rules.probe, "probe-1", "n2", devices, privileged=False)
    (shell, flag, script) = job["spec"]["template"]["spec"]["containers"][0]["command"]
    for number in range(there):
        (tmp_path / f"neuron{number}").touch()
    done = subprocess.run(
        [shell, flag, script.replace("/dev/", f"{tmp_path}/")], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is passes
    assert done.stdout == ("" if passes else f"{there} of 4 {NEURON} in the container\n")


def test_v9_v11_v14_failed_probe_is_a_failed_repair_at_once_and_the_node_stays_closed(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    target, replacement = replaced(acting, node_group)
    said = "15 of 16 aws.amazon.com/neuron in the container\n"
    with meanwhile(lambda: finish(acting, replacement.node, "Failed", said)):
        kind, says = refusal(
            lambda: verify(acting, target, replacement, deadline=3600, rules=ReplacementPolicy(probe=PROBE))
        )
    assert (kind, "V9" in says) == (ErrorType.NOT_VERIFIED, True)
    assert "exit code 3, 15 of 16 aws.amazon.com/neuron in the container (V9)" in says
    assert STARTUP_TAINT in taints(acting, replacement.node)
    (known,) = [m for m in acting.memory.all() if m.instance_id == replacement.instance_id]
    assert known.failure is Failure.NOT_VERIFIED
    assert failed_repairs(acting.memory.all(), known.group, known.at) == 1


def failed_before(**changes: Any) -> FailedMachine:
    usual = {
        "at": NOW,
        "failure": Failure.GIVEN_UP,
        "node": "old",
        "instance_id": "i-0000000000000000a",
        "group": "trn1",
        "serials": ("sn-7",),
        "reason": "HBM",
        "incident": "remediate-old",
    }
    return FailedMachine(**{**usual, **changes})


@pytest.mark.parametrize("answer", ReturningMachine)
def test_v10_machine_that_failed_before_is_refused_or_watched(
    acting: Acting, node_group: MakeNodeGroup, answer: ReturningMachine
) -> None:
    target, replacement = replaced(acting, node_group)
    serial = f"sn-{replacement.instance_id}"
    acting.memory.remember(failed_before(serials=(serial,), incident=replacement.instance_id))
    acting.patch(replacement.node, {"metadata": {"annotations": {SERIALS_ANNOTATION: f"sn-0, {serial}"}}})
    rules = ReplacementPolicy(returning_machine=answer)
    if answer is ReturningMachine.WATCH:
        done = verify(acting, target, replacement, rules=rules)
        assert any("failed before: HBM" in check for check in done.checks)
    else:
        kind, says = refusal(lambda: verify(acting, target, replacement, deadline=3600, rules=rules))
        assert kind == ErrorType.NOT_VERIFIED
        assert "failed before: HBM" in says
        assert STARTUP_TAINT in taints(acting, replacement.node)


def test_v10_machine_on_the_network_node_of_a_failed_one_is_watched(acting: Acting, node_group: MakeNodeGroup) -> None:
    """Many machines hang on one network node: it tells a neighbour, so that the record says it and nothing more."""
    target, replacement = replaced(acting, node_group)
    nn = f"nn-{replacement.instance_id}"
    acting.memory.remember(failed_before(network_node=nn, incident=replacement.instance_id))
    on_it = {"Instances": [{"InstanceId": replacement.instance_id, "NetworkNodes": ["nn-top", nn]}]}
    acting.stack.aws.note(answers={"DescribeInstanceTopology": on_it})
    try:
        done = verify(acting, target, replacement)
    finally:
        acting.stack.aws.note(answers={"DescribeInstanceTopology": {"Instances": []}})
    (remark,) = [check for check in done.checks if "V10" in check]
    assert nn in remark
    assert "HBM" in remark


def test_v10_device_that_just_failed_is_known_by_its_serial_number(acting: Acting, node_group: MakeNodeGroup) -> None:
    target, replacement = replaced(acting, node_group)
    acting.patch(replacement.node, {"metadata": {"annotations": {SERIALS_ANNOTATION: "sn-1,sn-2"}}})
    watch = ReplacementPolicy(returning_machine=ReturningMachine.WATCH)
    _, says = refusal(lambda: verify(acting, target, replacement, deadline=3600, rules=watch, serials=("sn-2",)))
    assert "sn-2" in says


@pytest.mark.parametrize("key", ["old", "i-0000000000000000a", "sn-7"])
def test_machine_is_known_again_by_node_instance_and_serial(key: str) -> None:
    assert known_bad((failed_before(),), {key}) == failed_before()
    assert known_bad((failed_before(),), {f"{key}0", ""}) is None


def test_v11_only_failed_replacements_of_the_group_within_a_day_count() -> None:
    machines = (
        failed_before(failure=Failure.NOT_VERIFIED),
        failed_before(failure=Failure.NOT_VERIFIED, at=NOW - timedelta(days=2)),
        failed_before(failure=Failure.NOT_VERIFIED, group="other"),
        failed_before(),
    )
    assert failed_repairs(machines, "trn1", NOW) == 1
