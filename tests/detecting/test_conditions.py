"""Conditions: the worst of several faults, ended as each rule declares. Rules C4 to C9 of the reference."""

from typing import Any

from contract.names import KERNEL_LOG_HEALTH
from detector.conditions import DRILL_ENDS_S, LOG_HEALTH, LOSS_ENDS_S, Conditions


def report(signature: str = "s", **changes: Any) -> dict[str, Any]:
    usual = {
        "signature": signature,
        "verdict": "hardware",
        "condition_type": "NeuronHealth",
        "reason": f"Reason_{signature}",
        "message": "m",
        "rule": "r",
        "seq": 1,
        "first_seen": "2026-12-01T00:00:00.000Z",
        "evidence_end": "replacement",
        "drill": False,
    }
    return {**usual, **changes}


def said(conditions: Conditions, kind: str = "NeuronHealth") -> "str | None":
    fault = conditions.worst().get(kind)
    return fault["reason"] if fault else None


def test_detectors_own_condition_has_the_name_that_the_worker_knows() -> None:
    """The detector's watch imports the standard library alone, so it has a constant of its own."""
    assert LOG_HEALTH == KERNEL_LOG_HEALTH


def test_c9_condition_says_the_worst_and_no_later_fault_hides_it() -> None:
    conditions = Conditions()
    conditions.take(report("bad"), "b", 0.0)
    conditions.take(report("doubt", verdict="ambiguous"), "b", 1.0)
    assert said(conditions) == "Reason_bad"
    assert "and 1 more" in conditions.worst()["NeuronHealth"]["message"]


def test_c9_end_of_a_rehearsal_does_not_end_the_real_fault() -> None:
    conditions = Conditions()
    conditions.take(report("real", verdict="ambiguous"), "b", 0.0)
    conditions.take(report("drill/x", drill=True), "b", 1.0)
    assert said(conditions) == "Reason_real"
    conditions.expire(DRILL_ENDS_S + 10)
    assert said(conditions) == "Reason_real"


def test_c6_rehearsal_ends_by_itself() -> None:
    conditions = Conditions()
    conditions.take(report("drill/x", drill=True), "b", 1.0)
    conditions.expire(DRILL_ENDS_S)
    assert said(conditions) == "Reason_drill/x"
    conditions.expire(DRILL_ENDS_S + 2)
    assert said(conditions) is None


def test_c6_reboot_ends_what_a_boot_ends_and_nothing_else() -> None:
    before = Conditions()
    before.take(report("silicon"), "b", 0.0)
    before.take(report("oops", evidence_end="boot", condition_type="KernelHealth"), "b", 0.0)
    before.take(report("drill/x", drill=True, condition_type="DiskHealth"), "b", 0.0)
    after = Conditions(before.known(), same_boot=False)
    assert set(after.worst()) == {"NeuronHealth"}


def test_c7_restart_neither_clears_nor_changes_what_is_said() -> None:
    before = Conditions()
    before.take(report(), "b", 0.0)
    assert Conditions(before.known()).worst() == before.worst()


def test_verdicts_that_say_nothing_against_the_node_raise_no_condition() -> None:
    conditions = Conditions()
    for verdict in ("elsewhere", "application", "notice"):
        conditions.take(report(verdict, verdict=verdict), "b", 0.0)
    assert conditions.worst() == {}


def test_counts_of_a_known_fault_are_no_change() -> None:
    conditions = Conditions()
    conditions.take(report(), "b", 0.0)
    conditions.changed = False
    conditions.take(report(), "b", 60.0)
    assert not conditions.changed


def test_k4_k20_blindness_and_loss_are_a_condition_of_their_own() -> None:
    conditions = Conditions()
    conditions.tell("loss", "KernelRecordsLost", "m", "t", 0.0, ends="loss")
    conditions.tell("blind", "KernelLogUnreadable", "m", "t", 0.0, ends="told")
    assert said(conditions, LOG_HEALTH) == "KernelLogUnreadable"
    conditions.end("blind")
    assert said(conditions, LOG_HEALTH) == "KernelRecordsLost"
    conditions.expire(LOSS_ENDS_S + 1)
    assert said(conditions, LOG_HEALTH) is None


def test_made_up_signatures_are_bounded_and_never_push_out_a_worse_fault() -> None:
    conditions = Conditions()
    conditions.take(report("real"), "b", 0.0)
    for number in range(1000):
        conditions.take(report(f"made-up-{number}", verdict="ambiguous"), "b", 1.0)
    assert said(conditions) == "Reason_real"
    assert len(conditions.known()["NeuronHealth"]) <= 64
