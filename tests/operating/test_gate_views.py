"""What a terminal shows of an approval that is waited for, and of one that was given."""

from datetime import timedelta
from io import StringIO

from rich.console import Console, RenderableType

from cli.views import incident_view, report_view
from contract.names import Phase
from tests.deciding.test_narrator import at_gate
from tests.runbook.world import NOW


def shown(view: RenderableType) -> str:
    screen = StringIO()
    Console(width=250, file=screen).print(view)
    return screen.getvalue()


def test_watch_shows_the_price_and_what_to_type_while_a_gate_waits() -> None:
    text = shown(incident_view(at_gate().report()))
    assert "What an approval costs" in text
    assert "each hour of waiting costs 16 accelerator-hours" in text
    assert "nodemend approve node-1 --plan 1a2b3c4d" in text


def test_report_shows_who_approved_what_at_which_price_and_asks_no_more() -> None:
    made = at_gate()
    made.phase = Phase.ADMITTED
    made.gates[-1] = made.gates[-1].model_copy(
        update={"approved_by": ("ada", "grace"), "passed_at": NOW + timedelta(minutes=3)}
    )
    text = shown(report_view(made.report()))
    assert "before replace, plan 1a2b3c4d: ada, grace (2 of 2), passed 12:03:00" in text
    assert "What an approval costs" not in text
