"""What is a fault, by what Nodes and EC2 say, and what is too much at once: pure decisions."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.fault import EvidenceEnd, Verdict
from detector.cluster.findings import Findings
from detector.cluster.sightings import looks_like_outage, of_readiness
from tests.watching_cluster.deciding import (
    EVENT,
    NOW,
    RULES,
    ec2,
    look,
    node,
    seen,
)


@pytest.mark.parametrize("entry", RULES.conditions, ids=lambda entry: entry.type)
def test_c10_each_shipped_type_is_a_fault_in_its_bad_status_alone(entry: Any) -> None:
    good = "False" if entry.bad_status == "True" else "True"
    (sighting,) = seen(node((entry.type, entry.bad_status, "Anything")))
    assert sighting.verdict is Verdict.AMBIGUOUS
    assert seen(node((entry.type, good, "Anything"))) == []
    assert seen(node((entry.type, "Unknown", "Anything"))) == []


def test_what_others_say_alone_destroys_no_machine() -> None:
    """They do not tell who wrote a kernel line, so they close a node, and a human decides."""
    verdicts = {rule.verdict for entry in RULES.conditions for rule in entry.rules}
    assert verdicts <= {Verdict.AMBIGUOUS, Verdict.NOTICE}


def test_type_that_nobody_described_and_the_kubelets_own_say_nothing() -> None:
    assert seen(node(("MemoryPressure", "True", "x"), ("DiskPressure", "True", "x"), ("Whatever", "True", "x"))) == []


@pytest.mark.parametrize(
    ("kind", "status", "reason", "rule", "component"),
    [
        ("NeuronHealth", "True", "NeuronHasError_DMA_ERROR", "npd-neuron", "neuron"),
        ("AcceleratedHardwareReady", "False", "NeuronHBMUncorrectableError", "eks-neuron", "neuron"),
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "eks-nvidia-xid", "nvidia"),
        ("AcceleratedHardwareReady", "False", "NvidiaDoubleBitError", "eks-nvidia-double-bit", "nvidia"),
        ("XfsShutdown", "True", "XfsHasShutdown", "npd-xfs-shutdown", "disk"),
        ("KernelReady", "False", "ForkFailedOutOfPIDs", "eks-out-of-pids", "kernel"),
        ("StorageReady", "False", "Anything", "unknown-storage-ready", "disk"),
    ],
)
def test_reason_is_known(kind: str, status: str, reason: str, rule: str, component: str) -> None:
    (sighting,) = seen(node((kind, status, reason)))
    assert (sighting.rule, sighting.component, sighting.reason) == (rule, component, reason)


@pytest.mark.parametrize("reason", ["InterfaceNotUp", "InterfaceNotRunning", "MissingLoopbackInterface"])
def test_c18_interface_that_may_be_of_no_importance_is_waited_for_and_left_to_a_human(reason: str) -> None:
    (sighting,) = seen(node(("NetworkingReady", "False", reason)))
    assert (sighting.verdict, sighting.hold_s) == (Verdict.AMBIGUOUS, 300)


def test_two_reasons_in_one_transition_are_two_findings() -> None:
    """The EKS agent latches: a second reason takes the place of the first, and the transition stays."""
    (first,) = seen(node(("AcceleratedHardwareReady", "False", "NvidiaXID79Error")))
    (second,) = seen(node(("AcceleratedHardwareReady", "False", "NvidiaDoubleBitError")))
    assert first.transition == second.transition
    assert first.subject != second.subject


def test_c14_message_is_bounded_and_has_no_control_characters() -> None:
    (sighting,) = seen(node(("KernelDeadlock", "True", "DockerHung\x1b[31m" + "x" * 5000)))
    assert len(sighting.message) <= 1024
    assert "\x1b" not in sighting.message


@given(st.text(max_size=200), st.text(max_size=200))
def test_nothing_that_a_condition_says_stops_the_watch(reason: str, message: str) -> None:
    view = node(("NeuronHealth", "True", reason))
    view = view._replace(conditions=tuple(c._replace(message=message) for c in view.conditions))
    findings = Findings("test", "1", {})
    look(findings, view, *seen(view), now=NOW + 1000)


@pytest.mark.parametrize(
    ("total", "away", "outage"),
    [(1, 1, False), (2, 1, False), (2, 2, True), (3, 1, False), (3, 2, True), (5, 1, False), (5, 2, True),
     (6, 1, False), (6, 2, True), (10, 3, False), (10, 4, True), (1000, 300, False), (1000, 301, True)],
)  # fmt: skip
def test_pitfall_2_and_5_outage_has_a_floor_of_one_and_a_share(total: int, away: int, outage: bool) -> None:
    assert looks_like_outage(away, total, 0.3) is outage


def test_c20_node_that_somebody_removes_is_not_missed() -> None:
    away = node()._replace(ready=False, ready_since=NOW - 3600)
    assert len(of_readiness(away, 600)) == 1
    assert of_readiness(away._replace(going=True), 600) == []


def test_retirement_is_hardware_and_a_reboot_by_aws_a_notice() -> None:
    (retired,) = ec2(Events=[EVENT])
    assert (retired.rule, retired.verdict, retired.evidence_end) == (
        "ec2-retirement",
        Verdict.HARDWARE,
        EvidenceEnd.REPLACEMENT,
    )
    assert retired.reason == "Ec2InstanceRetirement"
    (reboot,) = ec2(Events=[{**EVENT, "Code": "system-reboot"}])
    assert reboot.verdict is Verdict.NOTICE


@pytest.mark.parametrize("over", ["[Completed] ", "[Canceled] "])
def test_event_that_is_over_is_none(over: str) -> None:
    assert ec2(Events=[{**EVENT, "Description": f"{over}The instance is running on degraded hardware"}]) == []


def test_impaired_status_waits_and_ok_says_nothing() -> None:
    impaired = {"Status": "impaired", "Details": [{"ImpairedSince": datetime(2026, 12, 1, tzinfo=UTC)}]}
    (system,) = ec2(SystemStatus=impaired, InstanceStatus={"Status": "ok"})
    assert (system.rule, system.hold_s, system.verdict) == ("ec2-system-impaired", 600, Verdict.AMBIGUOUS)
    assert ec2(SystemStatus={"Status": "initializing"}, InstanceStatus={"Status": "insufficient-data"}) == []
