"""What the doctor says of a NodePool whose machines Karpenter ends by itself: by its defaults, and as it is mended."""

from datetime import timedelta
from typing import Any

import pytest

from cli.doctor.findings import Finding, Level
from cli.doctor.karpenter import of_disruption
from contract.policy import Deadlines, GroupPolicy, Mode

ACTING = GroupPolicy(mode=Mode.ACT)
ENDLESS = {"expireAfter": "Never"}
NOTHING = {"nodes": "0"}


def told(
    disruption: dict[str, Any] | None = None,
    template: dict[str, Any] = ENDLESS,
    holds: GroupPolicy = ACTING,
    **spec: Any,
) -> list[Finding]:
    pool = {"metadata": {"name": "pool"}, "spec": {"template": {"spec": template}, "disruption": disruption, **spec}}
    found = list(of_disruption(pool, holds))
    assert all(one.says and one.means and one.mend for one in found)
    return found


def test_pool_with_karpenters_defaults_ends_replacements_work_and_old_machines() -> None:
    consolidates, expires = told(template={})
    assert consolidates.level is Level.WRONG
    assert consolidates.says == "Karpenter consolidates NodePool pool (WhenEmptyOrUnderutilized, consolidateAfter 0s)"
    assert "a replacement stays empty until it is proven" in consolidates.means
    assert "a machine at work is ended, without a checkpoint" in consolidates.means
    assert 'one of nodes "0" for Empty and Underutilized' in consolidates.mend
    assert expires.level is Level.NOTE
    assert "720h after its launch (expireAfter)" in expires.says


def test_pool_in_which_nothing_is_replaced_by_itself_loses_no_replacement() -> None:
    (consolidates,) = told(holds=GroupPolicy(mode=Mode.SHADOW))
    assert consolidates.level is Level.NOTE


@pytest.mark.parametrize(
    ("disruption", "spec"),
    [
        ({"consolidateAfter": "Never"}, {}),
        ({"budgets": [{"nodes": "10%"}, NOTHING]}, {}),
        ({"budgets": [{"nodes": "0%", "reasons": ["Empty", "Underutilized"]}]}, {}),
        ({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1h5m"}, {}),
        (None, {"replicas": 3}),
    ],
    ids=["never", "budget of none", "budget of none for these", "long after the proof", "static"],
)
def test_pool_that_keeps_its_machines_is_well(disruption: dict[str, Any] | None, spec: dict[str, Any]) -> None:
    assert told(disruption, **spec) == []


@pytest.mark.parametrize(
    "budget",
    [{"nodes": "0", "schedule": "@daily", "duration": "10m"}, {"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "1"}],
    ids=["at times", "for drift alone", "one at a time"],
)
def test_budget_that_lets_some_go_keeps_none(budget: dict[str, Any]) -> None:
    assert [one.level for one in told({"budgets": [budget]})] == [Level.WRONG]


@pytest.mark.parametrize(("after", "level"), [("19m59s", Level.WRONG), ("20m", Level.NOTE)])
def test_replacement_is_safe_where_emptiness_counts_after_the_time_for_its_proof(after: str, level: Level) -> None:
    holds = GroupPolicy(mode=Mode.ACT, deadlines=Deadlines(verification=timedelta(minutes=20)))
    (consolidates,) = told({"consolidateAfter": after}, holds=holds)
    assert consolidates.level is level
    assert ("consolidateAfter of 20m or more" in consolidates.mend) is (level is Level.WRONG)


def test_replacement_is_safe_where_karpenter_waits_for_the_startup_taint() -> None:
    closed = {**ENDLESS, "startupTaints": [{"key": "nodemend.io/startup", "effect": "NoSchedule"}]}
    assert told({"consolidationPolicy": "WhenEmpty"}, closed) == []
    assert [one.level for one in told(template=closed)] == [Level.NOTE]


@pytest.mark.parametrize(
    ("grace", "words"),
    [
        ({}, "waited for, to their end"),
        ({"terminationGracePeriod": "2h"}, "no longer than its terminationGracePeriod of 2h"),
    ],
)
def test_pods_that_are_not_to_be_disrupted_hold_an_expired_machine_as_long_as_the_pool_lets_them(
    grace: dict[str, str], words: str
) -> None:
    (expires,) = told({"budgets": [NOTHING]}, {"expireAfter": "336h", **grace})
    assert words in expires.mend
