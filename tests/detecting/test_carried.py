"""What a Node carries where its detector has no Temporal credentials: bounded, the grave before the slight."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from contract.fault import FaultReport, Verdict
from detector.carried import BYTES_MAX, FINDINGS_MAX, carried_reports, with_report
from tests.runbook.world import finding

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def numbered(seq: int, verdict: Verdict, size: int = 100) -> FaultReport:
    return finding(
        seq=seq, verdict=verdict, message="x" * size, last_seen=NOW + timedelta(seconds=seq), context=("y" * size,) * 8
    )


@given(st.lists(st.tuples(st.sampled_from(Verdict), st.integers(1, 1000)), min_size=1, max_size=60))
def test_it_is_bounded_and_drops_no_grave_finding_before_a_slight_one(found: list[tuple[Verdict, int]]) -> None:
    value = ""
    rank = {verdict: number for number, verdict in enumerate(Verdict)}
    for seq, (verdict, size) in enumerate(found):
        before = carried_reports(value)
        value = with_report(value, new := numbered(seq, verdict, size))
        after = carried_reports(value)
        assert len(value) <= BYTES_MAX
        assert len(after) <= FINDINGS_MAX
        dropped = {report.key for report in (*before, new)} - {report.key for report in after}
        worst_kept = max(rank[report.verdict] for report in after)
        assert all(rank[report.verdict] >= worst_kept for report in (*before, new) if report.key in dropped)


def test_an_update_replaces_what_it_updates() -> None:
    first = numbered(1, Verdict.HARDWARE)
    value = with_report(with_report("", first), first.model_copy(update={"count": 7}))
    assert [(report.key, report.count) for report in carried_reports(value)] == [(first.key, 7)]


def test_what_cannot_be_read_is_left_out() -> None:
    good = numbered(1, Verdict.HARDWARE)
    value = with_report("", good)
    assert carried_reports("not json") == []
    assert carried_reports('{"a": 1}') == []
    assert carried_reports(value[:-1] + ',{"seq": -1}]') == [good]
