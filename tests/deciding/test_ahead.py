"""What the page of an incident says comes next."""

from datetime import timedelta

import pytest

from contract.names import Step
from contract.plan import Rung
from tests.deciding.test_narrator import incident
from tests.runbook.world import NOW
from workflows.ahead import ahead
from workflows.narrator import narrate
from workflows.override_table import Stand


@pytest.mark.parametrize(
    ("step", "rung", "comes"),
    [
        (Step.IDENTIFY, None, ("quarantine", "settle", "assess", "what is decided then")),
        (Step.IDENTIFY, Rung.OBSERVE, ("close",)),
        (Step.QUARANTINE, Rung.QUARANTINE, ("settle", "assess", "a human decides")),
        (Step.DRAIN, Rung.RESET_DEVICE, ("reset-device", "close")),
        (Step.DRAIN, Rung.REBOOT, ("reboot", "close")),
        (Step.DRAIN, Rung.REPLACE, ("replace", "await-replacement", "verify", "close")),
        (Step.VERIFY, Rung.REPLACE, ("close",)),
        (Step.CLOSE, Rung.REPLACE, ()),
    ],
)
def test_what_comes_next_is_the_rest_of_the_runbook_for_this_repair(
    step: Step, rung: Rung | None, comes: tuple[str, ...]
) -> None:
    assert ahead(step, rung) == comes


def test_what_is_done_is_not_promised_again_when_the_next_repair_is_tried() -> None:
    made = incident()
    made.end(Step.DRAIN, NOW + timedelta(minutes=1), "14 pods evicted.")
    made.begin(Step.ASSESS, NOW + timedelta(minutes=5), "The reboot did not help.")
    assert "Next: preserve, disrupt, replace, await-replacement, verify, close." in narrate(
        made.report(), Stand.RUNNING, Step.ASSESS
    )
