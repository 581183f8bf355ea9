"""Whoever is woken reads what failed, how things stand, what to do and what to type: for every step and failure."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from cli.main import app
from contract.names import ErrorType, OverrideName, Step
from contract.override import Override
from workflows import on_call
from workflows.needs_human import DO, STANDS, TIMED_OUT, argument, command, failed, way_on
from workflows.override_table import Stand, allowed

DOCUMENT = Path(__file__).parents[2] / "docs/on-call.md"
NODE = "ip-10-0-1-5.us-west-2.compute.internal"
CODE = re.compile(r"`([^`]+)`")


def typed(text: str) -> list[str]:
    """The command in a sentence, as a shell takes it apart."""
    [line] = [code for code in CODE.findall(text) if code.startswith("nodemend ") and "--reason" in code]
    return shlex.split(line)


def is_understood(words: list[str]) -> bool:
    """Whether the command line has this command with these options."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    known = group.commands[words[1]]
    with known.make_context(words[1], words[2:]) as context:
        return context.params["target"] == NODE and bool(context.params["reason"])


def sent(text: str) -> Override:
    """The argument in a sentence, as the incident takes it."""
    [document] = [code for code in CODE.findall(text) if code.startswith("{")]
    return Override.model_validate(json.loads(document))


@pytest.mark.parametrize("kind", [None, *ErrorType])
@pytest.mark.parametrize("step", Step)
def test_every_failure_at_every_step_says_what_happened_how_things_stand_and_what_to_type(
    step: Step, kind: ErrorType | None
) -> None:
    text = failed(step, kind, "It did not work.", NODE, transient=False)
    assert text.startswith(f"{step} failed: It did not work. {STANDS[step]} {DO[kind or TIMED_OUT]}")
    assert is_understood(typed(text))
    assert sent(text).plan == ""
    for stand in (Stand.PARKED, Stand.COMMITTED_PARKED):
        assert OverrideName.RESUME in allowed(stand, step), "what it says is taken there"


def test_failure_that_passes_says_that_it_is_tried_again() -> None:
    assert "tried again by itself" in failed(Step.DRAIN, ErrorType.UNREACHABLE, "No answer.", NODE, transient=True)


def test_nothing_is_told_twice_and_nothing_is_left_open() -> None:
    for words in (*DO.values(), *STANDS.values()):
        assert words.endswith(".")
    assert set(DO) == {TIMED_OUT, *ErrorType}
    assert set(STANDS) == set(Step)


ONLY_AT = {ErrorType.DRAIN_BLOCKED: {Step.DRAIN}, ErrorType.EVIDENCE_OVER: {Step.DRAIN}}
"""Failures of one act alone; the others may come at any step."""
COMMITTED = (Step.AWAIT_REPLACEMENT, Step.VERIFY, Step.CLOSE)


@pytest.mark.parametrize("kind", ErrorType)
@pytest.mark.parametrize("step", Step)
def test_what_a_failure_offers_beside_going_on_is_possible_where_it_happens(step: Step, kind: ErrorType) -> None:
    if step not in ONLY_AT.get(kind, Step):
        return
    text = failed(step, kind, "It did not work.", NODE, transient=False)
    named = {code.replace("-", "_") for code in CODE.findall(text)} & set(OverrideName)
    for stand in (Stand.COMMITTED_PARKED,) if step in COMMITTED else (Stand.PARKED,):
        assert named <= set(allowed(stand, step))


def test_approval_is_of_the_plan_that_is_shown() -> None:
    text = way_on(OverrideName.APPROVE, NODE, "1a2b3c4d")
    assert is_understood(typed(text))
    assert sent(text).plan == "1a2b3c4d"


def test_node_s_name_is_no_shell() -> None:
    assert shlex.split(command(OverrideName.RESUME, "x; rm -rf /"))[2] == "x; rm -rf /"
    assert json.loads(argument()) == {"by": "you", "reason": "why"}


def test_document_is_current() -> None:
    assert DOCUMENT.read_text() == on_call.document(), "python -m workflows.on_call > docs/on-call.md"
