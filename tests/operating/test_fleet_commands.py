"""`nodemend budget`, `pause` and `resume` as operators use them, with and without workers."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from contract.names import ActivityName, ExitCode
from contract.permit import ClusterCount, CountCluster
from deploy.local.temporal import Temporal
from tests.operating.command import nodemend
from worker.main import make_budget_worker
from worker.temporal import register_search_attributes

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]
WHO = ("--by", "ada", "--reason", "driver roll-out")


@pytest.fixture
def environment(temporal: Temporal) -> dict[str, str]:
    """A cluster that no test has touched."""
    return {
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
        "NODEMEND_CLUSTER": f"fleet-{uuid.uuid4().hex[:8]}",
    }


@pytest_asyncio.fixture(loop_scope="session")
async def working(temporal: Temporal) -> AsyncIterator[None]:
    """A worker of FleetBudget. It has no acts: nothing is asked for here."""
    client = await Client.connect(
        temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
    )
    await register_search_attributes(client)
    async with make_budget_worker(client, [_never]):
        yield


@activity.defn(name=ActivityName.COUNT_CLUSTER)
async def _never(_argument: CountCluster) -> ClusterCount:
    raise AssertionError("nobody asked for a permit")


async def run(environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(nodemend, *arguments, **environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.usefixtures("working")
async def test_pause_before_anything_was_asked_holds_and_resume_lifts_it(environment: dict[str, str]) -> None:
    code, said, _ = await run(environment, "pause", *WHO)
    assert code == 0
    assert "No new permits for the whole cluster" in said
    code, shown, _ = await run(environment, "budget")
    assert "Paused: the whole cluster, by ada" in shown
    assert "driver roll-out" in shown
    code, said, _ = await run(environment, "resume", *WHO, "--output", "json")
    assert (code, json.loads(said)["applied"]) == (0, True)
    state = json.loads((await run(environment, "budget", "--output", "json"))[1])
    assert state["pauses"] == []
    assert [order["name"] for order in state["orders"]] == ["pause", "resume"]


@pytest.mark.usefixtures("working")
async def test_resume_of_what_is_not_paused_is_refused_with_what_is(environment: dict[str, str]) -> None:
    await run(environment, "pause", *WHO, "--group", "trn1")
    code, _, said = await run(environment, "resume", *WHO)
    assert code == ExitCode.FAILED
    assert "Still paused: trn1 (by ada: driver roll-out)" in said


@pytest.mark.thorough  # the command waits eight seconds for an answer
async def test_pause_without_workers_is_left_as_a_signal(environment: dict[str, str]) -> None:
    code, said, _ = await run(environment, "pause", *WHO, "--output", "json")
    assert (code, json.loads(said)["applied"]) == (0, False)
    code, _, said = await run(environment, "budget")
    assert code == ExitCode.UNAVAILABLE
    assert "no worker answers" in said


async def test_budget_that_nobody_asked_is_empty(environment: dict[str, str]) -> None:
    code, shown, _ = await run(environment, "budget")
    assert (code, shown.startswith("0 permits out")) == (0, True)


async def test_who_and_why_are_needed_and_a_target_excludes_a_group(environment: dict[str, str]) -> None:
    code, _, said = await run(environment, "pause", "--by", "", "--reason", "x")
    assert code == ExitCode.USAGE
    assert said.splitlines() == ["--by is empty.", "Say who presses and why: both are in the record."]
    code, _, said = await run(environment, "resume", "node-1", *WHO, "--group", "g")
    assert code == ExitCode.USAGE
    assert "do not go together" in said
