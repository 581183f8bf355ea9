"""What is done about pods that do not leave, for every policy: a decision without a cluster."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.last_resort import Limits, Resort, resort
from activities.leaving import next_wave
from activities.pod_filters import HANGS_AFTER, Filtered, Verdict, Wave
from contract.policy import DrainEscalation

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
BEFORE = Limits(end=NOW + timedelta(minutes=10), longest_grace=timedelta(seconds=30))
AFTER = Limits(end=NOW, longest_grace=timedelta(seconds=30))
LONG_AFTER = Limits(end=NOW - timedelta(seconds=30) - HANGS_AFTER, longest_grace=timedelta(seconds=30))


def refused(name: str = "p", *, priority: int = 0, priority_class: str = "") -> Filtered:
    spec: dict[str, Any] = {"priority": priority, "priorityClassName": priority_class}
    return Filtered({"metadata": {"namespace": "n", "name": name, "uid": name}, "spec": spec}, Verdict.EVICT, "")


def ending(since_grace_ended: timedelta, *, priority_class: str = "") -> Filtered:
    """A pod whose grace period ended so long ago (or ends, where that is negative)."""
    metadata = {
        "namespace": "n",
        "name": "e",
        "uid": "e",
        "deletionTimestamp": (NOW - since_grace_ended).isoformat().replace("+00:00", "Z"),
    }
    return Filtered({"metadata": metadata, "spec": {"priorityClassName": priority_class}}, Verdict.ENDING, "")


HUNG, IN_TIME = ending(HANGS_AFTER), ending(timedelta(seconds=-5))


@pytest.mark.parametrize(
    ("policy", "left", "limits", "expected"),
    [
        # Refused by a budget: it may give way as long as there is time.
        ("needs-human", refused(), BEFORE, Resort.WAIT),
        ("needs-human", refused(), AFTER, Resort.ASK_HUMAN),
        ("wait", refused(), BEFORE, Resort.WAIT),
        ("wait", refused(), AFTER, Resort.ASK_HUMAN),
        ("delete", refused(), BEFORE, Resort.WAIT),
        ("delete", refused(), AFTER, Resort.DELETE),
        ("terminate-instance", refused(), BEFORE, Resort.WAIT),
        ("terminate-instance", refused(), AFTER, Resort.ABANDON),
        # Hung: no waiting mends that (D22).
        ("needs-human", HUNG, BEFORE, Resort.ASK_HUMAN),
        ("wait", HUNG, BEFORE, Resort.WAIT),
        ("delete", HUNG, BEFORE, Resort.ASK_HUMAN),
        ("delete", HUNG, AFTER, Resort.ASK_HUMAN),
        ("terminate-instance", HUNG, BEFORE, Resort.ABANDON),
        # Within its own grace period, which a deletion at the end gave it anew (D25).
        ("delete", IN_TIME, AFTER, Resort.DELETE),
        ("delete", IN_TIME, LONG_AFTER, Resort.ASK_HUMAN),
    ],
)
def test_d22_d29_what_is_done_follows_the_policy(policy: str, left: Filtered, limits: Limits, expected: Resort) -> None:
    assert resort([left], limits, DrainEscalation(policy), NOW) is expected


lefts = st.lists(
    st.one_of(st.just(refused()), st.timedeltas(timedelta(days=-1), timedelta(days=1)).map(ending)), min_size=1
)
limits = st.timedeltas(timedelta(days=-2), timedelta(days=2)).map(
    lambda left: Limits(end=NOW + left, longest_grace=timedelta(seconds=30))
)


@given(lefts, limits, st.sampled_from(DrainEscalation))
def test_d40_no_policy_waits_for_ever(left: list[Filtered], limits: Limits, policy: DrainEscalation) -> None:
    much_later = max(NOW, limits.end) + limits.longest_grace + HANGS_AFTER
    assert resort(left, limits, policy, much_later) in (Resort.ASK_HUMAN, Resort.ABANDON)


@given(lefts, limits, st.sampled_from(DrainEscalation))
def test_only_the_policy_that_says_so_deletes_or_leaves_pods(
    left: list[Filtered], limits: Limits, policy: DrainEscalation
) -> None:
    decided = resort(left, limits, policy, NOW)
    assert decided is not Resort.DELETE or policy is DrainEscalation.DELETE
    assert decided is not Resort.ABANDON or policy is DrainEscalation.TERMINATE_INSTANCE


def test_lower_priority_first_and_what_is_critical_to_the_system_last() -> None:
    low, high = refused("low", priority=-10), refused("high", priority=1000)
    cluster = refused("dns", priority=2_000_000_000, priority_class="system-cluster-critical")
    node = refused("cni", priority=2_000_001_000, priority_class="system-node-critical")
    assert next_wave([node, high, cluster, low], NOW, ()) == [low, high]
    assert next_wave([node, cluster], NOW, ()) == [cluster]
    assert next_wave([node], NOW, ()) == [node]
    assert [pod.wave for pod in (low, cluster, node)] == list(Wave)


def test_a_wave_waits_for_the_one_before_but_not_for_what_hangs() -> None:
    cluster = refused("dns", priority_class="system-cluster-critical")
    assert next_wave([cluster, IN_TIME], NOW, ()) == []
    assert next_wave([cluster, HUNG], NOW, ()) == [cluster]
