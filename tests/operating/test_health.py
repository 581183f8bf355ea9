"""What a worker's probes are told: ready is what Temporal sees, alive is that the event loop runs."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from contract.address import Address
from tests.harness import http
from worker.health import Health, HealthServer, beat


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def address(health: Health) -> Iterator[str]:
    server = HealthServer(Address("127.0.0.1", 0), health)
    yield f"http://{server.address}"
    server.close()


def test_worker_that_temporal_does_not_see_is_not_ready_and_need_not_be_restarted(address: str) -> None:
    assert http(f"{address}/healthz")[0] == 503
    assert http(f"{address}/livez")[0] == 200


def test_worker_whose_event_loop_stands_still_is_to_be_restarted(health: Health, address: str) -> None:
    health.set(ok=True, reason="polling")
    health.beat_at = time.monotonic() - 3600
    code, body = http(f"{address}/livez")
    assert code == 503
    assert "stood still" in body


async def test_running_event_loop_says_so(health: Health) -> None:
    health.beat_at = long_ago = time.monotonic() - 3600
    beating = asyncio.create_task(beat(health))
    await asyncio.sleep(0)
    assert health.beat_at > long_ago
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating


def test_only_these_two_are_served(address: str) -> None:
    assert http(f"{address}/")[0] == 404
