"""Shadow decisions against what became of the nodes: who was right, at what price, what has earned trust. Pure.

A decision agrees with the world where the world did the same or its like: a machine that was to be replaced was taken
out of service, one that was to be rebooted was, one that was to be left alone went on. What nobody followed is counted
and scores nothing.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from contract.aftermath import Fate
from contract.incident import IncidentReport
from contract.model import Message
from contract.names import Outcome, Step
from contract.plan import Rung
from contract.policy import Mode
from contract.words import counted

EARNED_DECISIONS: Final = 10
"""Fewer followed decisions than this prove nothing."""
EARNED_AGREEMENT: Final = 0.9
"""At least this share of them must agree with what happened, and none may have been a false kill."""
THRESHOLD: Final = (
    f"Earned: at least {EARNED_DECISIONS} decisions that were followed, at least {EARNED_AGREEMENT:.0%} of them agreed "
    "with what happened, and no false kill."
)
_HOUR: Final = timedelta(hours=1)


class Score(StrEnum):
    """What one decision was worth."""

    AGREED = "agreed"
    FALSE_KILL = "false-kill"
    """It would have replaced a machine that went on without the fault."""
    HARSH = "harsh"
    """It would have done more than was needed, short of replacing."""
    MILD = "mild"
    """The world did more: the machine was taken away, or failed on."""
    UNKNOWN = "unknown"
    """Nobody followed it."""


_OUT: Final = frozenset({Fate.REPLACED, Fate.CORDONED})
_WELL: Final = frozenset({Fate.REBOOTED, Fate.RECOVERED})
_AGREES: Final = {
    Rung.REPLACE: _OUT | {Fate.STILL_FAILING},
    Rung.REBOOT: frozenset({Fate.REBOOTED}),
    Rung.RESET_DEVICE: frozenset({Fate.REBOOTED}),
    # A human was to be asked: any hand that was laid on it, and doubt that was right.
    Rung.QUARANTINE: frozenset(Fate) - {Fate.RECOVERED},
    Rung.OBSERVE: _WELL,
}


class Scored(Message):
    """One decision and its score."""

    incident_id: str
    node: str
    group: str
    rule: str
    rung: Rung
    decided_at: datetime
    fate: Fate | None = None
    score: Score
    hours: float = 0.0
    """From the decision to the world's own hand, where both agree: what acting would have saved."""
    says: str = ""


class Row(Message):
    """One rule on one group."""

    group: str
    rule: str
    decisions: int
    followed: int
    agreed: int
    false_kills: int
    """Machines that acting would have replaced for nothing."""
    false_kills_avoided: int
    """Machines that went on, and that whoever replaces at each report would have killed; this did not."""
    mild: int
    harsh: int
    hours_saved: float
    earned: bool
    why: str
    """What is missing, or what it earned it with."""


class Proposal(Message):
    """A change of the policy that the scores support."""

    group: str
    change: dict[str, Any]
    """As it would stand in the group's entry of the policy."""
    why: str


class Scorecard(Message):
    """The whole answer."""

    reports: int
    shadow: int
    """Incidents that decided in mode shadow, drills left out."""
    followed: int
    threshold: str
    rows: tuple[Row, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    notes: tuple[str, ...] = ()
    decisions: tuple[Scored, ...] = ()


def score(reports: Iterable[IncidentReport]) -> Scorecard:
    """The scorecard of some closing reports. The same report twice counts once."""
    each = {(report.incident_id, report.run_id): report for report in reports}
    decided = [scored(report) for report in each.values() if _counts(report)]
    by_rule: dict[tuple[str, str], list[Scored]] = defaultdict(list)
    for decision in decided:
        by_rule[decision.group, decision.rule].append(decision)
    rows = [_row(group, rule, decisions) for (group, rule), decisions in sorted(by_rule.items())]
    followed = sum(decision.score is not Score.UNKNOWN for decision in decided)
    return Scorecard(
        reports=len(each),
        shadow=len(decided),
        followed=followed,
        threshold=THRESHOLD,
        rows=tuple(rows),
        proposals=tuple(_proposals(rows)),
        notes=tuple(_notes(len(each), len(decided), followed)),
        decisions=tuple(sorted(decided, key=lambda decision: (decision.decided_at, decision.incident_id))),
    )


def scored(report: IncidentReport) -> Scored:
    """One shadow decision against what became of its node."""
    assert report.plan is not None
    plan, after = report.plan, report.aftermath
    assessed = [step.ended_at for step in report.steps if step.step is Step.ASSESS and step.ended_at]
    decided_at = assessed[-1] if assessed else report.opened_at
    verdict = Score.UNKNOWN if after is None else judged(plan.rung, after.fate)
    early = after is not None and verdict is Score.AGREED and after.fate in _OUT | {Fate.REBOOTED}
    return Scored(
        incident_id=report.incident_id,
        node=report.node,
        group=(report.identity.group if report.identity else None) or "",
        rule=report.findings[0].rule if report.findings else "",
        rung=plan.rung,
        decided_at=decided_at,
        fate=after.fate if after else None,
        score=verdict,
        hours=round(max(0.0, (after.at - decided_at) / _HOUR), 2) if after and early else 0.0,
        says=after.explanation if after else "",
    )


def judged(rung: Rung, fate: Fate) -> Score:
    """What a decision is worth, once it is known what became of the node."""
    if fate in _AGREES[rung]:
        return Score.AGREED
    if rung is Rung.REPLACE:
        return Score.FALSE_KILL
    return Score.MILD if fate not in _WELL else Score.HARSH


def _counts(report: IncidentReport) -> bool:
    return (
        report.mode is Mode.SHADOW
        and not report.drill
        and report.plan is not None
        and report.outcome in (Outcome.SHADOWED, Outcome.OBSERVED)
        and (report.plan.rung is not Rung.OBSERVE or report.aftermath is not None)
    )


def _row(group: str, rule: str, decisions: Sequence[Scored]) -> Row:
    known = [decision for decision in decisions if decision.score is not Score.UNKNOWN]
    number = {kind: sum(decision.score is kind for decision in known) for kind in Score}
    earned, why = _earned(len(known), number[Score.AGREED], number[Score.FALSE_KILL])
    return Row(
        group=group,
        rule=rule,
        decisions=len(decisions),
        followed=len(known),
        agreed=number[Score.AGREED],
        false_kills=number[Score.FALSE_KILL],
        false_kills_avoided=sum(decision.rung is not Rung.REPLACE and decision.fate in _WELL for decision in known),
        mild=number[Score.MILD],
        harsh=number[Score.HARSH],
        hours_saved=round(sum(decision.hours for decision in known), 2),
        earned=earned,
        why=why,
    )


def _earned(followed: int, agreed: int, false_kills: int) -> tuple[bool, str]:
    if false_kills:
        return False, f"{false_kills} of {followed} would have replaced a machine that went on well"
    if followed < EARNED_DECISIONS:
        return False, f"{followed} of {EARNED_DECISIONS} decisions followed"
    needed = math.ceil(EARNED_AGREEMENT * followed)
    if agreed < needed:
        return False, f"{agreed} of {followed} agreed, {needed} needed"
    return True, f"{agreed} of {followed} agreed, no false kill"


def _proposals(rows: Sequence[Row]) -> Iterable[Proposal]:
    """Modes are of groups: a group acts by itself where all its rules have earned it, else a human approves each."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_group[row.group].append(row)
    for group, mine in sorted(by_group.items()):
        earned = ", ".join(row.rule for row in mine if row.earned)
        missing = ", ".join(f"{row.rule} ({row.why})" for row in mine if not row.earned)
        if not earned or not group:
            continue
        if missing:
            why = f"Earned by {earned}; not yet by {missing}: until then a human approves each disruption."
            yield Proposal(group=group, change={"mode": "act", "approve_before": [Step.DISRUPT.value]}, why=why)
        else:
            why = f"All rules that were seen there have earned it: {earned}. Others would act from their first line on."
            yield Proposal(group=group, change={"mode": "act"}, why=why)


def _notes(reports: int, shadow: int, followed: int) -> Iterable[str]:
    if not reports:
        yield "There are no closing reports here."
    elif not shadow:
        yield "None of the incidents decided in mode shadow."
    elif followed < shadow:
        yield (
            f"{counted(shadow - followed, 'decision was', 'decisions were')} not followed, and nothing is scored: set "
            "`follow_shadow` in the policy (P1D, say), and shadow incidents watch what becomes of their node for "
            "that long."
        )
    yield "An entry of a group replaces the policy's default as a whole: put a proposed change into the entry."
