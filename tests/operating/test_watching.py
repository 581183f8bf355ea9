"""`nodemend watch` as long as an incident runs, whatever happens to the connection and to the run."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli.errors import INTERRUPTED
from contract.names import ExitCode
from tests.operating.command import NODEMEND, clean_environment
from tests.operating.fleet import Fleet
from tests.operating.proxy import Proxy

pytestmark = [pytest.mark.thorough, pytest.mark.temporal]


@contextmanager
def watching(fleet: Fleet, node: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [NODEMEND, "watch", node],
        env=clean_environment(**{**fleet.environment, **environment}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


async def line(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdout
    said = ""
    async with asyncio.timeout(40):
        while word not in said:
            said = await asyncio.to_thread(process.stdout.readline)
            assert said, "it ended before it said so"


async def test_ctrl_c_stops_the_looking_and_the_incident_goes_on(fleet: Fleet) -> None:
    handle = await fleet.start("watched")
    with watching(fleet, "watched") as process:
        await line(process, "no worker")
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.to_thread(process.communicate, timeout=30)
    assert process.returncode == INTERRUPTED
    assert "Incidents go on" in said
    assert (await handle.describe()).close_time is None


async def test_temporal_that_is_away_for_a_moment_is_told_and_waited_for(fleet: Fleet) -> None:
    handle = await fleet.start("watched")
    with Proxy(fleet.temporal.address) as proxy, watching(fleet, "watched", TEMPORAL_ADDRESS=proxy.address) as process:
        await line(process, "no worker")
        proxy.cut()
        await line(process, "does not answer")
        proxy.mend()
        await handle.terminate("test")
        await line(process, "terminated in Temporal")
        await asyncio.to_thread(process.communicate, timeout=30)
    assert process.returncode == ExitCode.FAILED


async def test_run_that_goes_on_under_the_same_id_is_followed_as_after_a_reset(fleet: Fleet) -> None:
    await fleet.start("watched", instance="i-0123456789abcdef0")
    with watching(fleet, "watched") as process:
        await line(process, "no worker")
        # As a Reset does: the run that was watched is terminated, and another has its id.
        again = await fleet.start("watched", instance="i-0123456789abcdef0")
        with pytest.raises(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, 3)
        await again.terminate("test")
        await line(process, "terminated in Temporal")
