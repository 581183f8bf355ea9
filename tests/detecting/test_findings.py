"""Counting: a storm is one finding, two devices are two, quiet verdicts only report when a threshold is crossed."""

from detector.catalogue import catalogue
from detector.findings import NEW_AFTER_S, REPORT_AGAIN_S, Findings, clean
from detector.kmsg import Record
from detector.rules import Catalogue, Match, Rule

RULES = catalogue()
HBM = "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id={device} nc-id=0"


def record(message: str, seq: int = 1, facility: int = 0) -> Record:
    return Record(facility, 3, seq, 1, False, message, {})


def take(findings: Findings, message: str, seq: int, now: float, facility: int = 0) -> "dict[str, object] | None":
    line = record(message, seq, facility)
    match = RULES.match(message)
    assert match
    return findings.take(line, match, now)


def test_k26_storm_of_ten_thousand_lines_is_one_finding_told_at_a_bounded_rate() -> None:
    findings = Findings()
    reports = [take(findings, HBM.format(device=1), seq, seq / 100) for seq in range(10_000)]
    told = [report for report in reports if report]
    assert len(told) == 1 + int(10_000 / 100 / REPORT_AGAIN_S)
    assert {report["seq"] for report in told} == {0}
    assert told[-1]["count"] > 6000
    assert findings.due(10_000 / 100 + REPORT_AGAIN_S)[0]["count"] == 10_000


def test_two_devices_are_two_findings() -> None:
    findings = Findings()
    reports = [take(findings, HBM.format(device=device), device, 0.0) for device in (1, 2)]
    assert [report["signature"] for report in reports if report] != []
    assert len({report["signature"] for report in reports if report}) == 2


def test_fault_that_shows_again_after_a_silence_is_a_new_finding() -> None:
    findings = Findings()
    first = take(findings, HBM.format(device=1), 1, 0.0)
    later = take(findings, HBM.format(device=1), 99, NEW_AFTER_S + 1)
    assert first
    assert later
    assert (first["seq"], later["seq"]) == (1, 99)


def test_c7_restart_neither_forgets_nor_tells_again() -> None:
    before = Findings()
    take(before, HBM.format(device=1), 1, 0.0)
    after = Findings(before.known())
    assert take(after, HBM.format(device=1), 2, 1.0) is None


def test_clock_set_back_delays_no_first_report() -> None:
    findings = Findings()
    take(findings, HBM.format(device=1), 1, 1_000_000.0)
    assert take(findings, HBM.format(device=2), 2, 5.0) is not None


def test_drill_and_real_fault_are_kept_apart() -> None:
    findings = Findings()
    drill = take(findings, HBM.format(device=1), 1, 0.0, facility=1)
    real = take(findings, HBM.format(device=1), 2, 0.1)
    assert drill
    assert real
    assert (drill["drill"], real["drill"]) == (True, False)
    assert drill["signature"] != real["signature"]


def test_quiet_verdict_is_counted_and_told_only_past_its_threshold() -> None:
    loud = RULES.match("Memory cgroup out of memory: Killed process 1 (python3) total-vm:1kB")
    assert loud
    rule = loud.rule._replace(threshold=3, window_s=10.0)
    findings = Findings()

    def kill(seq: int, now: float) -> "dict[str, object] | None":
        return findings.take(record("oom", seq), Match(rule, {}, "OomKilledInCgroup", "oom"), now)

    assert [kill(1, 0.0), kill(2, 1.0)] == [None, None]
    assert kill(3, 20.0) is None
    assert kill(4, 21.0) is None
    assert kill(5, 22.0) is not None
    assert findings.counts["OomKilledInCgroup"] == 5
    assert isinstance(rule, Rule)
    assert isinstance(RULES, Catalogue)


def test_k26_storm_past_a_threshold_is_told_once_a_window() -> None:
    loud = RULES.match("Out of memory: Killed process 1 (python3) total-vm:1kB")
    assert loud
    rule = loud.rule._replace(threshold=50, window_s=3600.0)
    findings = Findings()
    match = Match(rule, {}, "OomKilledOnNode", "oom")
    told = [findings.take(record("oom", seq), match, seq / 10) for seq in range(40_000)]
    assert len([report for report in told if report]) == 2


def test_threshold_over_a_window_longer_than_a_silence_is_crossed() -> None:
    loud = RULES.match("EDAC MC0: 1 CE memory read error on DIMM#0")
    assert loud
    rule = loud.rule._replace(threshold=3, window_s=86_400.0)
    findings = Findings()
    match = Match(rule, {}, "MemoryCorrectedError", "ce")
    told = [findings.take(record("ce", hour), match, hour * 3600.0) for hour in range(3)]
    assert [bool(report) for report in told] == [False, False, True]


def test_made_up_devices_of_one_rule_are_a_bounded_number_of_findings() -> None:
    findings = Findings()
    told = [take(findings, HBM.format(device=device), device, 0.0) for device in range(1000)]
    reports = [report for report in told if report]
    assert len(reports) < 60
    assert str(reports[-1]["signature"]).endswith("/others")
    assert take(findings, "BUG: kernel NULL pointer dereference, address: 0", 2000, 0.0)


def test_c14_kernel_text_is_bounded_and_clean() -> None:
    findings = Findings()
    report = take(findings, HBM.format(device=1) + " \x1b[31m" + "y" * 5000, 1, 0.0)
    assert report
    assert len(str(report["message"])) <= 1024
    assert "\x1b" not in str(report["message"])
    assert clean("a\x00b\nc") == "a b c"


def test_lines_before_a_finding_come_with_it() -> None:
    findings = Findings()
    for number in range(20):
        findings.remember([f"6,{number},1,-;line {number}\n".encode()])
    report = take(findings, HBM.format(device=1), 99, 0.0)
    assert report
    context = report["context"]
    assert isinstance(context, list)
    assert context[-1] == "line 19"
    assert len(context) <= 8
