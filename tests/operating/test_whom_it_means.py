"""Which incident a command is about: the machine that was named, and never its neighbour.

Without workers, for that is when operators have the least to go by.
"""

import asyncio
import json
import os
import pwd
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from contract.incident import IncidentReport
from contract.names import INCIDENT_MEMO, ExitCode, OverrideName, Phase
from tests.operating.fleet import Fleet

pytestmark = [pytest.mark.thorough, pytest.mark.temporal]


async def signals(handle: WorkflowHandle[Any, Any]) -> list[str]:
    history = await handle.fetch_history()
    return [
        event.workflow_execution_signaled_event_attributes.signal_name
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]


async def test_override_reaches_the_named_node_and_not_one_whose_name_goes_on(fleet: Fleet) -> None:
    meant = await fleet.start("gpu-1")
    neighbour = await fleet.start("gpu-1-spare")
    done = await fleet.press("gpu-1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["incident_id"] == meant.id
    assert await signals(meant) == ["hold"]
    assert await signals(neighbour) == []


async def test_node_without_an_incident_is_not_found_though_a_longer_name_has_one(fleet: Fleet) -> None:
    neighbour = await fleet.start("gpu-1-spare")
    done = await fleet.press("gpu-1")
    assert done.returncode == ExitCode.NO_INPUT
    assert "nodemend status --all" in done.stderr
    assert await signals(neighbour) == []


@pytest.mark.parametrize("given", ["trn1-77", "i-00112233"], ids=["half a name", "the machine's"])
async def test_who_gives_half_a_name_or_the_machine_s_is_told_the_whole_and_nothing_is_pressed(
    fleet: Fleet, given: str
) -> None:
    node = "ip-trn1-77.us-west-2.compute.internal"
    meant = await fleet.start(node, instance="i-0011223344556677")
    done = await fleet.press(given)
    assert done.returncode == ExitCode.NO_INPUT
    assert f"Did you mean {meant.id}?" in done.stderr
    assert await signals(meant) == []


async def test_who_has_no_user_in_the_environment_is_known_by_the_account(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cron job, or a shell in a pod."""
    for variable in ("USER", "LOGNAME"):
        monkeypatch.delenv(variable, raising=False)
    meant = await fleet.start("gpu-1")
    done = await fleet.command("hold", "gpu-1", "--reason", "r")
    assert done.returncode == ExitCode.OK, done.stderr
    history = await meant.fetch_history()
    [pressed] = [event for event in history.events if event.HasField("workflow_execution_signaled_event_attributes")]
    [said] = pressed.workflow_execution_signaled_event_attributes.input.payloads
    assert json.loads(said.data)["by"] == pwd.getpwuid(os.getuid()).pw_name


async def test_cluster_and_node_that_make_the_same_id_are_told_apart(fleet: Fleet) -> None:
    other = await fleet.start("a", cluster=f"{fleet.cluster}-east")
    done = await fleet.press("east-a")
    assert done.returncode == ExitCode.NO_INPUT
    assert await signals(other) == []


async def test_several_open_incidents_of_a_node_are_listed_and_none_is_touched(fleet: Fleet) -> None:
    real = await fleet.start("both")
    drill = await fleet.start("both", drill=True)
    done = await fleet.press("both")
    assert done.returncode == ExitCode.USAGE
    assert real.id in done.stderr
    assert drill.id in done.stderr
    assert (await signals(real), await signals(drill)) == ([], [])
    by_id = await fleet.press(drill.id)
    assert by_id.returncode == 0
    assert (await signals(real), await signals(drill)) == ([], ["hold"])


async def test_closed_incident_takes_no_override_and_says_how_it_ended(fleet: Fleet) -> None:
    handle = await fleet.start("gone")
    await handle.terminate("test")
    for target in ("gone", handle.id):
        done = await fleet.press(target, OverrideName.RELEASE)
        assert done.returncode == ExitCode.NO_INPUT
        assert "terminated" in done.stderr


async def test_name_with_quotes_is_a_name_and_no_query(fleet: Fleet) -> None:
    handle = await fleet.start("n")
    done = await fleet.press('x" OR WorkflowId STARTS_WITH "')
    assert done.returncode == ExitCode.NO_INPUT
    assert await signals(handle) == []


async def test_status_lists_this_cluster_alone_and_says_how_each_stands(fleet: Fleet) -> None:
    running, ended = await fleet.start("one"), await fleet.start("two")
    elsewhere = await fleet.start("three", cluster=f"x{fleet.cluster}")
    await ended.terminate("test")

    async def listed(*options: str) -> dict[str, str]:
        done = await fleet.command("status", *options, "--output", "json")
        return {entry["incident_id"]: entry["status"] for entry in json.loads(done.stdout)["incidents"]}

    async with asyncio.timeout(30):
        while (now := await listed("--all")).get(ended.id) != "terminated":
            pass
    assert now == {running.id: "running", ended.id: "terminated"}
    assert await listed() == {running.id: "running"}
    assert elsewhere.id not in (await fleet.command("status", "--all")).stdout


async def test_status_of_many_shows_who_needs_a_human_first_and_counts_the_rest(fleet: Fleet) -> None:
    waits = IncidentReport(
        incident_id="i",
        run_id="r",
        cluster=fleet.cluster,
        node="waits-for-you",
        phase=Phase.NEEDS_HUMAN,
        summary="Approve it?",
        opened_at=datetime.now(UTC),
    )
    await fleet.start("waits-for-you", memo={INCIDENT_MEMO: waits})
    await asyncio.gather(*(fleet.start(f"n{number}") for number in range(104)))
    lines = (await fleet.command("status")).stdout.splitlines()
    assert "waits-for-you" in lines[1]
    told = next(line for line in lines if "more (" in line)
    assert "5 more" in told
    assert "104 starting" in told
    assert "1 needs-human" in told


@pytest.mark.parametrize("command", ["watch", "report"])
async def test_workflow_that_was_terminated_is_told_as_such_and_is_1(fleet: Fleet, command: str) -> None:
    handle = await fleet.start("gone")
    await handle.terminate("test")
    done = await fleet.command(command, "gone")
    assert done.returncode == ExitCode.FAILED
    assert "terminated in Temporal" in done.stderr
    assert "nodemend.io/owner" in done.stderr


async def test_report_that_nobody_wrote_yet_says_that_a_worker_is_needed(fleet: Fleet) -> None:
    await fleet.start("waits")
    done = await fleet.command("report", "waits")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "nodemend work" in done.stderr


async def test_override_with_an_identity_that_is_too_long_names_the_option(fleet: Fleet) -> None:
    await fleet.start("long")
    done = await fleet.command("hold", "long", "--by", "ada", "--reason", "r", "--id", "x" * 200)
    assert done.returncode == ExitCode.USAGE
    assert "--id" in done.stderr
    assert "100" in done.stderr
