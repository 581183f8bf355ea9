"""What is a fault, what is the same fault, and what is too much at once: pure decisions."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.fault import EvidenceEnd, Verdict
from contract.names import ClusterSource
from detector.catalogue import CatalogueError, catalogue
from detector.cluster.documents import load_rules
from detector.cluster.ec2 import words
from detector.cluster.election import Seen, may_take
from detector.cluster.findings import Findings, Look
from detector.cluster.ledger import Subject, decoded, encoded
from detector.cluster.sightings import Sighting, looks_like_outage, of_conditions, of_ec2, of_readiness
from detector.cluster.tracks import FLAP_S, UPDATE_S, Track, follow, sequence
from detector.cluster.view import Lens, NodeView

RULES = load_rules()
LENS = Lens(RULES)
READS = catalogue().match
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()
INSTANCE = "i-0123456789abcdef0"


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(*conditions: tuple[str, str, str], since: float = NOW - 300, beat: float = NOW, **spec: Any) -> NodeView:
    """A Ready node with conditions of these types, statuses and reasons."""
    written = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": reason,
            "lastTransitionTime": at(since),
            "lastHeartbeatTime": at(beat),
        }
        for kind, status, reason in (("Ready", "True", "KubeletReady"), *conditions)
    ]
    return LENS.view(
        {
            "metadata": {"name": "node-1", "uid": "uid-1", "creationTimestamp": at(NOW - 3600)},
            "spec": {"providerID": f"aws:///us-west-2a/{INSTANCE}", **spec},
            "status": {"nodeInfo": {"bootID": "boot-1"}, "conditions": written},
        }
    )


def seen(view: NodeView) -> list[Sighting]:
    return of_conditions(view, RULES, READS, NOW)


# --- What a condition says ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", RULES.conditions, ids=lambda entry: entry.type)
def test_c10_each_shipped_type_is_a_fault_in_its_bad_status_alone(entry: Any) -> None:
    good = "False" if entry.bad_status == "True" else "True"
    (sighting,) = seen(node((entry.type, entry.bad_status, "Anything")))
    assert sighting.verdict is Verdict.AMBIGUOUS
    assert seen(node((entry.type, good, "Anything"))) == []
    assert seen(node((entry.type, "Unknown", "Anything"))) == []


def test_what_others_say_alone_destroys_no_machine() -> None:
    """They do not tell who wrote a kernel line, so they close a node, and a human decides."""
    verdicts = {rule.verdict for entry in RULES.conditions for rule in entry.rules}
    assert verdicts <= {Verdict.AMBIGUOUS, Verdict.NOTICE}


def test_type_that_nobody_described_and_the_kubelets_own_say_nothing() -> None:
    assert seen(node(("MemoryPressure", "True", "x"), ("DiskPressure", "True", "x"), ("Whatever", "True", "x"))) == []


@pytest.mark.parametrize(
    ("kind", "status", "reason", "rule", "component"),
    [
        ("NeuronHealth", "True", "NeuronHasError_DMA_ERROR", "npd-neuron", "neuron"),
        ("AcceleratedHardwareReady", "False", "NeuronHBMUncorrectableError", "eks-neuron", "neuron"),
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "eks-nvidia-xid", "nvidia"),
        ("AcceleratedHardwareReady", "False", "NvidiaDoubleBitError", "eks-nvidia-double-bit", "nvidia"),
        ("XfsShutdown", "True", "XfsHasShutdown", "npd-xfs-shutdown", "disk"),
        ("KernelReady", "False", "ForkFailedOutOfPIDs", "eks-out-of-pids", "kernel"),
        ("StorageReady", "False", "Anything", "unknown-storage-ready", "disk"),
    ],
)
def test_reason_is_known(kind: str, status: str, reason: str, rule: str, component: str) -> None:
    (sighting,) = seen(node((kind, status, reason)))
    assert (sighting.rule, sighting.component, sighting.reason) == (rule, component, reason)


@pytest.mark.parametrize("reason", ["InterfaceNotUp", "InterfaceNotRunning", "MissingLoopbackInterface"])
def test_c18_interface_that_may_be_of_no_importance_is_waited_for_and_left_to_a_human(reason: str) -> None:
    (sighting,) = seen(node(("NetworkingReady", "False", reason)))
    assert (sighting.verdict, sighting.hold_s) == (Verdict.AMBIGUOUS, 300)


def test_two_reasons_in_one_transition_are_two_findings() -> None:
    """The EKS agent latches: a second reason takes the place of the first, and the transition stays."""
    (first,) = seen(node(("AcceleratedHardwareReady", "False", "NvidiaXID79Error")))
    (second,) = seen(node(("AcceleratedHardwareReady", "False", "NvidiaDoubleBitError")))
    assert first.transition == second.transition
    assert first.subject != second.subject


def test_c14_message_is_bounded_and_has_no_control_characters() -> None:
    (sighting,) = seen(node(("KernelDeadlock", "True", "DockerHung\x1b[31m" + "x" * 5000)))
    assert len(sighting.message) <= 1024
    assert "\x1b" not in sighting.message


@given(st.text(max_size=200), st.text(max_size=200))
def test_nothing_that_a_condition_says_stops_the_watch(reason: str, message: str) -> None:
    view = node(("NeuronHealth", "True", reason))
    view = view._replace(conditions=tuple(c._replace(message=message) for c in view.conditions))
    findings = Findings("test", "1", {})
    look(findings, view, *seen(view), now=NOW + 1000)


# --- What is the same finding ------------------------------------------------------------------------------------


def look(findings: Findings, view: NodeView, *sightings: Sighting, now: float) -> Look:
    return findings.look(view, sightings, [], now)


def deadlock(**changes: Any) -> tuple[NodeView, Sighting]:
    view = node(("KernelDeadlock", "True", "DockerHung"), **changes)
    return view, seen(view)[0]


def test_condition_must_hold_before_it_is_reported() -> None:
    view, sighting = deadlock(since=NOW)
    findings = Findings("test", "1", {})
    findings.warm = True
    assert sighting.hold_s == 60
    assert not look(findings, view, sighting, now=NOW).due
    assert not look(findings, view, sighting, now=NOW + 59).due
    assert len(look(findings, view, sighting, now=NOW + 60).due) == 1


def test_c8_condition_that_flickers_is_never_reported() -> None:
    view, sighting = deadlock(since=NOW)
    findings = Findings("test", "1", {})
    findings.warm = True
    for second in range(0, 600, 50):
        assert not look(findings, view, sighting, now=NOW + second).due
        assert not look(findings, view, now=NOW + second + 40).due


def test_a_clock_that_is_behind_does_not_shorten_the_wait() -> None:
    view, sighting = deadlock(since=NOW - 7200)
    findings = Findings("test", "1", {})
    findings.warm = True
    assert not look(findings, view, sighting, now=NOW).due


def test_c5_stale_condition_is_neither_begun_nor_ended() -> None:
    view, sighting = deadlock()
    findings = Findings("test", "1", {})
    (due,) = look(findings, view, sighting, now=NOW).due
    findings.sent(due, NOW)
    stale = sighting._replace(stale=True)
    assert look(findings, view, stale, now=NOW + 10) == Look([], {})
    # Its writer is back, and says the same: it is the same finding.
    assert look(findings, view, sighting, now=NOW + 20) == Look([], {})


def test_report_says_what_it_rests_on() -> None:
    view, sighting = deadlock()
    (due,) = look(Findings("test", "1.2", {}), view, sighting, now=NOW).due
    report = due.make()
    assert (report.node, report.instance_id, report.boot_id) == ("node-1", INSTANCE, "boot-1")
    assert (report.source, report.facility, report.drill) == (ClusterSource.CONDITION, 3, False)
    assert report.seq == sequence("uid-1", sighting.subject, NOW - 300)
    assert report.first_seen.timestamp() == NOW - 300
    assert report.fields["node.uid"] == "uid-1"


STEPS = st.lists(
    st.tuples(st.floats(min_value=1.0, max_value=2 * FLAP_S), st.sampled_from(["seen", "again", "over"])), max_size=40
)


@given(STEPS, st.booleans())
def test_nothing_is_sent_twice_and_the_newest_is_never_lost(steps: list[tuple[float, str]], restarts: bool) -> None:
    """With restarts all that is left each time is what the ledger was told."""
    view, sighting = deadlock()
    findings, ledger = Findings("test", "1", {}), dict[Subject, Track]()
    now = transition = NOW
    told: list[tuple[str, int]] = []
    over = False
    for seconds, step in [*steps, (UPDATE_S, "seen"), (UPDATE_S, "seen")]:
        now += seconds
        # What comes back has another transition time (C4).
        transition = now if step == "again" or (over and step == "seen") else transition
        over = step == "over"
        current = sighting._replace(transition=f"{transition}", since=transition, hold_s=0.0)
        result = look(findings, view, *([] if over else [current]), now=now)
        for subject, track in result.noted.items():
            ledger |= {subject: track} if track else {}
            if track is None:
                ledger.pop(subject, None)
        for due in result.due:
            assert due.subject not in ledger or now - ledger[due.subject].sent_at >= UPDATE_S
            told.append((due.make().key, due.make().count))
            ledger[due.subject] = findings.sent(due, now)
        if restarts:
            findings = Findings("test", "1", dict(ledger))
    assert len(set(told)) == len(told)
    (track,) = ledger.values()
    assert track.sent_times == track.times
    assert track.transition == f"{transition}"


def test_same_transition_is_sent_once_whatever_is_looked_at_again() -> None:
    view, sighting = deadlock()
    findings = Findings("test", "1", {})
    (due,) = look(findings, view, sighting, now=NOW).due
    track = findings.sent(due, NOW)
    again = Findings("test", "1", {due.subject: track})
    for later in range(1, 100_000, 1000):
        assert not look(findings, view, sighting, now=NOW + later).due
        assert not look(again, view, sighting, now=NOW + later).due


def test_source_that_has_not_answered_yet_ends_nothing() -> None:
    """After a restart EC2 is asked a moment later than the Nodes; a status without a time would count again."""
    view = node()
    (impaired,) = ec2(InstanceStatus={"Status": "impaired"})
    impaired = impaired._replace(hold_s=0.0)
    before = Findings("test", "1", {})
    (due,) = look(before, view, impaired, now=NOW).due
    after = Findings("test", "1", {due.subject: before.sent(due, NOW)})
    assert after.look(view, [], [], NOW + 100, {ClusterSource.EC2}) == Look([], {})
    assert look(after, view, impaired, now=NOW + 200) == Look([], {})
    # Asked, and silent: it is over.
    assert after.look(view, [], [], NOW + 300).noted[due.subject] is not None


def test_new_machine_of_the_same_name_is_another() -> None:
    view, sighting = deadlock()
    findings = Findings("test", "1", {})
    (due,) = look(findings, view, sighting, now=NOW).due
    findings.sent(due, NOW)
    other = view._replace(uid="uid-2", instance_id="i-00000000000000001")
    result = look(findings, other, sighting, now=NOW + 1)
    assert [one.make().instance_id for one in result.due] == ["i-00000000000000001"]
    assert result.noted[due.subject] is None


@given(st.floats(min_value=0, max_value=4e9), st.text(max_size=40), st.text(max_size=40))
def test_numbers_grow_with_time_and_every_json_reader_keeps_them(when: float, uid: str, subject: str) -> None:
    number = sequence(uid, subject, when)
    assert 0 <= number < 2**53
    assert sequence(uid, subject, when + 1) > number


def test_two_findings_of_one_second_have_two_numbers() -> None:
    assert sequence("uid", "a", NOW) != sequence("uid", "b", NOW)
    assert sequence("uid", "a", NOW) != sequence("uid-2", "a", NOW)


def test_track_is_counted_up_by_another_transition() -> None:
    _, sighting = deadlock()
    first = follow(None, "uid-1", sighting, NOW)
    second = follow(first, "uid-1", sighting._replace(transition="later", since=NOW + 5), NOW + 5)
    assert (first.times, second.times, second.seq) == (1, 2, first.seq)
    assert second.last_seq > first.last_seq


def test_key_of_the_ledger_is_valid_for_every_node() -> None:
    key = Subject("n" * 253, "uid", "taint/example.com/x=y").key
    assert len(key) <= 253
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_n")


@given(st.text() | st.dictionaries(st.text(), st.integers() | st.text()).map(json.dumps))
def test_ledger_that_cannot_be_read_is_as_if_it_were_not_there(text: str) -> None:
    assert decoded(text) is None


@given(st.integers(0, 2**53), st.integers(1, 10**6), st.none() | st.floats(0, 4e9))
def test_ledger_gives_back_what_it_was_given(seq: int, times: int, ended: float | None) -> None:
    subject = Subject("node-1", "uid-1", "node-condition/X/y")
    track = Track(seq, seq, "1", times, NOW, NOW, times, NOW, ended)
    assert decoded(encoded(subject, track)) == (subject, track)


# --- Too much at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "away", "outage"),
    [(1, 1, False), (2, 1, False), (2, 2, True), (3, 1, False), (3, 2, True), (5, 1, False), (5, 2, True),
     (6, 1, False), (6, 2, True), (10, 3, False), (10, 4, True), (1000, 300, False), (1000, 301, True)],
)  # fmt: skip
def test_pitfall_2_and_5_outage_has_a_floor_of_one_and_a_share(total: int, away: int, outage: bool) -> None:
    assert looks_like_outage(away, total, 0.3) is outage


def test_c20_node_that_somebody_removes_is_not_missed() -> None:
    away = node()._replace(ready=False, ready_since=NOW - 3600)
    assert len(of_readiness(away, 600)) == 1
    assert of_readiness(away._replace(going=True), 600) == []


# --- Who is active -----------------------------------------------------------------------------------------------


def test_lease_is_taken_when_free_ours_or_not_renewed_for_its_duration() -> None:
    held = {"holderIdentity": "other", "renewTime": "t1", "leaseDurationSeconds": 15}
    assert may_take({}, None, "me", 0.0)[0]
    assert may_take({**held, "holderIdentity": "me"}, None, "me", 0.0)[0]
    may, first = may_take(held, None, "me", 100.0)
    assert not may
    assert not may_take(held, first, "me", 115.0)[0]
    assert may_take(held, first, "me", 115.1)[0]
    # Renewed: the clock starts anew, and only ours is read.
    may, second = may_take({**held, "renewTime": "t2"}, first, "me", 115.1)
    assert not may
    assert second == Seen("other", "t2", 115.1)


# --- EC2 ---------------------------------------------------------------------------------------------------------

EVENT = {
    "InstanceEventId": "instance-event-0d59937288b749b32",
    "Code": "instance-retirement",
    "Description": "The instance is running on degraded hardware",
    "NotBefore": datetime(2026, 12, 20, tzinfo=UTC),
}


def ec2(**status: Any) -> list[Sighting]:
    return of_ec2(node(), list(words({"InstanceId": INSTANCE, **status})), RULES)


def test_retirement_is_hardware_and_a_reboot_by_aws_a_notice() -> None:
    (retired,) = ec2(Events=[EVENT])
    assert (retired.rule, retired.verdict, retired.evidence_end) == (
        "ec2-retirement",
        Verdict.HARDWARE,
        EvidenceEnd.REPLACEMENT,
    )
    assert retired.reason == "Ec2InstanceRetirement"
    (reboot,) = ec2(Events=[{**EVENT, "Code": "system-reboot"}])
    assert reboot.verdict is Verdict.NOTICE


@pytest.mark.parametrize("over", ["[Completed] ", "[Canceled] "])
def test_event_that_is_over_is_none(over: str) -> None:
    assert ec2(Events=[{**EVENT, "Description": f"{over}The instance is running on degraded hardware"}]) == []


def test_impaired_status_waits_and_ok_says_nothing() -> None:
    impaired = {"Status": "impaired", "Details": [{"ImpairedSince": datetime(2026, 12, 1, tzinfo=UTC)}]}
    (system,) = ec2(SystemStatus=impaired, InstanceStatus={"Status": "ok"})
    assert (system.rule, system.hold_s, system.verdict) == ("ec2-system-impaired", 600, Verdict.AMBIGUOUS)
    assert ec2(SystemStatus={"Status": "initializing"}, InstanceStatus={"Status": "insufficient-data"}) == []


# --- Rules that people write -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("conditions: [{type: Ready, bad_status: 'False', component: x, provenance: y}]", "belongs to the kubelet"),
        ("conditions: [{type: X, bad_status: Maybe, component: x, provenance: y}]", "bad_status"),
        (
            "conditions: [{type: X, bad_status: 'True', component: x, provenance: y, rules: [{id: abc, reason: '('}]}]",
            "no regular expression",
        ),
        ("conditions: [{type: X, bad_status: 'True', component: x, provenance: y, hold: 3}]", "hold"),
        ("conditions: {", "cannot be read as YAML"),
    ],
)
def test_rule_that_cannot_be_used_is_named_with_file_and_field(tmp_path: Path, text: str, words_of_it: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(CatalogueError, match=words_of_it) as raised:
        load_rules(tmp_path)
    assert "mine.yaml" in str(raised.value)


def test_users_description_takes_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "conditions: [{type: NeuronHealth, bad_status: 'True', component: neuron, provenance: ours, "
        "rules: [{id: mine, reason: '.*', verdict: hardware}]}]"
    )
    rules = load_rules(tmp_path)
    (entry,) = [entry for entry in rules.conditions if entry.type == "NeuronHealth"]
    assert entry.rule_for("NeuronHasError_X")[0].verdict is Verdict.HARDWARE
    assert len(rules.conditions) == len(RULES.conditions)
