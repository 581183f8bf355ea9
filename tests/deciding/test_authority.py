"""Xid 154 names the recovery action itself, and overrides what the Xids around it are usually answered with."""

from datetime import timedelta
from typing import Any

import pytest

from contract.fault import EvidenceEnd, FaultReport, Verdict
from contract.plan import Rung
from contract.replacement import RebootMode, ReplacementPolicy
from tests.runbook.world import finding, identity
from workflows.assess import assess

REBOOTS = ReplacementPolicy(reboot=RebootMode.REPAIRABLE)
SECONDS = timedelta(seconds=1)


def xid(**changes: Any) -> FaultReport:
    """79: the GPU has fallen off the bus."""
    usual: dict[str, Any] = {"component": "nvidia", "rule": "nvidia-xid-hardware", "fields": {"pci": "0000:91:00"}}
    return finding(**{**usual, "verdict": Verdict.HARDWARE, **changes})


def word(after: float = 1.0, **changes: Any) -> FaultReport:
    """154: GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)."""
    usual: dict[str, Any] = {
        "rule": "nvidia-recovery-reset",
        "seq": 2,
        "verdict": Verdict.REPAIRABLE,
        "evidence_end": EvidenceEnd.BOOT,
        "first_seen": xid().first_seen + after * SECONDS,
        "last_seen": xid().first_seen + after * SECONDS,
    }
    return xid(**{**usual, **changes})


def test_driver_that_asks_for_a_reboot_is_taken_at_its_word() -> None:
    assert assess([xid()], identity(), rules=REBOOTS).rung is Rung.REPLACE
    assert assess([xid(), word()], identity(), rules=REBOOTS).rung is Rung.REBOOT


def test_reboot_that_was_tried_is_not_tried_again_whatever_the_driver_says() -> None:
    again = identity().model_copy(update={"tried": ("reboot",)})
    assert assess([xid(), word()], again, rules=REBOOTS).rung is Rung.REPLACE


def test_where_reboots_are_left_to_people_a_dead_device_is_replaced_as_before() -> None:
    assert assess([xid(), word()], identity()).rung is Rung.REPLACE


@pytest.mark.parametrize(
    "other",
    [
        word(after=31),
        word(after=-31),
        word(fields={"pci": "0000:92:00"}),
        word(fields={}),
        word(rule="nvidia-recovery-other", verdict=Verdict.AMBIGUOUS),
    ],
    ids=["later", "before", "of another device", "of no device", "another action"],
)
def test_word_about_another_device_or_time_or_action_overrides_nothing(other: FaultReport) -> None:
    assert assess([xid(), other], identity(), rules=REBOOTS).rung is Rung.REPLACE


def test_function_of_the_pci_address_makes_no_other_device() -> None:
    told = word(fields={"pci": "0000:91:00"})
    assert assess([xid(fields={"bare": "0000:91:00.0"}), told], identity(), rules=REBOOTS).rung is Rung.REBOOT


def test_fault_of_another_component_is_not_the_gpus_drivers_to_overrule() -> None:
    disk = xid(component="disk", rule="disk-medium-error", seq=3)
    assert assess([xid(), word(), disk], identity(), rules=REBOOTS).rung is Rung.REPLACE
