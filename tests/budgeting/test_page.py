"""FleetBudget's page in the Temporal UI, and the same from the command line: short, and whole where it matters."""

import io

from rich.console import Console

from cli.budget import budget_view
from contract.budget import Limit, Pause
from contract.permit import BudgetState, GangNode, HeldPermit, QueuedRequest
from tests.budgeting.world import ADA, NOW, queued, request
from workflows.budget.page import page

CAUSE = (
    "a common cause is suspected: neuron-dma-queue-hang on 1000 nodes within 15 min, 20 are too many for chance; 990 "
    "of 1000 share driver 2.30.2; 0 of the 9000 healthy nodes do"
)
RELEASES = "Find it first. `approve` lets this node go; without another such fault all go on at 2026-12-02 10:14 UTC."


def waits(node: str, reason: str = CAUSE, releases: str = RELEASES) -> QueuedRequest:
    return queued(node).model_copy(update={"reason": reason, "releases": releases, "limit": Limit.CORRELATION})


STORM = BudgetState(cluster="c", queue=tuple(waits(f"ip-10-0-{n}.ec2.internal") for n in range(1000)))


def shown(state: BudgetState) -> str:
    written = io.StringIO()
    Console(width=600, file=written).print(budget_view(state))
    return written.getvalue()


def test_of_a_thousand_that_wait_for_one_thing_one_entry_is_enough() -> None:
    assert page(STORM).count("a common cause") == 1
    assert "and 997 more" in page(STORM)
    said = " ".join(shown(STORM).split())
    assert said.count("a common") == 1
    assert "and 995 more" in said


def test_what_releases_them_is_not_cut_off_behind_a_long_reason() -> None:
    assert "all go on at 2026-12-02 10:14 UTC" in page(STORM)


def test_page_fits_whatever_waits_and_is_held() -> None:
    queue = tuple(waits(f"n{n}", f"{CAUSE} {n}") for n in range(300))
    held = tuple(HeldPermit(request=request(f"m{n}", approval=ADA), granted_at=NOW) for n in range(300))
    pauses = tuple(Pause(group=f"g{n}", by="ada", reason="why " * 100, at=NOW) for n in range(30))
    assert len(page(BudgetState(cluster="c", queue=queue, held=held, pauses=pauses))) <= 4000


def test_pause_of_a_group_names_the_command_that_lifts_that_one() -> None:
    state = BudgetState(cluster="c", pauses=(Pause(group="g 1", by="ada", reason="roll-out", at=NOW),))
    assert "`nodemend resume --group 'g 1'` lifts it" in page(state)


def test_permit_of_a_gang_says_of_which_job_and_how_many_nodes_and_where_they_are() -> None:
    others = (GangNode(node="h0", group="h"), GangNode(node="n1", group="g", out=True))
    members = {"job": "ml/Job/train", "members": ("h0", "n1"), "others": others}
    train = request("n0").model_copy(update=members)
    out = BudgetState(cluster="c", held=(HeldPermit(request=train, granted_at=NOW),))
    waiting = BudgetState(cluster="c", queue=(QueuedRequest(request=train, asked_at=NOW, reason="of a pause"),))
    for state in (out, waiting):
        assert "n0 and 2 more of ml/Job/train" in page(state)
        assert "n0 and 2 more of ml/Job/train  g, h" in shown(state)
