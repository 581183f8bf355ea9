"""The price of an approval in words, against golden files; `NODEMEND_GOLDEN=write` writes them anew after a look."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.price import JobPrice, Price, in_short, lines, total_idle
from tests.runbook.world import NOW

GOLDEN = Path(__file__).parents[1] / "golden"
TRAIN = JobPrice(
    job="train/JobSet/llama",
    pods=1,
    nodes=4,
    accelerators=64,
    attempt=2,
    attempts=4,
    why="maxRestarts 3, 1 used",
    declared=True,
    step=1200,
    saved_at=NOW - timedelta(minutes=12),
)
BUSY = Price(
    at=NOW,
    jobs=(TRAIN, JobPrice(job="web/Deployment/api", pods=2, why="its kind starts its pods again as often as it takes")),
    jobs_total=2,
    pods=3,
    group="trn1-training",
    others=3,
    free=1,
)
PRICES = {
    "busy": BUSY,
    "last-attempt": BUSY.model_copy(
        update={
            "jobs": (TRAIN.model_copy(update={"ends": True, "attempt": 4, "why": "maxRestarts 3, 3 used"}),),
            "jobs_total": 1,
            "pods": 1,
            "free": 0,
        }
    ),
    "dead": BUSY.model_copy(
        update={
            "jobs": (TRAIN.model_copy(update={"alive": False}),),
            "jobs_total": 1,
            "others": 0,
            "free": 0,
            "idle": 64,
        }
    ),
    "unknown": BUSY.model_copy(
        update={
            "jobs": (TRAIN.model_copy(update={"saved_at": None, "step": None, "unread": "exec was refused"}),),
            "jobs_total": 9,
            "idle": 8,
        }
    ),
    "empty": Price(at=NOW, group="trn1-training", others=3, free=3, idle=16),
}


@pytest.mark.parametrize("name", PRICES)
def test_price_reads_as_it_was_looked_at(name: str) -> None:
    text = "\n".join([in_short(PRICES[name]), "", *(f"- {line}" for line in lines(PRICES[name]))]) + "\n"
    golden = GOLDEN / f"price-{name}.md"
    if os.environ.get("NODEMEND_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()


@given(devices=st.integers(0, 16), held=st.integers(0, 32), dead=st.lists(st.integers(0, 64), max_size=3))
def test_what_stands_idle_is_never_negative_and_counts_what_is_dead(devices: int, held: int, dead: list[int]) -> None:
    assert total_idle(devices, held, dead) == max(0, devices - held) + sum(dead)


@given(saved=st.timedeltas(timedelta(days=-1), timedelta(days=30)), jobs=st.integers(0, 500))
def test_price_of_many_jobs_stays_short_and_no_age_is_negative(saved: timedelta, jobs: int) -> None:
    """A job's clock may be ahead of the worker's."""
    job = TRAIN.model_copy(update={"saved_at": NOW - saved})
    price = Price(at=NOW, jobs=(job,) * min(jobs, 20), jobs_total=jobs, others=1)
    assert len(lines(price)) <= 9
    assert "-" not in in_short(price).replace("accelerator-hour", "")
