"""The on-call page has every question that an incident can ask, and none that it does not ask any more."""

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from contract.acts import GroupSurvey
from contract.culprit import CulpritSearch, Suspect
from contract.fault import FaultReport, Verdict
from contract.gates import Gate, GateRecord, Situation, demanded
from contract.identity import NodeIdentity
from contract.names import Step
from contract.plan import Confidence, Rung
from contract.replacement import Answer, Found, GroupFinding, RebootMode, ReplacementPolicy
from tests.runbook.world import finding, identity
from workflows import culprit, sentences
from workflows.assess import assess
from workflows.on_call import QUESTIONS
from workflows.remediate_node import DONE_BY_US

SITUATION = Situation(verdict=Verdict.HARDWARE, now=datetime.now(UTC), pods=1, confidence=Confidence.HIGH)


def survey(**changes: Any) -> GroupSurvey:
    return GroupSurvey(**{"group": "trn1", "desired": 4, "instances": (), **changes})


def quarantines() -> Iterator[str]:
    """What is asked where the decision leaves it to people, for every kind of finding, machine and policy."""
    findings: list[FaultReport] = [
        finding(verdict=verdict, fields={"instance-id": named} if named else {})
        for verdict, named in itertools.product(Verdict, ("", "i-00000000000000bad"))
    ]
    machines: list[NodeIdentity] = [
        identity(instance_id=instance, group=group, foreign_owners=owners, tried=tried)
        for instance, group, owners, tried in itertools.product(
            (None, "i-0123456789abcdef0"), (None, "trn1"), ((), ("Karpenter owns it",)), ((), (Rung.REBOOT,))
        )
    ]
    policies = [ReplacementPolicy(reboot=mode) for mode in RebootMode]
    for report, machine, policy in itertools.product(findings, machines, policies):
        plan = assess([report], machine, None, policy)
        if plan.rung not in DONE_BY_US | {Rung.OBSERVE}:
            yield f"{sentences.plan(plan)} {plan.remedy}"


def others() -> Iterator[str]:
    """What else is asked."""
    for number in (1, 2):
        suspects = tuple(Suspect(node=f"n{i}", evidence=("its detector is silent",)) for i in range(number))
        found = CulpritSearch(job="llama", nodes=3, suspects=suspects)
        yield f"{culprit.named(found)} {culprit.remedy(found)}"
    why = demanded([Gate(before=Step.REPLACE)], (Step.REPLACE,), SITUATION)
    assert why
    plan = assess([finding(verdict=Verdict.HARDWARE)], identity(), None, ReplacementPolicy())
    reasons = (why.why, sentences.last_attempt("llama (attempt 3 of 3)"), sentences.unsaved("llama saved nothing"))
    for reason in reasons:
        record = GateRecord(before=Step.REPLACE, plan="1a2b", why=reason, approvals=1, asked_at=datetime.now(UTC))
        yield sentences.gate(record, plan, "n1")
    for drained in (True, False):
        yield sentences.obstacles(survey(obstacles=("Launch is suspended",)), drained=drained)
    answered = Found(finding=GroupFinding.RESERVATION_FULL, answer=Answer.REBOOT_FIRST, explanation="the block is full")
    yield sentences.reboot_first(survey(findings=(answered,)))


def listed(question: str) -> list[str]:
    """The rows of the page that a question is found by."""
    patterns = {row: re.compile(re.escape(row).replace("…", ".*"), re.S) for row in QUESTIONS}
    return [row for row, pattern in patterns.items() if pattern.match(question)]


ASKED = sorted({*quarantines(), *others()})


@pytest.mark.parametrize("question", ASKED)
def test_each_question_is_on_the_page(question: str) -> None:
    assert listed(question)


def test_page_has_no_question_that_is_asked_no_more() -> None:
    assert {row for question in ASKED for row in listed(question)} == set(QUESTIONS)
