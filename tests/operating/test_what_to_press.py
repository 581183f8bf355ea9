"""A terminal offers what the incident takes: the same table judges what is pressed."""

from datetime import timedelta
from typing import Any

import pytest

from cli.errors import CommandError
from cli.pressing import press_override
from cli.views import offered
from contract.gates import GateRecord
from contract.incident import IncidentReport, StepRecord, StepStatus
from contract.names import ExitCode, OverrideName, Phase, Step
from tests.reporting.sample import BEGAN, closed
from workflows.override_table import Stand, allowed


def waiting(step: Step, status: StepStatus, *, gate: bool = False) -> IncidentReport:
    """An incident that waits for a human at a step."""
    steps = (StepRecord(step=step, status=status, started_at=BEGAN, summary="?"),)
    gates = (GateRecord(before=Step.DISRUPT, plan="1a2b3c4d", why="so", asked_at=BEGAN),) if gate else ()
    return closed(outcome=None, phase=Phase.NEEDS_HUMAN, steps=steps, gates=gates)


@pytest.mark.parametrize(
    ("report", "stand"),
    [
        (waiting(Step.DISRUPT, StepStatus.WAITING, gate=True), Stand.AT_GATE),
        (waiting(Step.DRAIN, StepStatus.FAILED), Stand.PARKED),
        (waiting(Step.ASSESS, StepStatus.WAITING), Stand.PARKED_UNDECIDED),
        (waiting(Step.VERIFY, StepStatus.FAILED), Stand.COMMITTED_PARKED),
    ],
    ids=["at a gate", "failed", "undecided", "past the point of no return"],
)
def test_what_is_offered_is_what_is_taken_where_the_incident_stands(report: IncidentReport, stand: Stand) -> None:
    assert offered(report) == allowed(stand, report.steps[-1].step)
    assert OverrideName.ACKNOWLEDGE in offered(report)


def test_a_gate_that_was_passed_is_waited_at_no_more() -> None:
    report = waiting(Step.DRAIN, StepStatus.FAILED, gate=True)
    passed = report.gates[0].model_copy(update={"passed_at": BEGAN + timedelta(minutes=1)})
    assert OverrideName.RESUME in offered(report.model_copy(update={"gates": (passed,)}))


WRONG: list[tuple[dict[str, str], str]] = [
    ({"reason": ""}, "--reason is empty"),
    ({"reason": " \t "}, "--reason is empty"),
    ({"reason": "x" * 10_000}, "--reason is too long"),
    ({"by": " "}, "--by is empty"),
    ({"act": "x" * 101}, "--id is too long"),
    ({"plan": "x" * 101}, "--plan is too long"),
    ({"extension": "30m"}, "--extension is no duration"),
    ({"extension": "-PT30M"}, "--extension is not above zero"),
    ({"extension": "P3D"}, "--extension is too long"),
]


@pytest.mark.parametrize(("given", "words"), WRONG, ids=[words for _, words in WRONG])
async def test_what_is_wrong_with_an_argument_is_said_in_words_with_what_to_give_and_nothing_is_sent(
    given: dict[str, str], words: str
) -> None:
    nobody: Any = None
    with pytest.raises(CommandError) as refused:
        await press_override(nobody, OverrideName.EXTEND_DEADLINE, **{"by": "ada", "reason": "r", **given})
    problem, remedy = str(refused.value).splitlines()
    assert (problem, refused.value.code) == (f"{words}.", ExitCode.USAGE)
    assert remedy.startswith(("Say who presses and why", "Give "))
