"""A detector that dies at any moment: no finding is lost, and none counts twice.

The process is the test's own: a crash is an exception out of the n-th act on the disk, after part of it was done, and
the next life begins with what is on the disk. Real processes and real kills are in ``test_killed_detectors``.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector.catalogue import catalogue
from detector.counters import Counters
from detector.couriers import Couriers
from detector.exporter import Exporter
from detector.marker import Marker
from detector.spool import DELIVERED, STATE, read_delivered, read_entries, write_json
from detector.watch import Watch

RULES = catalogue()
DEVICES = 6


class Crash(BaseException):
    """The process is gone."""


class NoCouriers(Couriers):
    """The test delivers by itself."""

    def start(self, overlay: str) -> bool:  # noqa: ARG002
        return False


@contextmanager
def crashing_at(act: int, part: float) -> Iterator[None]:
    """The n-th write, sync or rename from now on is the last thing that happens, and is done in part."""
    left = act
    real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in ("write", "fsync", "replace")}

    def write(descriptor: int, data: bytes) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            real["write"](descriptor, bytes(data)[: int(len(data) * part)])
            raise Crash
        return int(real["write"](descriptor, data))

    def other(name: str) -> Callable[..., Any]:
        def act(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash
            return real[name](*arguments)

        return act

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        for name in ("fsync", "replace"):
            patch.setattr(os, name, other(name))
        yield


class Life:
    """One life of a watch, turned by hand."""

    def __init__(self, log: Path, folder: Path, devices: Path | None = None) -> None:
        self.exporter = Exporter("127.0.0.1", 0)
        self.counters = Counters(str(devices or folder / "no-devices"))
        parts = self.exporter, Marker(str(log), 0), NoCouriers(str(folder)), self.counters
        self.watch = Watch(str(log), str(folder), RULES, *parts)

    def turn(self) -> None:
        self.watch._more, self.watch._house_at = True, 0.0  # wait for nothing, see to everything
        self.watch.turn()
        while self.watch.keeper.write_pending():
            assert not self.watch.keeper.problem

    def end(self) -> None:
        if self.watch._reader:
            self.watch._reader.close()
        self.exporter._socket.close()
        os.close(self.watch._wake)


def deliver(folder: Path, delivered: list[str]) -> None:
    """What a courier does: deliver in order, then note it."""
    done = read_delivered(str(folder))["temporal"]
    for entry in read_entries(str(folder))[0]:
        if entry["id"] > done and entry["kind"] == "finding":
            request_id = hashlib.sha256(f"{entry['boot_id']}/{entry['seq']}/{entry['count']}".encode()).hexdigest()
            delivered.append(f"{entry['seq']}:{request_id}")
        write_json(str(folder / DELIVERED), {"temporal": entry["id"], "node": entry["id"]})


@given(crashes=st.lists(st.tuples(st.integers(0, 14), st.floats(0, 1)), max_size=5), courier=st.booleans())
@settings(max_examples=40)
def test_k6_killed_at_any_act_on_the_disk_nothing_is_lost_and_nothing_is_two_findings(
    tmp_path_factory: pytest.TempPathFactory, crashes: list[tuple[int, float]], courier: bool
) -> None:
    folder = tmp_path_factory.mktemp("life")
    log, spool = folder / "kmsg", folder / "spool"
    log.touch()
    delivered: list[str] = []
    for device in range(DEVICES):
        with log.open("a") as handle:
            handle.write(f"6,{2 * device},1,-;usb 1-1: new device\n")
            handle.write(f"3,{2 * device + 1},1,-;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id={device}\n")
        life = Life(log, spool)
        try:
            if device < len(crashes):
                with crashing_at(*crashes[device]):
                    life.turn()
                    life.turn()
            else:
                life.turn()
        except Crash:
            pass
        finally:
            life.end()
        if courier:
            deliver(spool, delivered)
    last = Life(log, spool)
    last.turn()
    last.end()
    deliver(spool, delivered)
    told = {request.partition(":")[0] for request in delivered}
    assert told == {str(2 * device + 1) for device in range(DEVICES)}
    # Told again, it is under the same request id, which Temporal takes once.
    assert len(set(delivered)) == DEVICES


@pytest.mark.parametrize("damage", [b"", b"{", b"\x00" * 100, b"[]", b'{"boot_id": 3}'], ids=repr)
def test_damaged_state_is_said_and_all_of_the_boot_is_read_again(tmp_path: Path, damage: bytes) -> None:
    log, spool = tmp_path / "kmsg", tmp_path / "spool"
    log.write_text("3,1,1,-;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=1\n")
    spool.mkdir()
    (spool / STATE).write_bytes(damage)
    life = Life(log, spool)
    life.turn()
    life.turn()
    life.end()
    entries, _ = read_entries(str(spool))
    assert [entry["seq"] for entry in entries if entry["kind"] == "finding"] == [1]
    notes = {entry["reason"] for entry in entries if entry["kind"] == "note"}
    assert notes == ({"DetectorStartedOver"} if b"boot" not in damage else set())


def test_state_of_another_version_is_taken_up_as_far_as_it_goes(tmp_path: Path) -> None:
    log, spool = tmp_path / "kmsg", tmp_path / "spool"
    log.write_text("3,1,1,-;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=1\n")
    life = Life(log, spool)
    life.turn()
    life.end()
    state = json.loads((spool / STATE).read_text())
    odd = {"NeuronHealth": {**state["conditions"]["NeuronHealth"], "x": {"new": 1}}, "OldHealth": {"reason": "r"}}
    (spool / STATE).write_text(json.dumps({**state, "seq": "1", "conditions": odd, "findings": {"x": 3, "y": {}}}))
    life = Life(log, spool)
    life.turn()
    life.end()
    after = json.loads((spool / STATE).read_text())
    assert set(after["worst"]) == {"NeuronHealth"}
    assert after["seq"] == 1


def test_c7_reboot_reads_from_the_oldest_and_forgets_what_a_boot_ends(tmp_path: Path) -> None:
    log, spool = tmp_path / "kmsg", tmp_path / "spool"
    log.write_text(
        "3,5,1,-;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=1\n"
        "3,6,1,-;BUG: kernel NULL pointer dereference, address: 0\n"
    )
    life = Life(log, spool)
    life.turn()
    life.end()
    state = json.loads((spool / STATE).read_text())
    assert set(state["worst"]) == {"NeuronHealth", "KernelHealth"}
    (spool / STATE).write_text(json.dumps({**state, "boot_id": "another boot"}))
    log.write_text("3,1,1,-;Linux version 6.1\n")
    life = Life(log, spool)
    life.turn()
    life.end()
    after = json.loads((spool / STATE).read_text())
    assert after["seq"] == 1
    assert set(after["worst"]) == {"NeuronHealth"}


def test_c16_disk_of_another_machine_brings_none_of_its_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, spool = tmp_path / "kmsg", tmp_path / "spool"
    log.write_text("3,1,1,-;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=1\n")
    monkeypatch.setenv("NODEMEND_INSTANCE_ID", "i-0000000000000000a")
    life = Life(log, spool)
    life.turn()
    life.end()
    assert len(read_entries(str(spool))[0]) == 1
    log.write_text("3,1,1,-;Linux version 6.1\n")
    monkeypatch.setenv("NODEMEND_INSTANCE_ID", "i-0000000000000000b")
    life = Life(log, spool)
    life.turn()
    life.end()
    assert [entry["kind"] for entry in read_entries(str(spool))[0]] == ["note"]
    assert json.loads((spool / STATE).read_text())["worst"] == {}
