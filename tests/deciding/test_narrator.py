"""What the Temporal UI shows, against golden files; `NODEMEND_GOLDEN=write` writes them anew after a look."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.fault import RemediationRequest
from contract.gates import GateRecord
from contract.incident import StepStatus
from contract.names import ErrorType, Outcome, Phase, Step
from contract.policy import Mode
from contract.price import Price
from tests.runbook.world import NOW, finding, identity
from workflows.assess import assess
from workflows.incident_state import Incident
from workflows.narrator import DETAILS_MAX, narrate
from workflows.needs_human import failed
from workflows.override_table import Stand
from workflows.sentences import gate

GOLDEN = Path(__file__).parents[1] / "golden"


def incident() -> Incident:
    """An incident that has come as far as the drain."""
    request = RemediationRequest(cluster="test", node="node-1", instance_id="i-0123456789abcdef0")
    made = Incident(request, "remediate-test-node-1-i-0123456789abcdef0", "run-1", NOW)
    made.join(finding())
    made.identity, made.mode, made.policy_version, made.phase = identity(), Mode.ACT, "0123456789ab", Phase.ADMITTED
    made.plan = assess(made.findings, identity())
    for number, (step, words) in enumerate(
        [
            (Step.IDENTIFY, "Node node-1 is i-0123456789abcdef0."),
            (Step.QUARANTINE, "Cordoned and tainted (claim 1)."),
            (Step.CHECKPOINT, "2 jobs: 1 saved, 1 named."),
        ]
    ):
        made.begin(step, NOW + timedelta(seconds=number), words)
        made.end(step, NOW + timedelta(seconds=number + 1), words)
    made.begin(Step.DRAIN, NOW + timedelta(seconds=9), "Evicting the pods of the node.")
    made.summary = "Evicting the pods of the node."
    return made


def parked() -> Incident:
    made = incident()
    made.phase = Phase.NEEDS_HUMAN
    made.summary = failed(
        Step.DRAIN,
        ErrorType.DRAIN_BLOCKED,
        "The node is not empty in time: web/web-1 (PodDisruptionBudget web).",
        "node-1",
        transient=False,
    )
    made.begin(Step.DRAIN, NOW, made.summary, StepStatus.FAILED)
    return made


def at_gate() -> Incident:
    made = incident()
    made.phase = Phase.NEEDS_HUMAN
    record = GateRecord(
        before=Step.REPLACE,
        plan="1a2b3c4d",
        why="Before replace the policy asks for the approvals of 2 people.",
        approvals=2,
        approved_by=("ada",),
        asked_at=NOW,
        price=Price(at=NOW, group="trn1", others=3, free=1, idle=16),
    )
    made.gates.append(record)
    assert made.plan
    made.summary = gate(record, made.plan, "node-1")
    made.begin(Step.REPLACE, NOW + timedelta(minutes=1), made.summary, StepStatus.WAITING)
    return made


def closed() -> Incident:
    made = incident()
    made.phase, made.outcome, made.closed_at = Phase.CLOSED, Outcome.REPLACED, NOW + timedelta(minutes=7)
    made.summary = "i-0123456789abcdef0 was replaced."
    made.end(Step.DRAIN, NOW + timedelta(minutes=2), "14 pods evicted.")
    return made


def unknown() -> Incident:
    request = RemediationRequest(cluster="test", node="node-1")
    made = Incident(request, "remediate-test-node-1-unknown", "run-1", NOW)
    made.begin(Step.IDENTIFY, NOW, "Finding out what machine node-1 is.")
    return made


@pytest.mark.parametrize(
    ("name", "made", "stand", "step"),
    [
        ("running", incident(), Stand.RUNNING, Step.DRAIN),
        ("parked", parked(), Stand.PARKED, Step.DRAIN),
        ("at-gate", at_gate(), Stand.AT_GATE, Step.REPLACE),
        ("closed", closed(), Stand.CLOSED, None),
        ("starting", unknown(), Stand.RUNNING, Step.IDENTIFY),
    ],
)
def test_details_are_as_they_were_looked_at(name: str, made: Incident, stand: Stand, step: Step | None) -> None:
    text = narrate(made.report(), stand, step) + "\n"
    golden = GOLDEN / f"details-{name}.md"
    if os.environ.get("NODEMEND_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()


@given(
    message=st.text(max_size=2000),
    words=st.text(max_size=3000),
    stand=st.sampled_from(Stand),
    step=st.sampled_from(Step),
)
def test_details_stay_within_what_a_url_carries_and_kernel_text_within_its_block(
    message: str, words: str, stand: Stand, step: Step
) -> None:
    made = incident()
    made.join(finding(message=message[:1024], signature="x"))
    made.summary = words
    text = narrate(made.report(), stand, step)
    assert len(text) <= DETAILS_MAX
    assert "<script" not in text.split("```")[0]


def test_every_stand_says_what_can_be_pressed() -> None:
    for stand in Stand:
        text = narrate(incident().report(), stand, Step.VERIFY)
        assert ("You can send" in text) == (stand is not Stand.CLOSED)


@given(
    text=st.lists(
        st.sampled_from(["Press `approve node-1`.", "It waits.", "word", "`" * 2, "x" * 300, "`a b c`"]), max_size=40
    )
)
def test_sentence_that_is_cut_is_cut_between_words_and_leaves_no_half_of_a_command(text: list[str]) -> None:
    made = parked()
    made.summary = " ".join(text)
    line = narrate(made.report(), Stand.PARKED, Step.DRAIN).split("\n\n")[1]
    assert line.count("`") % 2 == 0
    assert line == made.summary.strip() or line.endswith("…") or not made.summary.strip()
