"""D36: a job that loses nodes is one patient. One permit, one request a window, released together, never too soon."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

from activities.written import note
from contract import acts
from contract.acts import CheckpointStatus
from contract.fault import DataTrust
from contract.gang import GangCheckpoint, GangLook, GangStage, RequestGangCheckpoint, TellGang, ToldGang
from contract.names import ActivityName, ErrorType, Step
from contract.permit import AskPermit
from contract.trail import System
from tests.budgeting.world import ADA
from tests.checkpointing.gang_play import GangPlay
from tests.runbook.conftest import task_queue, temporal, world  # noqa: F401 - the same server and worker
from tests.runbook.world import NOW, Stuck, World, fails, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture
def gang(temporal: Client, task_queue: str, world: World) -> GangPlay:  # noqa: F811
    return GangPlay(temporal, task_queue, world)


async def test_nodes_that_fail_together_have_one_permit_one_request_and_one_release(gang: GangPlay) -> None:
    looking = Stuck()
    gang.world.on(ActivityName.LOOK_AT_GANG, looking)
    nodes = [f"node-{number}" for number in range(64)]
    await asyncio.gather(*(gang.join(node) for node in nodes))
    while (await gang.state()).joined < 64:
        await asyncio.gather(*(gang.join(node) for node in nodes))
    looking.let_go.set()
    states = await asyncio.gather(*(gang.until_released(node) for node in nodes))

    assert gang.world.names().count(ActivityName.ASK_PERMIT) == 1
    (asked,) = gang.asked()
    assert len(asked.members) == 64
    assert {state.checkpoint.step for state in states if state.checkpoint} == {1000}
    assert states[0].requests == 1

    await asyncio.gather(*(gang.leave(node) for node in nodes))
    assert (await gang.handle.result()).joined == 64
    assert gang.world.names()[-1] == ActivityName.RETURN_PERMITS
    assert len((await gang.handle.fetch_history()).events) < 500


async def test_node_that_fails_while_others_drain_joins_them_and_nothing_is_asked_again(gang: GangPlay) -> None:
    await gang.join("a")
    await gang.until_released("a")
    state = await gang.look("b")
    assert state is not None
    assert state.stage is GangStage.RELEASED
    assert len(gang.asked()) == 1
    for node in ("a", "b"):
        await gang.leave(node)


async def test_node_that_fails_once_the_others_are_drained_opens_a_window_of_its_own(gang: GangPlay) -> None:
    """The job runs again by then: released unasked, it would lose all that it has done since."""
    await gang.join("a")
    await gang.until_released("a")
    await gang.leave("a", drained=True)
    assert await gang.look("b") is None
    state = await gang.until_released("b")
    assert (state.windows, state.requests, state.first) == (2, 2, gang.member("b").key)
    first, second = gang.asked()
    assert first.nonce != second.nonce
    assert [member.target.identity.node for member in second.members] == ["b"]
    for node in ("a", "b"):
        await gang.leave(node)


async def test_each_window_asks_the_fleet_for_leave_of_its_own_and_names_who_is_out_already(gang: GangPlay) -> None:
    """Pauses, maintenance windows and the peace after a restart hold for the second disturbance as for the first."""
    looks = [GangLook(alive=True, explanation="it runs", restarted_at=at) for at in (None, NOW)]
    gang.world.on(ActivityName.LOOK_AT_GANG, *[lambda _, look=look: look for look in looks])
    await gang.join("a")
    await gang.until_released("a")
    await gang.leave("a", drained=True)
    stuck = Stuck()
    gang.world.on(ActivityName.ASK_PERMIT, stuck)
    await gang.join("b")
    await stuck.started.wait()
    assert [request.nodes for request in await gang.permits()] == [("a",)], "until it has the new one"
    stuck.let_go.set()
    await gang.until_released("b")
    first, second = [ask.request for ask in gang.world.arguments(ActivityName.ASK_PERMIT)]
    assert first.token == second.token
    assert (first.nodes, first.restarted_at) == (("a",), None)
    assert (second.nodes, [part.out for part in second.parts]) == (("b", "a"), [False, True])
    assert second.restarted_at == NOW
    assert [request.nodes for request in await gang.permits()] == [("b", "a")]
    assert gang.asked()[-1].permit == second
    for node in ("a", "b"):
        await gang.leave(node)


async def test_budget_is_told_who_goes_along_without_being_asked_for_and_who_has_left(gang: GangPlay) -> None:
    """What goes along counts, or as many again would be let go beside it; what has left is room for others."""
    await gang.join("a")
    await gang.until_released("a")
    await gang.look("b")
    (told,) = await gang.until_permits(("a", "b"), out=True)
    assert [part.out for part in told.parts] == [True, True]
    await gang.leave("a")
    await gang.until_permits(("b",), out=True)
    revisions = [ask.request.revision for ask in gang.world.arguments(ActivityName.ASK_PERMIT)]
    assert revisions == sorted(set(revisions))
    await gang.leave("b")


async def test_budget_that_cannot_be_told_who_goes_along_keeps_nobody_waiting(gang: GangPlay) -> None:
    await gang.join("a")
    await gang.until_released("a")
    gang.world.on(ActivityName.ASK_PERMIT, fails(ErrorType.ACCESS_DENIED))
    assert await gang.look("b") is not None
    for node in ("a", "b"):
        await gang.leave(node)
    await gang.handle.result()


async def test_human_s_approval_reaches_the_gang_that_is_queued_and_lets_it_pass_this_once(gang: GangPlay) -> None:
    """It was given for the node that waits; one that fails later waits for a word of its own."""
    stuck = Stuck()
    gang.world.on(ActivityName.ASK_PERMIT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    await gang.join("a", approval=ADA)
    await gang.until_released("a", approval=ADA)
    await gang.leave("a", drained=True)
    await gang.join("b")
    await gang.until_released("b")
    asked = [ask.request.approval for ask in gang.world.arguments(ActivityName.ASK_PERMIT)]
    assert asked == [None, ADA, None]
    for node in ("a", "b"):
        await gang.leave(node)


async def test_node_that_leaves_while_its_window_is_queued_is_asked_for_no_more(gang: GangPlay) -> None:
    await gang.join("a")
    await gang.until_released("a")
    await gang.leave("a", drained=True)
    stuck = Stuck()
    gang.world.on(ActivityName.ASK_PERMIT, stuck)
    await gang.join("b")
    await stuck.started.wait()
    await gang.leave("b")
    await gang.until_permits(("a",), out=True)
    await gang.leave("a")


async def test_node_that_fails_while_the_gang_is_queued_is_asked_for_with_the_others(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.ASK_PERMIT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    await gang.join("b")
    await asyncio.gather(*map(gang.until_released, ("a", "b")))
    asked = [ask.request.nodes for ask in gang.world.arguments(ActivityName.ASK_PERMIT)]
    assert asked == [("a",), ("a", "b")]
    assert stuck.cancelled == 1
    for node in ("a", "b"):
        await gang.leave(node)


async def test_no_node_is_released_before_the_answer(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    assert (await gang.join("a")) is not None, "it has leave"
    assert await gang.look("a") is None
    stuck.let_go.set()
    assert (await gang.until_released("a")).checkpoint is not None
    await gang.leave("a")


async def test_dead_job_needs_no_permit_and_no_checkpoint(gang: GangPlay) -> None:
    gang.world.on(ActivityName.LOOK_AT_GANG, lambda _: GangLook(alive=False, explanation="its condition is Failed"))
    await gang.join("a")
    state = await gang.until_released("a")
    assert state.checkpoint is not None
    assert state.checkpoint.status is CheckpointStatus.DEAD
    assert not {ActivityName.ASK_PERMIT, ActivityName.REQUEST_GANG_CHECKPOINT} & set(gang.world.names())
    await gang.leave("a")


async def test_job_that_hangs_waits_for_no_permit_and_its_newest_is_still_named(gang: GangPlay) -> None:
    gang.world.on(ActivityName.LOOK_AT_GANG, lambda _: GangLook(alive=True, hung=True, explanation="it hangs"))
    await gang.join("a")
    state = await gang.until_released("a")
    assert ActivityName.ASK_PERMIT not in gang.world.names()
    assert state.checkpoint is not None
    (asked,) = gang.asked()
    assert asked.permit is None
    await gang.leave("a")


async def test_node_whose_incident_has_leave_already_brings_it_along(gang: GangPlay) -> None:
    """Two jobs on two failing nodes: the second gang's permit could wait for the first's for ever."""
    stuck = Stuck()
    gang.world.on(ActivityName.ASK_PERMIT, stuck)
    await gang.join("a", covered=True)
    await gang.until_released("a", covered=True)
    await stuck.started.wait()
    (told,) = gang.world.arguments(ActivityName.ASK_PERMIT)
    assert told.request.out, "told, not asked"
    await gang.leave("a")


async def test_fault_that_spoils_data_stops_the_asking(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    await gang.join("b", data=DataTrust.SUSPECT, evidence_since=NOW)
    await gang.until_released("b", data=DataTrust.SUSPECT, evidence_since=NOW)
    _, second = gang.asked()
    assert stuck.cancelled == 1
    assert [member.data for member in second.members] == [DataTrust.TRUSTED, DataTrust.SUSPECT]
    assert (await gang.state()).requests == 1
    for node in ("a", "b"):
        await gang.leave(node)


async def test_incident_that_finds_out_later_that_data_is_suspect_tells_its_gang(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    assert await gang.look("a", data=DataTrust.SUSPECT) is None
    await gang.until_released("a", data=DataTrust.SUSPECT)
    assert gang.asked()[-1].members[0].data is DataTrust.SUSPECT
    await gang.leave("a")


async def test_human_s_extension_reaches_the_job_and_what_is_asked_is_the_same_request(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    more = timedelta(minutes=10)
    await gang.until_released("a", extended=more)
    first, second = gang.asked()
    assert stuck.cancelled == 1
    assert second.request.deadline == first.request.deadline + more == gang.request().deadline + more
    assert second.request.rules.urgent == first.request.rules.urgent + more
    assert (second.nonce, second.asked_at, second.extended) == (first.nonce, first.asked_at, more)
    assert (await gang.state()).requests == 1
    await gang.leave("a")


async def test_what_was_done_in_its_nodes_name_is_told_to_them_with_attempts_and_writes(gang: GangPlay) -> None:
    def answer(argument: RequestGangCheckpoint) -> GangCheckpoint:
        note(System.KUBERNETES, "exec", "/pods/train-0/exec", 101)
        return GangCheckpoint(job=argument.request.job, status=CheckpointStatus.SAVED, step=1, uri="x")

    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, fails(ErrorType.UNREACHABLE, "no API server"), answer)
    await gang.join("a")
    state = await gang.until_released("a")
    told = {record.act: record for record in state.acts}
    asked = told[ActivityName.REQUEST_GANG_CHECKPOINT]
    assert (asked.step, [write.object for write in asked.trail.writes]) == (Step.CHECKPOINT, ["/pods/train-0/exec"])
    assert (asked.trail.attempts, [failed.number for failed in asked.trail.failed]) == (2, [1])
    await gang.leave("a")


async def test_node_that_leaves_while_the_job_is_asked_is_told_so_and_the_others_are_told_the_answer(
    gang: GangPlay,
) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, stuck)
    await asyncio.gather(gang.join("a"), gang.join("b"))
    await stuck.started.wait()
    left = {record.act: record for record in (await gang.leave("a", tell=True)).acts}
    assert ActivityName.ASK_PERMIT not in left or not left[ActivityName.ASK_PERMIT].error
    assert "had not answered" in left[ActivityName.REQUEST_GANG_CHECKPOINT].error
    assert not (await gang.leave("a")).acts
    stuck.let_go.set()
    state = await gang.until_released("b")
    assert not [record for record in state.acts if record.error]
    await gang.leave("b")


async def test_last_node_that_leaves_while_the_job_is_asked_is_told_what_was_begun(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    (told,) = [
        record
        for record in (await gang.leave("a", tell=True)).acts
        if record.act == ActivityName.REQUEST_GANG_CHECKPOINT
    ]
    assert told.error
    (kept,) = [record for record in (await gang.handle.result()).acts if record.act == told.act]
    assert (stuck.cancelled, kept.error) == (1, "It was stopped before the job had answered.")
    assert (await gang.leave("a", tell=True)).acts, "a gang that is over tells still"


async def test_asking_that_fails_releases_the_nodes_and_says_so(gang: GangPlay) -> None:
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, fails(ErrorType.ACCESS_DENIED, "Grant pods/exec."))
    await gang.join("a")
    state = await gang.until_released("a")
    assert state.checkpoint is not None
    assert (state.checkpoint.status, state.checkpoint.explanation) == (CheckpointStatus.FAILED, "Grant pods/exec.")
    (record,) = [record for record in state.acts if record.act == ActivityName.REQUEST_GANG_CHECKPOINT]
    assert record.error == "Grant pods/exec."
    await gang.leave("a")


@pytest.mark.thorough
@pytest.mark.timeout(180)
async def test_no_node_waits_past_the_deadline_for_a_worker_that_never_answers(gang: GangPlay) -> None:
    gang.world.on(ActivityName.REQUEST_GANG_CHECKPOINT, Stuck())
    await gang.join("a")
    async with asyncio.timeout(90):
        await gang.until_stage(GangStage.ASKING)
        while (await gang.look("a")) is None:
            await asyncio.sleep(0.5)
    state = await gang.state()
    assert state.checkpoint is not None
    assert state.checkpoint.status is CheckpointStatus.FAILED
    await gang.leave("a")


async def test_terminated_incident_holds_nobody_s_leave(gang: GangPlay) -> None:
    def told(argument: TellGang) -> ToldGang:
        return ToldGang(gone=tuple(member.key for member in argument.members if member.target.identity.node == "dead"))

    gang.world.on(ActivityName.TELL_GANG, told, told)
    await asyncio.gather(gang.join("dead"), gang.join("a"))
    state = await gang.until_released("a")
    assert gang.member("dead").key not in state.members
    await gang.leave("a")
    assert (await gang.handle.result()).joined == 2


async def test_everybody_leaves_while_it_queues_and_the_permit_goes_back(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.ASK_PERMIT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    await gang.leave("a")
    result = await gang.handle.result()
    assert (stuck.cancelled, result.requests) == (1, 0)
    assert gang.world.names()[-1] == ActivityName.RETURN_PERMITS


async def test_word_that_the_permit_is_granted_makes_it_ask_again_at_once(gang: GangPlay) -> None:
    stuck = Stuck()
    gang.world.on(ActivityName.ASK_PERMIT, stuck)
    await gang.join("a")
    await stuck.started.wait()
    await gang.handle.signal("permit_granted", {"token": "whatever"})
    await gang.until_released("a")
    asked: list[AskPermit] = gang.world.arguments(ActivityName.ASK_PERMIT)
    assert [ask.nudges for ask in asked] == [0, 1]
    assert {ask.request.token for ask in asked} == {f"disruption/{gang.id}/{(await gang.handle.describe()).run_id}"}
    await gang.leave("a")


async def test_malformed_signals_change_nothing(gang: GangPlay) -> None:
    await gang.join("a")
    await gang.handle.signal("join_gang", {"x": 1})
    await gang.handle.signal("leave_gang", 7)
    assert (await gang.until_released("a")).joined == 1
    await gang.leave("a")


# --- any interleaving -----------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(4, 40))])
async def test_whatever_happens_each_window_is_asked_once_and_nobody_is_released_before_its_end(
    temporal: Client,  # noqa: F811
    seed: int,
) -> None:
    """Faults, answers, worker kills, stops and extensions in any order, over the real workflow on a real server."""
    chance = random.Random(seed)
    world = World()  # noqa: F811
    ends: list[tuple[str, bool, int]] = []
    """How asking came to an end: nonce, whether all data was trusted, and the number of the answer."""

    async def answer(argument: RequestGangCheckpoint) -> Any:
        await asyncio.sleep(chance.uniform(0, 0.6))
        trusted = all(member.data is DataTrust.TRUSTED for member in argument.members)
        ends.append((argument.nonce, trusted, len(ends)))
        status = chance.choice([CheckpointStatus.SAVED, CheckpointStatus.SAVED, CheckpointStatus.FAILED])
        return acts.JobCheckpoint(job=argument.request.job, status=status, step=len(ends) - 1, uri="s3://b")

    async def dawdle(argument: Any) -> Any:
        await asyncio.sleep(chance.uniform(0, 0.3))
        return World.usual(argument)

    world.scripts = {ActivityName.REQUEST_GANG_CHECKPOINT: answer, ActivityName.ASK_PERMIT: dawdle}
    queue = f"gang-{seed}"
    gang = GangPlay(temporal, queue, world, gather=timedelta(seconds=chance.choice([0, 0.2])))

    async def incident(node: str) -> None:
        """One node's: it fails, waits for its release, is drained, replaced; or a human stops it on the way."""
        await asyncio.sleep(chance.uniform(0, 1.5))
        changes: dict[str, Any] = {}
        if chance.random() < 0.15:
            changes = {"data": DataTrust.SUSPECT, "evidence_since": NOW}
        if chance.random() < 0.2:
            # A human has the answer waited for longer: it is the same request.
            changes["extended"] = timedelta(seconds=chance.choice([1, 30]))
        stops_after = chance.uniform(0, 1.5) if chance.random() < 0.2 else 60.0
        try:
            async with asyncio.timeout(stops_after):
                state = await gang.until_released(node, **changes)
        except TimeoutError:
            await gang.leave(node)
            return
        assert state.checkpoint is not None, "released before asking came to an end"
        assert state.checkpoint.step in [number for _, _, number in ends]
        await asyncio.sleep(chance.uniform(0, 0.5))
        await gang.leave(node, drained=True)
        await asyncio.sleep(chance.uniform(0, 0.5))
        await gang.leave(node)

    over = asyncio.Event()

    async def workers() -> None:
        """A worker that dies and comes back; what it had in its cache is replayed."""
        with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
            while not over.is_set():
                async with make_worker(temporal, scripted_acts(), executor, queue, beat=timedelta(seconds=0.1)):
                    lives = chance.uniform(0.3, 3.0)
                    try:
                        await asyncio.wait_for(over.wait(), lives)
                    except TimeoutError:
                        continue

    running = asyncio.create_task(workers())
    try:
        await asyncio.gather(*(incident(f"node-{number}") for number in range(chance.randint(1, 6))))
    finally:
        try:
            async with asyncio.timeout(30):
                result = await gang.handle.result()
        finally:
            over.set()
            await running
    trusted = [nonce for nonce, trusting, _ in ends if trusting]
    assert len(trusted) == len(set(trusted)), "a window was asked twice"
    assert result.requests <= result.windows
    assert len((await gang.handle.fetch_history()).events) < 400


@pytest.mark.parametrize("ranks_alive", [True, False])
async def test_leave_is_asked_for_with_the_restart_that_the_budget_leaves_in_peace(
    gang: GangPlay, ranks_alive: bool
) -> None:
    """Unless the fault kills the ranks: then the job cannot stay up, and waiting would only lose time."""
    look = GangLook(alive=True, explanation="it runs", restarted_at=NOW)
    gang.world.on(ActivityName.LOOK_AT_GANG, lambda _: look)
    await gang.join("a", ranks_alive=ranks_alive)
    await gang.until_released("a", ranks_alive=ranks_alive)
    (asked,) = gang.world.arguments(ActivityName.ASK_PERMIT)
    assert asked.request.restarted_at == (NOW if ranks_alive else None)
    await gang.leave("a")
