"""A real Temporal dev server for the session, and a production-like worker for each test."""

import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from contract.names import SearchAttribute
from tests.runbook.world import Play, World, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker

KEYS = [
    SearchAttributeKey.for_bool(name) if name is SearchAttribute.NEEDS_HUMAN else SearchAttributeKey.for_keyword(name)
    for name in SearchAttribute
]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal() -> AsyncIterator[Client]:
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        search_attributes=KEYS,
        dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
        dev_server_log_level="error",
    ) as environment:
        yield environment.client


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def task_queue(temporal: Client) -> AsyncIterator[str]:
    """Served by one worker, as in production but for its acts and a quicker pulse."""
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(temporal, scripted_acts(), executor, "runbook", beat=timedelta(seconds=0.1)):
            yield "runbook"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def play(temporal: Client, task_queue: str, world: World) -> Play:
    return Play(temporal, task_queue, world)
