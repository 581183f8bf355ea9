"""Captures as they really come: in every form, compressed, damaged; and what is no capture is refused with a way on."""

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.errors import CommandError
from cli.judging.facts import Given, from_options
from cli.judging.replay import Replayed, replay
from contract.names import ExitCode
from contract.policy import Policy
from detector.catalogue import catalogue

XID = "NVRM: Xid (PCI:0000:91:00): 79, GPU has fallen off the bus."
PLAIN = f"[    1.000000] Linux version 6.1\n[   12.345678] {XID}\n"
ENTRY = {"_TRANSPORT": "kernel", "MESSAGE": XID, "PRIORITY": "3", "__REALTIME_TIMESTAMP": "1764600000000000"}
BOOT = {"pri": 6, "time": "    1.000000", "msg": "Linux version 6.1"}
DMESG = {"dmesg": [BOOT, {"pri": 3, "time": 12.3, "msg": XID}]}
HEADS = [b"", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00", b"{", b"[{", b"\x1e{"]
RULES = catalogue()
PACKERS: list[Callable[[bytes], bytes]] = [gzip.compress, bz2.compress, lzma.compress]


def played(folder: Path, data: bytes) -> Replayed:
    file = folder / "capture"
    file.write_bytes(data)
    return replay(str(file), RULES, from_options(Given("gpu-1", "trn1", "", "i-0123456789abcdef0")), Policy(), 16)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        f"[Tue Dec  1 05:00:00 2026] {XID}\n",
        f"Dec 02 05:00:00 gpu-1 kernel: {XID}\n",
        f"3,1,12345678,-;{XID}\n SUBSYSTEM=pci\n",
        json.dumps(ENTRY),
        json.dumps(ENTRY, indent=4) * 2,
        json.dumps([ENTRY, ENTRY]),
        f"\x1e{json.dumps(ENTRY)}\n\x1e{json.dumps(ENTRY)}\n",
        json.dumps({**ENTRY, "_CMDLINE": "x" * 9000}),
        json.dumps(DMESG, indent=3),
        json.dumps(DMESG),
        json.dumps({"dmesg": [{"fac": "kern", "pri": "err", "time": 12.3, "msg": XID}]}, indent=3),
    ],
)
@pytest.mark.parametrize("pack", [bytes, *PACKERS])
def test_capture_is_read_in_every_form_and_packing(tmp_path: Path, text: str, pack: Callable[[bytes], bytes]) -> None:
    told = played(tmp_path, pack(text.encode()))
    assert {finding.rule for finding in told.findings} == {"nvidia-xid-hardware"}
    assert told.tally.unparsable == 0


@pytest.mark.parametrize(
    ("data", "way_on"),
    [
        (b"", "dmesg"),
        (b"\0" * 5000, "dmesg"),
        (random.Random(9).randbytes(5000), "dmesg"),
        (gzip.compress(random.Random(9).randbytes(5000)), "dmesg"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 99, "zstdcat"),
        (b"PK\x03\x04" + b"x" * 99, "Unpack"),
        (b"LPKSHHRH" + b"\0" * 99, "journalctl --file"),
        (PLAIN.encode("utf-16"), "iconv"),
        (b"\xfd7zXZ\x00" + b"x" * 99, "journalctl -k"),
        (b'{"_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid', "journalctl -k"),
        (json.dumps({"_TRANSPORT": "stdout", "MESSAGE": XID}).encode(), "journalctl -k"),
    ],
)
def test_what_is_no_capture_is_refused_with_what_to_give_instead(tmp_path: Path, data: bytes, way_on: str) -> None:
    with pytest.raises(CommandError) as raised:
        played(tmp_path, data)
    assert raised.value.code == ExitCode.DATA
    assert way_on in str(raised.value)


def test_capture_that_was_cut_short_is_read_as_far_as_it_goes_and_said_to_be(tmp_path: Path) -> None:
    many = "".join(f"[{at:5}.{at * 7919 % 999983:06}] {XID} {at * 104729 % 7919}\n" for at in range(6_000))
    told = played(tmp_path, gzip.compress(many.encode())[:-500])
    assert told.findings
    assert "cut short" in told.notes[-1]


def test_json_that_was_cut_short_gives_the_records_that_are_whole(tmp_path: Path) -> None:
    whole = json.dumps({"dmesg": [*DMESG["dmesg"], *DMESG["dmesg"]]}, indent=3)
    told = played(tmp_path, whole[:-40].encode())
    assert told.tally.records == 3
    assert "cut short" in told.notes[-1]


def test_holes_that_a_crash_left_in_a_log_hide_nothing(tmp_path: Path) -> None:
    """A file system that lost power may leave runs of NUL, at the beginning of a rotated log as well."""
    told = played(tmp_path, b"\0" * 2000 + b"\n" + PLAIN.encode())
    assert [finding.rule for finding in told.findings] == ["nvidia-xid-hardware"]


@given(data=st.binary(max_size=3000), head=st.sampled_from(HEADS))
def test_nothing_that_is_given_is_worse_than_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, head: bytes
) -> None:
    with suppress(CommandError):
        played(tmp_path_factory.getbasetemp(), head + data)
