"""The thread that waits for the disk: the reader never does, and the cursor is never ahead of the findings."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from detector import keeper as keeper_module
from detector.keeper import Keeper
from detector.spool import SPOOL, STATE, Spool, read_entries


def finding(seq: int, verdict: str = "hardware") -> dict[str, Any]:
    return {"verdict": verdict, "seq": seq, "boot_id": "b", "signature": "s", "count": 1}


def make(folder: Path) -> Keeper:
    return Keeper(Spool(str(folder)), lambda: None)


def test_c19_k23_hung_disk_stops_no_reader_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung, answers = threading.Event(), threading.Event()
    fsync = os.fsync

    def hang(descriptor: int) -> None:
        hung.set()
        assert answers.wait(30)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", hang)
    keeper = make(tmp_path)
    keeper.start()
    keeper.submit("finding", finding(1))
    assert hung.wait(30)
    for seq in range(2, 500):
        keeper.submit("finding", finding(seq))
    keeper.keep("{}")
    assert keeper.stuck_s() > 0
    assert keeper.waiting == 499
    assert not (tmp_path / STATE).exists()
    answers.set()
    assert keeper.stop(30)
    assert [entry["seq"] for entry in read_entries(str(tmp_path))[0]] == list(range(1, 500))
    assert (tmp_path / STATE).read_text() == "{}"


def test_k23_what_waits_for_a_disk_is_bounded_and_the_least_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "_WAITING_MOST", 3)
    keeper = make(tmp_path)
    for seq, verdict in enumerate(("notice", "hardware", "ambiguous", "hardware", "hardware")):
        keeper.submit("finding", finding(seq, verdict))
    assert keeper.dropped == {"notice": 1, "ambiguous": 1}
    keeper.write_pending()
    assert [entry["seq"] for entry in read_entries(str(tmp_path))[0]] == [1, 3, 4]


def test_full_disk_is_said_and_findings_wait_before_the_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = make(tmp_path)
    (tmp_path / SPOOL).symlink_to("/dev/full")
    keeper.submit("finding", finding(1))
    keeper.keep('{"seq": 1}')
    keeper.write_pending()
    assert "No space left" in keeper.problem
    assert "make room" in capsys.readouterr().err
    assert not (tmp_path / STATE).exists()
    (tmp_path / SPOOL).unlink()
    keeper.write_pending()
    assert not keeper.problem
    assert len(read_entries(str(tmp_path))[0]) == 1
    assert (tmp_path / STATE).exists()


def test_newest_state_wins_and_nothing_is_left(tmp_path: Path) -> None:
    keeper = make(tmp_path)
    for number in range(5):
        keeper.keep(str(number))
    assert keeper.write_pending()
    assert keeper.idle
    assert not keeper.write_pending()
    assert (tmp_path / STATE).read_text() == "4"


def test_finding_that_is_spooled_already_is_not_spooled_again(tmp_path: Path) -> None:
    for _ in range(2):
        keeper = make(tmp_path)
        keeper.submit("finding", finding(1))
        keeper.write_pending()
    assert len(read_entries(str(tmp_path))[0]) == 1
