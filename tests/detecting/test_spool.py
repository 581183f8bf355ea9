"""The spool: nothing lost, nothing torn, bounded, and the least goes first when it is full."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detector import spool as spool_module
from detector.spool import DELIVERED, SPOOL, Spool, read_entries, write_json


def finding(verdict: str = "hardware", seq: int = 1) -> dict[str, Any]:
    return {"verdict": verdict, "seq": seq, "boot_id": "b"}


def test_what_was_appended_is_there_after_a_restart(tmp_path: Path) -> None:
    first = Spool(str(tmp_path))
    first.append("finding", finding(seq=1))
    first.append("finding", finding(seq=2))
    assert [entry["seq"] for entry in Spool(str(tmp_path)).entries] == [1, 2]


@given(cut=st.integers(1, 60))
@settings(max_examples=25)
def test_torn_last_line_loses_that_line_alone_and_the_next_one_is_whole(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(str(folder))
    spool.append("finding", finding(seq=1))
    whole = (folder / SPOOL).read_bytes()
    spool.append("finding", finding(seq=2))
    data = (folder / SPOOL).read_bytes()
    (folder / SPOOL).write_bytes(data[: max(len(whole), len(data) - cut)])
    again = Spool(str(folder))
    again.append("finding", finding(seq=3))
    # Without its newline alone, the second is still whole.
    assert [entry["seq"] for entry in read_entries(str(folder))[0]] == ([1, 2, 3] if cut == 1 else [1, 3])


def test_corrupt_line_is_counted_and_the_others_are_kept(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    spool.append("finding", finding(seq=1))
    with (tmp_path / SPOOL).open("a") as handle:
        handle.write("\x00\x00garbage\n")
    spool = Spool(str(tmp_path))
    assert (spool.broken, [entry["seq"] for entry in spool.entries]) == (1, [1])


def test_entry_leaves_when_both_sides_have_it_and_ids_never_come_back(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    for seq in (1, 2, 3):
        spool.append("finding", finding(seq=seq))
    write_json(str(tmp_path / DELIVERED), {"temporal": 3, "node": 1})
    spool.collect()
    assert [entry["id"] for entry in spool.entries] == [2, 3]
    write_json(str(tmp_path / DELIVERED), {"temporal": 3, "node": 3})
    spool.collect()
    assert spool.empty
    again = Spool(str(tmp_path))
    again.append("finding", finding(seq=4))
    assert again.entries[0]["id"] == 4


def test_k23_full_spool_drops_a_notice_before_any_hardware_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "_MOST_ENTRIES", 5)
    spool = Spool(str(tmp_path))
    for seq, verdict in enumerate(
        ["notice", "hardware", "application", "hardware", "ambiguous", "hardware", "hardware"]
    ):
        spool.append("finding", finding(verdict, seq))
    assert sorted(entry["verdict"] for entry in spool.entries) == ["ambiguous"] + ["hardware"] * 4
    assert spool.dropped == {"notice": 1, "application": 1}
    assert [e["seq"] for e in Spool(str(tmp_path)).entries] == [e["seq"] for e in spool.entries]


def test_full_disk_leaves_no_half_line_and_the_entry_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(str(tmp_path))
    spool.append("finding", finding(seq=1))
    write = os.write

    def short(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[:7])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="No space"):
        spool.append("finding", finding(seq=2))
    monkeypatch.undo()
    spool.append("finding", finding(seq=2))
    lines = (tmp_path / SPOOL).read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]
