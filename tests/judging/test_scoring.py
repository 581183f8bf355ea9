"""The scorecard: shadow decisions against what became of the nodes, and what has earned `mode: act`."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli.errors import CommandError
from cli.judging.scoring import EARNED_DECISIONS, Score, judged, score
from cli.main import app
from contract.aftermath import Aftermath, Fate
from contract.incident import IncidentReport
from contract.names import ExitCode, Outcome, Phase
from contract.plan import Plan, Rung
from contract.policy import GroupPolicy, Mode
from tests.runbook.world import finding, identity

OPENED = datetime(2026, 11, 2, 3, 0, tzinfo=UTC)


def report(
    number: int = 0, rung: Rung = Rung.REPLACE, fate: Fate | None = Fate.REPLACED, **changes: Any
) -> IncidentReport:
    after = fate and Aftermath(
        fate=fate, at=OPENED + timedelta(hours=6), followed_until=OPENED + timedelta(days=1), explanation="So it went."
    )
    usual: dict[str, Any] = {
        "incident_id": f"remediate-c-node-{number}-i-1",
        "run_id": "r",
        "cluster": "c",
        "node": f"node-{number}",
        "phase": Phase.CLOSED,
        "outcome": Outcome.SHADOWED,
        "summary": "Shadow mode: nothing was touched.",
        "opened_at": OPENED,
        "mode": Mode.SHADOW,
        "identity": identity(),
        "findings": (finding(rule="hbm"),),
        "plan": Plan(rung=rung, reasons=("It failed.",)),
        "aftermath": after,
    }
    return IncidentReport(**{**usual, **changes})


def many(number: int, *, start: int = 0, **changes: Any) -> list[IncidentReport]:
    return [report(start + index, **changes) for index in range(number)]


@pytest.mark.parametrize(
    ("rung", "fate", "worth"),
    [
        (Rung.REPLACE, Fate.REPLACED, Score.AGREED),
        (Rung.REPLACE, Fate.CORDONED, Score.AGREED),
        (Rung.REPLACE, Fate.STILL_FAILING, Score.AGREED),
        (Rung.REPLACE, Fate.RECOVERED, Score.FALSE_KILL),
        (Rung.REPLACE, Fate.REBOOTED, Score.FALSE_KILL),
        (Rung.REBOOT, Fate.REBOOTED, Score.AGREED),
        (Rung.REBOOT, Fate.RECOVERED, Score.HARSH),
        (Rung.REBOOT, Fate.REPLACED, Score.MILD),
        (Rung.QUARANTINE, Fate.REPLACED, Score.AGREED),
        (Rung.QUARANTINE, Fate.RECOVERED, Score.HARSH),
        (Rung.OBSERVE, Fate.RECOVERED, Score.AGREED),
        (Rung.OBSERVE, Fate.REPLACED, Score.MILD),
    ],
)
def test_a_decision_is_worth_what_became_of_the_node(rung: Rung, fate: Fate, worth: Score) -> None:
    assert judged(rung, fate) is worth


@given(st.sampled_from(Rung), st.sampled_from(Fate))
def test_only_a_replacement_can_be_a_false_kill_and_only_of_a_machine_that_is_well(rung: Rung, fate: Fate) -> None:
    killed = judged(rung, fate) is Score.FALSE_KILL
    assert killed == (rung is Rung.REPLACE and fate in (Fate.REBOOTED, Fate.RECOVERED))


def test_what_agreed_saves_the_hours_until_somebody_else_acted() -> None:
    (row,) = score([report(1), report(2, fate=Fate.STILL_FAILING)]).rows
    # Of one that fails on nobody knows when it would have been taken.
    assert (row.agreed, row.hours_saved) == (2, 6.0)


def test_a_machine_that_went_on_and_was_left_alone_is_a_false_kill_avoided() -> None:
    (row,) = score([report(1, Rung.QUARANTINE, Fate.RECOVERED), report(2, Rung.REBOOT, Fate.REBOOTED)]).rows
    assert (row.false_kills_avoided, row.false_kills) == (2, 0)


def test_enough_agreement_without_a_false_kill_earns_the_whole_group() -> None:
    card = score(many(EARNED_DECISIONS))
    assert [row.earned for row in card.rows] == [True]
    (proposal,) = card.proposals
    assert (proposal.group, proposal.change) == ("trn1", {"mode": "act"})
    assert GroupPolicy.model_validate(proposal.change).mode is Mode.ACT


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        (many(EARNED_DECISIONS - 1), "decisions followed"),
        ([*many(40), report(99, fate=Fate.RECOVERED)], "went on well"),
        (many(40, rung=Rung.REBOOT, fate=Fate.RECOVERED), "agreed"),
        (many(40, fate=None), f"0 of {EARNED_DECISIONS}"),
    ],
    ids=["few", "false-kill", "harsh", "unfollowed"],
)
def test_less_than_that_earns_nothing_and_says_what_is_missing(reports: list[IncidentReport], why: str) -> None:
    card = score(reports)
    assert not card.proposals
    assert why in card.rows[0].why


def test_where_only_some_rules_have_earned_it_a_human_goes_on_approving() -> None:
    other = (finding(rule="dma"),)
    card = score([*many(EARNED_DECISIONS), *many(3, start=50, findings=other)])
    (proposal,) = card.proposals
    assert proposal.change == {"mode": "act", "approve_before": ["disrupt"]}
    assert GroupPolicy.model_validate(proposal.change)
    assert "dma" in proposal.why


@pytest.mark.parametrize(
    "changes",
    [{"drill": True}, {"mode": Mode.ACT}, {"plan": None}, {"outcome": Outcome.STALE}],
    ids=["drill", "acted", "undecided", "stale"],
)
def test_only_decisions_of_mode_shadow_about_real_faults_count(changes: dict[str, Any]) -> None:
    assert score([report(**changes)]).shadow == 0


def test_the_same_report_twice_counts_once() -> None:
    assert score([report(), report()]).shadow == 1


@given(st.lists(st.tuples(st.sampled_from(Rung), st.none() | st.sampled_from(Fate)), max_size=40))
def test_the_scores_add_up_and_trust_never_rests_on_a_false_kill(cases: list[tuple[Rung, Fate | None]]) -> None:
    card = score(report(number, rung, fate) for number, (rung, fate) in enumerate(cases))
    for row in card.rows:
        assert row.followed == row.agreed + row.false_kills + row.mild + row.harsh
        assert row.followed <= row.decisions
        assert not (row.earned and row.false_kills)
        assert not (row.earned and row.followed < EARNED_DECISIONS)
    assert bool(card.proposals) == any(row.earned for row in card.rows)


# --- the command ----------------------------------------------------------------------------------------------------


def written(folder: Path, reports: Iterable[IncidentReport]) -> Path:
    for one in reports:
        file = folder / one.incident_id / one.run_id / "report.json"
        file.parent.mkdir(parents=True)
        file.write_text(one.model_dump_json())
    return folder


def scorecard(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["scorecard", *arguments], env={"COLUMNS": "250"}, catch_exceptions=False)


def test_a_folder_of_records_is_scored_for_people_and_programs(tmp_path: Path) -> None:
    folder = written(tmp_path, many(EARNED_DECISIONS))
    (folder / "torn").mkdir()
    (folder / "torn" / "report.json").write_text("{")
    document = json.loads(scorecard(str(folder), "-o", "json").stdout)
    assert (document["shadow"], document["rows"][0]["agreed"]) == (EARNED_DECISIONS, EARNED_DECISIONS)
    assert yaml.safe_load(scorecard(str(folder), "-o", "yaml").stdout) == document
    table = scorecard(str(folder)).stdout
    assert "earned: 10 of 10 agreed" in table
    assert "mode: act" in table
    assert "1 file is no report" in table


@pytest.mark.parametrize("arguments", [(), ("somewhere", "--temporal")])
def test_one_source_is_read(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as raised:
        scorecard(*arguments)
    assert raised.value.code == ExitCode.USAGE


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as raised:
        scorecard(str(tmp_path))
    assert raised.value.code == ExitCode.NO_INPUT
