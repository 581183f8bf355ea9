"""What an incident spends its time on is read from its report."""

from datetime import timedelta

from contract.incident import IncidentReport, StepRecord, StepStatus
from contract.names import Interval, Phase, Step
from tests.runbook.world import NOW, finding
from workflows.intervals import intervals


def at(seconds: int) -> timedelta:
    return timedelta(seconds=seconds)


def step(name: Step, start: int, end: int, status: StepStatus = StepStatus.DONE) -> StepRecord:
    return StepRecord(step=name, status=status, started_at=NOW + at(start), ended_at=NOW + at(end))


def report(*steps: StepRecord, opened: int = 3) -> IncidentReport:
    return IncidentReport(
        incident_id="i",
        run_id="r",
        cluster="test",
        node="node-1",
        phase=Phase.CLOSED,
        summary="",
        opened_at=NOW + at(opened),
        findings=(finding(first_seen=NOW), finding(first_seen=NOW + at(1), signature="later")),
        steps=steps,
    )


def test_each_interval_goes_from_the_start_of_its_first_step_to_the_end_of_its_last() -> None:
    found = intervals(
        report(
            step(Step.QUARANTINE, 3, 4),
            step(Step.CHECKPOINT, 10, 70),
            step(Step.DRAIN, 70, 100),
            step(Step.REPLACE, 100, 101),
            step(Step.AWAIT_REPLACEMENT, 101, 401),
            step(Step.VERIFY, 401, 521),
        )
    )
    assert found == {
        Interval.DETECT: at(3),
        Interval.QUARANTINE: at(1),
        Interval.CHECKPOINT: at(60),
        Interval.DRAIN: at(30),
        Interval.REPLACE: at(301),
        Interval.VERIFY: at(120),
    }


def test_a_step_that_was_not_done_makes_no_interval() -> None:
    unfinished = (StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.SHADOWED)
    assert all(Interval.DRAIN not in intervals(report(step(Step.DRAIN, 5, 9, status))) for status in unfinished)


def test_a_machine_given_up_and_not_replaced_yet_makes_no_interval() -> None:
    assert Interval.REPLACE not in intervals(report(step(Step.REPLACE, 5, 9)))


def test_a_node_whose_clock_is_ahead_is_detected_in_no_time_and_not_in_less() -> None:
    assert intervals(report(opened=-60))[Interval.DETECT] == timedelta(0)
