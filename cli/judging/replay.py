"""`nodemend replay`: a captured log, the detector and the decisions over it, and what to know about the answer."""

import sys
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from cli.errors import CommandError
from cli.judging.captures import Capture, Counts, Family
from cli.judging.decisions import Decision, Event, Finding, Judge
from cli.judging.facts import Facts
from cli.judging.opening import Lines
from cli.judging.play import Detector, Played
from contract.model import Message
from contract.names import ExitCode
from contract.plan import Rung
from contract.policy import Policy
from contract.words import counted
from detector.rules import Catalogue

STDIN: Final = "-"


class Tally(Message):
    """What became of the lines of a capture."""

    lines: int
    records: int
    """Kernel records among them."""
    not_kernel: int
    """Of a journal, by other programs: the detector never sees them."""
    unparsable: int
    truncated: int
    matched: int
    """Records that a rule takes for a fault."""
    benign: int
    """Records that a rule knows and takes for nothing."""
    by_rule: dict[str, int]


class Replayed(Message):
    """Everything that came of a capture."""

    file: str
    tally: Tally
    boots: int
    wall_clock: bool
    node: str
    policy_version: str
    notes: tuple[str, ...] = ()
    """What a reader must know about the answer."""
    findings: tuple[Finding, ...] = ()
    decisions: tuple[Decision, ...] = ()
    timeline: tuple[Event, ...] = ()


def replay(file: str, rules: Catalogue, facts: Facts, policy: Policy, size: int) -> Replayed:
    """Play a file, or standard input.

    Raises:
        CommandError: it cannot be read, or is no capture of a kernel log.
    """
    with ExitStack() as stack:
        if file == STDIN:
            stream: IO[bytes] = sys.stdin.buffer
            until = datetime.now(UTC)
        else:
            try:
                stream = stack.enter_context(Path(file).open("rb"))
                until = datetime.fromtimestamp(Path(file).stat().st_mtime, UTC)
            except OSError as error:
                raise CommandError(
                    f"{file} cannot be read: {error.strerror}.",
                    "Give a capture of dmesg, /dev/kmsg or journalctl, or - for standard input.",
                    ExitCode.NO_INPUT,
                ) from error
        try:
            return _told(file, Lines(file, stream), until, rules, facts, policy, size)
        except OSError as error:
            raise CommandError(
                f"{file} cannot be read: {error.strerror}.", "Give a file, or - for standard input.", ExitCode.NO_INPUT
            ) from error


def _told(
    file: str, lines: Lines, until: datetime, rules: Catalogue, facts: Facts, policy: Policy, size: int
) -> Replayed:
    played = play(file, Capture(lines, until), rules, facts, policy, size)
    tally = played.tally
    if not tally.records:
        others = f", {tally.not_kernel} by other programs than the kernel" if tally.not_kernel else ""
        unread = f", {tally.unparsable} of no form that is known" if tally.unparsable else ""
        raise CommandError(
            f"{file} holds no kernel record: {counted(tally.lines, 'line')}{others}{unread}. {lines.cut}".strip(),
            "Give what dmesg, `cat /dev/kmsg`, `journalctl -k` or `journalctl -k -o json` printed.",
            ExitCode.DATA,
        )
    return played.model_copy(update={"notes": (*played.notes, *([lines.cut] if lines.cut else []))})


def play(file: str, capture: Capture, rules: Catalogue, facts: Facts, policy: Policy, size: int) -> Replayed:
    """Play a capture."""
    judge = Judge(facts.identity, policy, size, facts.witnesses)
    detector = Detector(rules, judge.take, judge.reboot)
    played = detector.play(capture.records())
    judge.close(detector.now)
    return Replayed(
        file=file,
        tally=_tally(capture.counts, played),
        boots=played.boots,
        wall_clock="wall" in capture.forms,
        node=facts.identity.node,
        policy_version=policy.version,
        notes=tuple(_notes(capture, played, facts, judge)),
        findings=tuple(judge.findings.values()),
        decisions=tuple(judge.decisions),
        timeline=tuple(judge.events),
    )


def _tally(counts: Counts, played: Played) -> Tally:
    return Tally(
        lines=counts.lines,
        records=counts.records,
        not_kernel=counts.not_kernel,
        unparsable=counts.unparsable,
        truncated=counts.truncated,
        matched=played.matched,
        benign=played.benign,
        by_rule=dict(Counter(played.by_rule).most_common()),
    )


def _notes(capture: Capture, played: Played, facts: Facts, judge: Judge) -> list[str]:
    forms, notes = capture.forms, list(facts.assumed)
    if not forms & {"mono", "wall"} and capture.counts.records:
        notes.append("No line has a time: all are taken for one moment, so counts within a time say little.")
    elif "wall" not in forms and capture.counts.records:
        notes.append("The capture has no wall clock: times are since boot, and maintenance windows were not judged.")
    if "zoneless" in forms:
        notes.append("Its times name no zone: they are taken for UTC.")
    if capture.family is not Family.KMSG and "facility" not in forms and played.matched:
        notes.append("Its form does not say who wrote a line: all count as the kernel's, none as a drill.")
    if any(decision.plan.rung is Rung.QUARANTINE for decision in judge.decisions):
        notes += filter(None, [facts.witness_note()])
    if capture.counts.unparsable:
        unread = counted(capture.counts.unparsable, "line is no record", "lines are no records")
        notes.append(f"{unread} of this form: counted, and left out.")
    if judge.left_out or judge.findings_left_out or judge.decisions_left_out:
        notes.append(
            f"Beyond the bounds of this report: {counted(judge.left_out, 'entry', 'entries')} of the timeline, "
            f"{counted(judge.findings_left_out, 'report')} of further findings, "
            f"{counted(judge.decisions_left_out, 'incident')}. The counts have them all."
        )
    return notes
