"""What the driver counts is a finding of its own: whatever became of the line (K12, and the loss of records)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.fault import FaultReport, Verdict
from contract.names import DEVICE_COUNTERS, FINDING_DIGESTS_ANNOTATION
from contract.proof import digest, is_proven
from detector import evidence
from detector.counters import SOURCE, Counters
from detector.reports import to_report
from detector.spool import read_entries
from tests.detecting.test_crashes import Life

UNCORRECTED = "mem_ecc_uncorrected"


class Machine:
    """A log in kmsg's format, and a driver that counts."""

    def __init__(self, folder: Path) -> None:
        self.log, self.spool, self.devices = folder / "kmsg", folder / "spool", folder / "devices"
        self.log.touch()
        for device in range(2):
            for counter in (UNCORRECTED, "mem_ecc_repairable_uncorrected", "sram_ecc_uncorrected"):
                self.count(device, 0, counter)

    def count(self, device: int, value: int, counter: str = UNCORRECTED) -> None:
        hardware = self.devices / f"neuron{device}" / "stats" / "hardware"
        hardware.mkdir(parents=True, exist_ok=True)
        (hardware / counter).write_text(f"{value}\n")

    def write(self, *numbers: int) -> None:
        with self.log.open("a") as handle:
            handle.writelines(f"6,{number},{number},-;usb 1-1: new device\n" for number in numbers)

    def lose_one(self) -> None:
        with self.log.open("a") as handle:
            handle.write("what no reader understands is a record that is lost\n")

    def spooled(self, kind: str = "finding") -> list[dict[str, Any]]:
        return [entry for entry in read_entries(str(self.spool))[0] if entry["kind"] == kind]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@contextmanager
def living(machine: Machine) -> Iterator[Life]:
    """One life of a detector."""
    life = Life(machine.log, machine.spool, machine.devices)
    try:
        yield life
    finally:
        life.end()


def look(life: Life) -> None:
    """The thread's part of a look, and the reader's."""
    assert life.counters.read()
    life.turn()


def test_counter_that_moved_while_records_were_lost_is_a_finding_and_one_that_stood_still_is_none(
    machine: Machine,
) -> None:
    with living(machine) as life:
        machine.write(1, 2)
        look(life)
        machine.lose_one()
        machine.count(1, 2)
        life.turn()
        assert "could not be read" in machine.spooled("note")[0]["message"]
        look(life)
        (found,) = machine.spooled()
        assert found["source"] == SOURCE
        assert (
            found["message"]
            == "The driver's mem_ecc_uncorrected of neuron1 went from 0 to 2, while kernel records were lost."
        )
        assert life.watch._conditions.worst()["NeuronHealth"]["reason"] == "NeuronCountersMoved"
        look(life)
        assert len(machine.spooled()) == 1


def test_loss_without_movement_is_told_as_a_loss_alone(machine: Machine) -> None:
    with living(machine) as life:
        machine.count(0, 7)
        machine.write(1)
        look(life)
        machine.lose_one()
        life.turn()
        look(life)
        assert machine.spooled("note")
        assert not machine.spooled()


def test_what_moved_while_the_detector_was_away_is_told_when_it_is_back(machine: Machine) -> None:
    with living(machine) as first:
        look(first)
        first.watch._save(force=True)
        first.turn()
    machine.count(0, 1)
    with living(machine) as second:
        look(second)
    assert [entry["signature"] for entry in machine.spooled()] == ["neuron-counters-moved/nd-id=0/mem_ecc_uncorrected"]


def test_storm_of_errors_of_a_device_is_told_at_a_bounded_rate_and_in_full(machine: Machine) -> None:
    counters = Counters(str(machine.devices))
    told = []
    for second in range(1200):
        machine.count(0, second)
        counters.read()
        told += counters.moved(float(second), 1e9 + second)
    assert [report["fields"]["after"] for report in told] == ["1", "601"]
    assert told[1]["fields"]["before"] == "1"
    assert len({report["seq"] for report in told}) == 2


def test_driver_that_was_loaded_again_counts_from_zero_and_that_is_no_error(machine: Machine) -> None:
    counters = Counters(str(machine.devices))
    found = []
    for value in (5, 0, 1):
        machine.count(0, value)
        counters.read()
        found += counters.moved(float(value), 1e9)
    assert [report["fields"]["before"] for report in found] == ["0"]


def test_repairable_error_is_repairable_and_ends_with_the_boot(machine: Machine) -> None:
    counters = Counters(str(machine.devices))
    for value in (0, 1):
        machine.count(0, value, "mem_ecc_repairable_uncorrected")
        counters.read()
        found = counters.moved(float(value), 1e9)
    assert (found[0]["verdict"], found[0]["evidence_end"]) == ("repairable", "boot")


def test_machine_without_such_devices_tells_nothing(tmp_path: Path) -> None:
    counters = Counters(str(tmp_path / "none"))
    assert not counters.read()
    assert counters.moved(0.0, 0.0) == []


def test_finding_travels_as_a_report_that_the_nodes_own_annotation_proves(machine: Machine) -> None:
    with living(machine) as life:
        look(life)
        machine.count(0, 1)
        look(life)
        report = to_report(machine.spooled()[0], "test", "node-1", None)
        assert (report.source, SOURCE) == (DEVICE_COUNTERS, DEVICE_COUNTERS)
        assert report.verdict is Verdict.AMBIGUOUS
        assert is_proven(report, {FINDING_DIGESTS_ANNOTATION: digest(report)})
        assert FaultReport.model_validate_json(report.model_dump_json()) == report


def test_line_cannot_pass_for_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may open the device can have a line written with any key."""
    forged = {"nd-id": "3", "neuron3.mem_ecc_uncorrected": "9", "machine.uptime_s": "1", "driver.neuron": "0"}
    assert [name for name in forged if not evidence.is_evidence(name)] == ["nd-id"]
    monkeypatch.setattr("detector.reports.gather", lambda *_: {"machine.uptime_s": "77"})
    entry = {
        "kind": "finding",
        "seq": 1,
        "rule": "r",
        "component": "neuron",
        "verdict": "ambiguous",
        "boot_id": "b",
        "condition_type": "NeuronHealth",
        "reason": "R",
        "signature": "s",
        "message": "m",
        "facility": 0,
        "level": 3,
        "kernel_time_us": 1,
        "first_seen": "2026-12-02T00:00:00Z",
        "last_seen": "2026-12-02T00:00:00Z",
        "fields": forged,
    }
    assert to_report(entry, "test", "node-1", None).fields == {"nd-id": "3", "machine.uptime_s": "77"}
