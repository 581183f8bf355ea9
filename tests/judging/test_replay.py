"""`nodemend replay`: the detector and the decisions over a captured log, at the log's own time, whatever its form."""

import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli.errors import CommandError
from cli.judging.captures import LINE_MAX, Capture
from cli.judging.facts import Given, from_options
from cli.judging.replay import Replayed, play
from cli.main import app
from contract.names import ExitCode
from contract.plan import Rung
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import RebootMode, ReplacementPolicy
from detector.catalogue import catalogue
from detector.findings import REPORT_AGAIN_S

OUTAGE = Path(__file__).with_name("outage.log")
"""A day of one trn1 node: corrected errors creeping up, a DMA error, a reset that fails, a reboot, a dead NVMe."""
RULES = catalogue()
UNTIL = datetime(2026, 12, 2, tzinfo=UTC)
ACTS = Policy(default=GroupPolicy(mode=Mode.ACT))
DMA = "NEURON_HW_ERR=DMA_ERROR nd-id=3"
HBM = "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3"
REPAIRABLE = "NEURON_HW_ERR=REPAIRABLE_HBM_UNCORRECTABLE_ERROR nd-id=2 action=REBOOT"


def replayed(text: str | bytes, policy: Policy = ACTS) -> Replayed:
    data = text if isinstance(text, bytes) else text.encode()
    facts = from_options(Given("gpu-1", "trn1", "", "i-0592464924bd45322"))
    return play("a capture", Capture(io.BytesIO(data), UNTIL), RULES, facts, policy, 16)


def found(played: Replayed) -> list[tuple[str, int]]:
    return [(finding.signature, finding.count) for finding in played.findings]


# --- the day ------------------------------------------------------------------------------------------------------


def test_the_day_of_the_outage_is_told_as_it_went() -> None:
    played = replayed(OUTAGE.read_bytes())
    assert (played.boots, played.tally.unparsable, played.tally.not_kernel) == (2, 0, 3)
    assert [finding.reason for finding in played.findings] == [
        "MemoryCorrectedError",
        "NeuronHasError_DMA_ERROR",
        "NeuronResetFailed",
        "NvmeTrouble",
        "NvmeNotReady",
        "DiskIoError",
        "FilesystemReadOnly",
        "FilesystemReadOnly",
    ]
    creeping, doubtful = played.decisions
    # A hundred within a day: told at the hundredth, and recorded only.
    assert (creeping.plan.rung, played.findings[0].count) == (Rung.OBSERVE, 100)
    # The DMA error alone proves nothing; the dead disk of the afternoon decides, and what came after is not needed.
    assert (doubtful.plan.rung, doubtful.changed, doubtful.findings_after_replacement) == (Rung.REPLACE, 1, 3)
    says = [event.what for event in played.timeline]
    assert says.count("boot") == 1
    assert says.index("decision", says.index("boot")) > 0
    # A line of another program that looks like a fault is none.
    assert not any("HBM" in finding.reason for finding in played.findings)


def test_a_storm_is_one_finding_told_once_a_minute_of_the_log(tmp_path: Path) -> None:
    """K26, by the clock of the capture: not a second of ours passes."""
    played = replayed("".join(f"[{second:5d}.000000] {DMA}\n" for second in range(600)))
    assert found(played) == [("neuron-hardware-error/code=DMA_ERROR/nd-id=3", 600)]
    assert [event.what for event in played.timeline].count("again") == 600 // REPORT_AGAIN_S


def test_quiet_faults_are_told_when_their_threshold_is_crossed_within_its_window() -> None:
    oom = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=7,uid=0"
    line = "EDAC MC0: 1 CE memory read error on DIMM#0"
    assert found(replayed(f"[1.0] {oom}\n")) == []
    near = "".join(f"[{10 * number}.0] {line}\n" for number in range(100))
    far = "".join(f"[{2000 * number}.0] {line}\n" for number in range(100))
    assert (len(replayed(near).findings), len(replayed(far).findings)) == (1, 0)


# --- every form that people have ----------------------------------------------------------------------------------

LINES = ((1.5, "EDAC MC: Ver: 3.0.0"), (60.25, DMA), (61.5, HBM), (400.0, DMA))
START = 1_795_000_000.0


def _iso(seconds: float, form: str) -> str:
    return datetime.fromtimestamp(START + seconds, UTC).strftime(form)


def _journal(seconds: float, text: str, **more: object) -> str:
    entry = {
        "_TRANSPORT": "kernel",
        "_BOOT_ID": "a" * 32,
        "PRIORITY": "3",
        "SYSLOG_FACILITY": "0",
        "MESSAGE": text,
        "_SOURCE_MONOTONIC_TIMESTAMP": str(int(seconds * 1e6)),
        "__REALTIME_TIMESTAMP": str(int((START + seconds) * 1e6)),
    }
    return json.dumps({**entry, **more})


FORMS = {
    "dmesg": [f"[{at:12.6f}] {text}" for at, text in LINES],
    "dmesg with callers": [f"[{at:12.6f}][  T123] {text}" for at, text in LINES],
    "dmesg -x": [f"kern  :err   : [{at:12.6f}] {text}" for at, text in LINES],
    "dmesg -r": [f"<3>[{at:12.6f}] {text}" for at, text in LINES],
    "dmesg -T": [f"[{_iso(at, '%a %b %d %H:%M:%S %Y')}] {text}" for at, text in LINES],
    "dmesg iso": [f"{_iso(at, '%Y-%m-%dT%H:%M:%S,%f+00:00')} {text}" for at, text in LINES],
    "dmesg -t": [text for _, text in LINES],
    "kmsg": [f"3,{seq},{int(at * 1e6)},-;{text}\n SUBSYSTEM=pci" for seq, (at, text) in enumerate(LINES)],
    "journalctl -k": [f"{_iso(at, '%b %d %H:%M:%S')} gpu-1 kernel: {text}" for at, text in LINES],
    "journalctl iso": [f"{_iso(at, '%Y-%m-%dT%H:%M:%S+0000')} gpu-1 kernel: {text}" for at, text in LINES],
    "journalctl monotonic": [f"[{at:12.6f}] gpu-1 kernel: {text}" for at, text in LINES],
    "kern.log": [f"{_iso(at, '%b %d %H:%M:%S')} gpu-1 kernel: [{at:12.6f}] {text}" for at, text in LINES],
    "journalctl -o json": [_journal(at, text) for at, text in LINES],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_capture_says_the_same(form: str) -> None:
    played = replayed("\n".join(FORMS[form]) + "\n")
    assert found(played) == [
        ("neuron-hardware-error/code=DMA_ERROR/nd-id=3", 2),
        ("neuron-memory-uncorrectable/code=HBM_UNCORRECTABLE_ERROR/nd-id=3", 1),
    ]
    assert [decision.plan.rung for decision in played.decisions] == [Rung.REPLACE]
    assert (played.boots, played.tally.records, played.tally.unparsable) == (1, 4, 0)
    first, last = played.findings[0].first, played.findings[0].last
    if form != "dmesg -t":
        # Told again when a minute was over and another had come: at the very line, 339.75 s later.
        assert 339 <= (last.since_boot_s - first.since_boot_s) <= 340
    if played.wall_clock:
        assert first.at is not None
        assert int(first.at.timestamp()) == int(START + 60.25)


def test_bytes_that_the_journal_cannot_print_are_read() -> None:
    assert len(replayed(_journal(1.0, "", MESSAGE=list(b"\x1b" + DMA.encode()))).findings) == 1


def test_a_line_of_the_journal_that_user_space_wrote_into_the_kernel_log_is_a_drill() -> None:
    (decision,) = replayed(_journal(1.0, HBM, SYSLOG_FACILITY="1")).decisions
    assert (decision.drill, decision.mode) == (True, Mode.SHADOW)


def test_a_capture_that_cannot_tell_user_space_from_the_kernel_says_so() -> None:
    assert any("none as a drill" in note for note in replayed(f"[1.0] {DMA}\n").notes)
    assert not any("none as a drill" in note for note in replayed(f"3,1,1,-;{DMA}\n").notes)


# --- boots ----------------------------------------------------------------------------------------------------------

BOOT = "Linux version 6.1.0 (builder@host) #1 SMP"


@pytest.mark.parametrize(
    "capture",
    [
        f"[500.0] {REPAIRABLE}\n[0.0] {BOOT}\n[90.0] usb 1-1: new device\n",
        f"4,900,500000000,-;{REPAIRABLE}\n6,0,0,-;{BOOT}\n",
        f"{_journal(500.0, REPAIRABLE)}\n{_journal(0.0, BOOT, _BOOT_ID='b' * 32)}\n",
        f"-- Boot {'a' * 32} --\n2026-12-01T00:00:00+0000 h kernel: {REPAIRABLE}\n-- Boot {'b' * 32} --\n"
        f"2026-12-01T00:01:00+0000 h kernel: {BOOT}\n",
    ],
    ids=["clock", "number", "journal-json", "journal"],
)
def test_c6_a_boot_ends_the_evidence_that_ends_with_it(capture: str) -> None:
    played = replayed(capture)
    assert played.boots == 2
    assert [decision.outcome for decision in played.decisions] == ["stale"]


def test_a_boot_stands_for_the_reboot_that_was_decided_and_the_next_decision_climbs() -> None:
    policy = Policy(default=GroupPolicy(mode=Mode.ACT, replacement=ReplacementPolicy(reboot=RebootMode.REPAIRABLE)))
    played = replayed(f"[500.0] {REPAIRABLE}\n[0.0] {BOOT}\n[90.0] {REPAIRABLE}\n", policy)
    assert [decision.plan.rung for decision in played.decisions] == [Rung.REBOOT, Rung.REPLACE]


def test_hardware_does_not_heal_by_booting() -> None:
    (decision,) = replayed(f"[500.0] {HBM}\n[0.0] {BOOT}\n[90.0] usb 1-1: new device\n").decisions
    assert (decision.plan.rung, decision.outcome) == (Rung.REPLACE, None)


# --- the policy -----------------------------------------------------------------------------------------------------


def test_shadow_decides_the_same_and_gives_nothing_up() -> None:
    (decision,) = replayed(f"[1.0] {HBM}\n[2.0] {DMA}\n", Policy()).decisions
    assert (decision.mode, decision.plan.rung, decision.findings_after_replacement) == (Mode.SHADOW, Rung.REPLACE, 0)


def test_an_approval_that_is_asked_for_keeps_the_machine() -> None:
    policy = Policy.model_validate({"default": {"mode": "act", "approve_before": ["replace"]}})
    (decision,) = replayed(f"[1.0] {HBM}\n[2.0] {DMA}\n", policy).decisions
    assert "an approval" in decision.gate
    assert decision.findings_after_replacement == 0


def test_the_budget_is_asked_at_the_time_of_the_log() -> None:
    windows = {"maintenance": [{"days": ["sat"], "start": "10:00", "end": "11:00"}], "mode": "act"}
    policy = Policy.model_validate({"default": windows})
    at = ("2026-11-14T10:30:00+0000", "2026-11-14T12:30:00+0000")
    waits = [
        [permit.granted for permit in replayed(f"{when} h kernel: {HBM}\n", policy).decisions[0].permits] for when in at
    ]
    assert waits == [[True, True], [True, False]]


# --- whatever comes -------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=80),
            st.sampled_from([line.encode() for lines in FORMS.values() for line in lines]),
            st.builds(
                lambda line, at, junk: line.encode()[:at] + junk + line.encode()[at:],
                st.sampled_from([line for lines in FORMS.values() for line in lines]),
                st.integers(0, 60),
                st.binary(max_size=6),
            ),
            st.dictionaries(
                st.sampled_from(
                    ["MESSAGE", "_TRANSPORT", "PRIORITY", "SYSLOG_FACILITY", "_BOOT_ID", "__REALTIME_TIMESTAMP"]
                ),
                st.sampled_from(
                    ["kernel", DMA, "9" * 30, "-1", None, 1e300, True, [], [1, 2], [300], [DMA, 1], {}, "٣"]
                ),
            ).map(lambda entry: json.dumps(entry).encode()),
        ),
        max_size=12,
    )
)
def test_whatever_a_file_holds_each_line_is_read_or_counted_and_nothing_breaks(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    played = replayed(data)
    tally = played.tally
    assert tally.lines == len(data.split(b"\n")) - (not data or data.endswith(b"\n"))
    assert tally.records + tally.not_kernel + tally.unparsable <= tally.lines
    assert tally.matched + tally.benign <= tally.records
    json.dumps(played.model_dump(mode="json"))


@pytest.mark.parametrize(
    "time",
    [
        "9999-12-31T23:59:59-14:00 gpu-1 kernel: ",
        "0001-01-01T00:00:00+14:00 gpu-1 kernel: ",
        "Feb 30 25:61:61 gpu-1 kernel: ",
        "[9999999999.999999] ",
        "[Mon Jan  1 00:00:00 0001] ",
        "4,1,99999999999999999999,-;",
    ],
)
def test_a_time_that_cannot_be_is_no_time_and_the_line_is_read(time: str) -> None:
    assert [finding.reason for finding in replayed(f"{time}{DMA}\n").findings] == ["NeuronHasError_DMA_ERROR"]


def test_a_line_without_an_end_is_cut_and_the_next_one_is_read() -> None:
    played = replayed(b"[1.0] " + b"x" * (3 * LINE_MAX) + b"\n[2.0] " + HBM.encode() + b"\n")
    assert (played.tally.lines, played.tally.truncated, len(played.findings)) == (2, 1, 1)


class Endless(io.RawIOBase):
    """A capture that is made while it is read: nothing of it stands in memory."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def readline(self, _size: int | None = -1, /) -> bytes:
        return next(self._lines, b"")


@pytest.mark.thorough
def test_the_memory_of_a_replay_does_not_grow_with_the_capture() -> None:
    def peak(lines: int) -> int:
        storm = (
            f"[{number / 50:.6f}] {DMA if number % 5 else 'usb 1-1: ordinary'}\n".encode() for number in range(lines)
        )
        facts = from_options(Given("gpu-1", "trn1"))
        tracemalloc.start()
        try:
            play("a storm", Capture(Endless(storm), UNTIL), RULES, facts, ACTS, 16)  # type: ignore[arg-type]
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1_000)
    assert peak(20_000) < 2 * peak(2_000)


# --- the command ----------------------------------------------------------------------------------------------------


def command(*arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(app, ["replay", *arguments], input=given, catch_exceptions=False)


def test_standard_input_and_a_file_are_one() -> None:
    documents = [
        json.loads(command(name, "-o", "json", given=OUTAGE.read_bytes()).stdout) for name in (str(OUTAGE), "-")
    ]
    assert [documents[0].pop("file"), documents[1].pop("file")] == [str(OUTAGE), "-"]
    assert documents[0] == documents[1]


def test_people_read_the_same(tmp_path: Path) -> None:
    table = CliRunner().invoke(app, ["replay", str(OUTAGE)], env={"COLUMNS": "250"}).stdout
    assert "139 taken for a fault by a rule" in table
    assert "NvmeNotReady" in table


def test_a_capture_without_faults_is_no_error(tmp_path: Path) -> None:
    told = command("-", given=b"[1.0] usb 1-1: new device\n")
    assert told.exit_code == ExitCode.OK
    assert "Nothing was found" in told.stdout


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_what_cannot_be_read_is_named(tmp_path: Path, what: str) -> None:
    with pytest.raises(CommandError) as raised:
        command(str(tmp_path if what == "folder" else tmp_path / "gone.log"))
    assert raised.value.code == ExitCode.NO_INPUT
    assert os.fspath(tmp_path) in str(raised.value)
