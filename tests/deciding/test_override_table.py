"""The matrix of overrides: every step × every stand × every override, and its document."""

from datetime import timedelta
from pathlib import Path

import pytest

from contract.names import OverrideName, Step
from workflows.override_matrix import document
from workflows.override_table import SKIPPABLE, STEP_ORDERS, Stand, allowed
from workflows.overrides import Controls, press
from workflows.step_orders import Deadline

DOCUMENT = Path(__file__).parents[2] / "docs/overrides.md"


def argument(name: OverrideName, **more: str) -> dict[str, str]:
    extension = {"extension": "PT1H"} if name is OverrideName.EXTEND_DEADLINE else {}
    return {"by": "ada", "reason": "told so", **extension, **more}


@pytest.mark.thorough
@pytest.mark.parametrize("name", OverrideName)
@pytest.mark.parametrize("step", [*Step, None])
@pytest.mark.parametrize("stand", Stand)
def test_what_is_offered_is_taken_and_all_else_is_refused_with_what_is_possible(
    stand: Stand, step: Step | None, name: OverrideName
) -> None:
    controls, untouched = Controls(), Controls()
    answer, new = press(name, argument(name), stand, controls, step)
    offers = allowed(stand, step)
    assert new
    assert answer.accepted == (name in offers)
    if answer.accepted:
        assert offers[name] in answer.text
        assert controls != untouched
    else:
        assert controls == untouched
        assert all(f"`{other}`" in answer.text for other in offers)


@pytest.mark.parametrize("stand", Stand)
def test_nothing_past_the_point_of_no_return_gives_the_node_back(stand: Stand) -> None:
    for step in Step:
        if stand in (Stand.COMMITTED, Stand.COMMITTED_PARKED):
            assert OverrideName.RELEASE not in allowed(stand, step)


@pytest.mark.parametrize(
    "step", [Step.IDENTIFY, Step.QUARANTINE, Step.ASSESS, Step.DISRUPT, Step.REPLACE, Step.AWAIT_REPLACEMENT]
)
def test_no_stand_skips_what_makes_the_rest_safe(step: Step) -> None:
    assert step not in SKIPPABLE
    assert not any(OverrideName.SKIP_STEP in allowed(stand, step) for stand in Stand)


@pytest.mark.parametrize("name", sorted(STEP_ORDERS))
def test_the_same_words_sent_again_before_they_are_obeyed_apply_once(name: OverrideName) -> None:
    controls = Controls()
    press(name, argument(name), Stand.RUNNING, controls, Step.DRAIN)
    order = controls.order
    assert press(name, argument(name), Stand.RUNNING, controls, Step.DRAIN)[1] is False
    assert controls.order == order


def test_two_extensions_before_either_is_obeyed_add_up_and_the_last_word_counts() -> None:
    controls, name = Controls(), OverrideName.EXTEND_DEADLINE
    for number in ("1", "2"):
        press(name, argument(name, id=number), Stand.RUNNING, controls, Step.DRAIN)
    assert controls.order
    assert controls.order.override.extension == timedelta(hours=2)
    press(OverrideName.SKIP_STEP, argument(OverrideName.SKIP_STEP), Stand.RUNNING, controls, Step.DRAIN)
    assert controls.order.name is OverrideName.SKIP_STEP


def test_an_extension_is_on_top_of_what_was_left() -> None:
    deadline = Deadline(timedelta(minutes=30))
    deadline.extend(timedelta(minutes=10), ran=timedelta(minutes=25))
    assert deadline.now == timedelta(minutes=15)
    deadline.extend(timedelta(minutes=5), ran=None)
    assert deadline.now == timedelta(minutes=5)
    deadline.renew()
    assert deadline.now == timedelta(minutes=30)


def test_document_is_current() -> None:
    assert DOCUMENT.read_text() == document(), "python -m workflows.override_matrix > docs/overrides.md"
