"""What a waiting incident tells people to type and to send is taken as it stands: out of its text, into a shell."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from contract.gates import Gate
from contract.names import ActivityName, ErrorType, ExitCode, Outcome, OverrideName, Phase, Step
from tests.operating.command import clean_environment
from tests.runbook.world import Incident, Play, Stuck, World, fails, fast

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]

_PROGRAMS: Final = Path(sys.executable).parent
_TYPED: Final = re.compile(r"`(nodemend [^`]* --reason [^`]*)`")
_SENT: Final = re.compile(r"send `(\w+)` with `(\{[^`]*\})`")
_OFFERED: Final = re.compile(r"^│ +(nodemend [a-z-]+ node-\S+ .*--reason why) ", re.MULTILINE)


async def pasted(line: str, play: Play) -> "subprocess.CompletedProcess[str]":
    """A line in a person's shell."""
    environment = clean_environment(
        TEMPORAL_ADDRESS=play.client.service_client.config.target_host,
        NODEMEND_CLUSTER="test",
        USER="tired",
        PATH=f"{_PROGRAMS}{os.pathsep}{os.environ['PATH']}",
    )
    return await asyncio.to_thread(
        subprocess.run, line, shell=True, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


async def types(text: str, play: Play) -> None:
    [line] = _TYPED.findall(text)
    done = await pasted(line, play)
    assert done.returncode == ExitCode.OK, done.stderr


async def sends(text: str, play: Play, incident: Incident) -> None:
    """With Temporal's own program, which knows nothing of ours."""
    [(name, argument)] = _SENT.findall(text)
    done = await pasted(
        f"temporal workflow signal --workflow-id {incident.handle.id} --name {name} --input '{argument}'", play
    )
    assert done.returncode == ExitCode.OK, done.stderr


@pytest.mark.parametrize(
    ("step", "act", "kind"),
    [
        (Step.QUARANTINE, ActivityName.QUARANTINE_NODE, ErrorType.ACCESS_DENIED),
        (Step.DRAIN, ActivityName.DRAIN_NODE, ErrorType.DRAIN_BLOCKED),
        (Step.REPLACE, ActivityName.MARK_INSTANCE_UNHEALTHY, ErrorType.INSTANCE_NOT_IN_GROUP),
        (Step.AWAIT_REPLACEMENT, ActivityName.AWAIT_REPLACEMENT, ErrorType.NO_REPLACEMENT),
        (Step.VERIFY, ActivityName.VERIFY_REPLACEMENT, ErrorType.NOT_VERIFIED),
    ],
    ids=str,
)
async def test_parked_incident_goes_on_by_its_own_words(
    play: Play, world: World, step: Step, act: ActivityName, kind: ErrorType
) -> None:
    world.on(act, fails(kind), fails(kind))
    incident = await play.start()
    await types((await incident.until_phase(Phase.NEEDS_HUMAN)).summary, play)
    again = await incident.until(lambda report: report.phase is Phase.NEEDS_HUMAN and bool(report.overrides))
    await sends(again.summary, play, incident)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert [(one.name, one.by, one.reason) for one in report.overrides] == [
        (OverrideName.RESUME, "tired", "why"),
        (OverrideName.RESUME, "you", "why"),
    ]
    assert f"{step} failed" in again.summary


async def test_gate_is_passed_by_its_own_words(play: Play, world: World) -> None:
    world.policy = fast(gates=(Gate(before=Step.REPLACE, approvals=2),))
    incident = await play.start()
    asked = (await incident.until_phase(Phase.NEEDS_HUMAN)).summary
    await types(asked, play)
    await sends(asked, play, incident)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.gates[0].approved_by == ("tired", "you")


async def test_hold_says_who_holds_and_is_lifted_by_its_own_words(play: Play, world: World) -> None:
    world.policy = fast(approve_before=(Step.DISRUPT,))
    incident = await play.start()
    asked = await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.HOLD, reason="looking at the counters")
    held = await incident.until(lambda report: report.summary.startswith("Held"))
    assert "ada: looking at the counters" in held.summary
    await types(held.summary, play)
    asked = await incident.until(lambda report: report.phase is Phase.NEEDS_HUMAN and len(report.overrides) == 2)
    await sends(asked.summary, play, incident)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_each_line_that_watch_offers_is_taken_where_it_is_offered(play: Play, world: World) -> None:
    """One incident for each line: after it, the incident stands elsewhere."""
    world.on(ActivityName.DRAIN_NODE, *[fails(ErrorType.DRAIN_BLOCKED)] * 20)
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    seen = await pasted(f"nodemend report {incident.node}", play)
    lines = [" ".join(line.split()) for line in _OFFERED.findall(seen.stdout)]
    offered = [line.split()[1].replace("-", "_") for line in lines]
    assert offered == ["resume", "retry_step", "skip_step", "extend_deadline", "abort", "release", "acknowledge"]
    for line in lines:
        other = await play.start()
        await other.until_phase(Phase.NEEDS_HUMAN)
        done = await pasted(line.replace(incident.node, other.node), play)
        assert done.returncode == ExitCode.OK, (line, done.stderr)


async def test_status_shows_what_an_incident_does_now_and_not_what_was_noted_last(play: Play, world: World) -> None:
    """Its memo is written where it changes phase: long before it drains."""
    draining = Stuck()
    world.on(ActivityName.DRAIN_NODE, draining)
    incident = await play.start()
    await draining.started.wait()
    await incident.until(lambda report: report.steps[-1].step is Step.DRAIN)
    seen = await pasted("nodemend status --output json", play)
    [report] = [
        one["report"] for one in json.loads(seen.stdout)["incidents"] if one["incident_id"] == incident.handle.id
    ]
    assert report["steps"][-1]["step"] == Step.DRAIN
    draining.let_go.set()
    assert (await incident.result()).outcome is Outcome.REPLACED
