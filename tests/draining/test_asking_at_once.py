"""How many evictions one process asks for at once; none acts on what was true a queue ago. No cluster."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.errors import failure
from activities.eviction import EVICTIONS_AT_ONCE, Evictions
from activities.pod_filters import Filtered, Verdict
from contract.names import ErrorType
from deploy.local.scene import wait_for

DRAINS, PODS = 5, 12


class SlowApi:
    """Stands for an API server that answers nobody until it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked: list[str] = []

    def evict(self, pod: Any, _grace_period_s: int | None) -> None:
        """One call."""
        self.asked.append(pod["metadata"]["uid"])
        self.answers.wait()


def pods(drain: int) -> list[Filtered]:
    named = [f"{drain}-{number}" for number in range(PODS)]
    return [Filtered({"metadata": {"namespace": "n", "name": n, "uid": n}}, Verdict.EVICT, "") for n in named]


def test_d30_d34_nothing_is_checked_for_an_eviction_that_has_to_wait_for_its_turn() -> None:
    """Many drains want more than the process may ask at once; a veto while they queue is seen by all that queued."""
    api, vetoed, checks = SlowApi(), threading.Event(), []
    evictions = Evictions(api)  # type: ignore[arg-type]

    def check() -> None:
        checks.append(vetoed.is_set())
        if vetoed.is_set():
            raise failure(ErrorType.HUMAN_VETO, "uncordoned")

    def ask(drain: int) -> None:
        evictions.ask(pods(drain), None, before_each=check, answer=lambda *_: None)

    with ThreadPoolExecutor(DRAINS) as drains:
        running = [drains.submit(ask, drain) for drain in range(DRAINS)]
        wait_for(lambda: len(api.asked) == EVICTIONS_AT_ONCE, "as many as may be asked at once")
        assert len(checks) == EVICTIONS_AT_ONCE
        vetoed.set()
        api.answers.set()
        wait(running)
    assert len(api.asked) == EVICTIONS_AT_ONCE < DRAINS * PODS
    for one in running:
        assert one.exception() is None or isinstance(one.exception(), ApplicationError)
    # Every turn was given back: the next drain has them all.
    vetoed.clear()
    ask(DRAINS)
    assert len(api.asked) == EVICTIONS_AT_ONCE + PODS


def test_veto_before_the_first_eviction_asks_for_none() -> None:
    api = SlowApi()

    def veto() -> None:
        raise failure(ErrorType.HUMAN_VETO, "uncordoned")

    with pytest.raises(ApplicationError):
        Evictions(api).ask(pods(0), None, before_each=veto, answer=lambda *_: None)  # type: ignore[arg-type]
    assert api.asked == []
