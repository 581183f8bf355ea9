"""What is the same finding, and when it is told: pure decisions."""

from hypothesis import given
from hypothesis import strategies as st

from contract.names import ClusterSource
from detector.cluster.findings import Findings, Look
from detector.cluster.ledger import Subject
from detector.cluster.tracks import FLAP_S, UPDATE_S, Track, sequence
from tests.watching_cluster.deciding import INSTANCE, NOW, deadlock, ec2, look, node


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
