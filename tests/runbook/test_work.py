"""The work on the node, as the runbook treats it: gangs, last attempts, unsaved work, receipts, following."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from contract import acts, gang
from contract.acts import CheckpointStatus, JobCheckpoint
from contract.fault import DataTrust, EvidenceEnd
from contract.names import ActivityName, ErrorType, Outcome, OverrideName, Phase, Step
from contract.policy import CheckpointPolicy, Otherwise
from contract.trail import ActRecord, ExternalWrite, System, Trail
from tests.runbook.world import NOW, Play, Stuck, World, fails, fast, finding

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]

JOB = "default/Job/train"


def on_node(**changes: Any) -> Any:
    """``find_jobs`` with one job that spans nodes."""
    job = gang.JobOnNode(**{"job": JOB, "uid": "uid-1", "declared": True, "pods": 1, "nodes": 4, "ranks": 4, **changes})
    return lambda _argument: gang.JobsOnNode(jobs=(job,), jobs_total=1)


def released(**changes: Any) -> Any:
    """``await_gang`` with a checkpoint; this incident came first."""
    saved = {
        "job": JOB,
        "status": CheckpointStatus.SAVED,
        "step": 1000,
        "uri": "s3://b/1000",
        "saved_at": NOW,
        "previous_step": 900,
        **changes,
    }

    def script(argument: gang.JoinGang) -> gang.GangState:
        key = argument.member.key
        checkpoint = JobCheckpoint(**saved)
        return gang.GangState(job=JOB, stage=gang.GangStage.RELEASED, members=(key,), first=key, checkpoint=checkpoint)

    return script


@pytest.fixture
def spanning(world: World) -> World:
    """A world whose node has a rank of a job that spans four."""
    world.scripts[ActivityName.FIND_JOBS] = on_node()
    world.scripts[ActivityName.AWAIT_GANG] = released()
    return world


async def test_rank_of_a_gang_has_its_gang_s_leave_and_no_permit_of_its_own(play: Play, spanning: World) -> None:
    report = await (await play.start(finding(data=DataTrust.TRUSTED))).result()
    assert report.outcome is Outcome.REPLACED
    names = spanning.names()
    assert [name for name in names if name not in ("identify_node", "quarantine_node", "preserve_evidence")] == [
        "survey_group",
        "find_jobs",
        "join_gang",
        "await_gang",
        "write_receipts",
        "drain_node",
        "leave_gang",
        "survey_group",
        "mark_instance_unhealthy",
        "await_replacement",
        "verify_replacement",
        "leave_gang",
        "follow_jobs",
        "close_incident",
        "return_permits",
        "write_record",
    ]
    drained, left = spanning.arguments(ActivityName.LEAVE_GANG)
    assert (drained.drained, left.drained) == (True, False)
    assert report.facts[f"checkpoint {JOB}"].startswith("saved step 1000")


async def test_member_that_is_parked_leaves_its_gang_and_has_it_asked_anew(play: Play, spanning: World) -> None:
    """Nobody waits for a node that waits for a human."""
    spanning.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    assert spanning.names()[-1] == "leave_gang"
    await incident.press(OverrideName.RESUME)
    await incident.result()
    assert spanning.names().count("join_gang") == 2
    assert spanning.names().count("await_gang") == 2


@pytest.mark.parametrize("name", [OverrideName.ABORT, OverrideName.RELEASE])
async def test_incident_that_is_stopped_while_it_waits_leaves_its_gang(
    play: Play, spanning: World, name: OverrideName
) -> None:
    stuck = Stuck()
    spanning.on(ActivityName.AWAIT_GANG, stuck)
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(name)
    await incident.result()
    assert stuck.cancelled == 1
    assert "leave_gang" in spanning.names()
    assert "drain_node" not in spanning.names()


async def test_human_s_extension_is_told_to_the_gang_and_the_node_waits_on(play: Play, spanning: World) -> None:
    stuck = Stuck()
    spanning.on(ActivityName.AWAIT_GANG, stuck, released())
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(OverrideName.EXTEND_DEADLINE, extension="PT20M")
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    before, after = spanning.arguments(ActivityName.AWAIT_GANG)
    assert (before.member.extended, after.member.extended) == (timedelta(0), timedelta(minutes=20))
    assert spanning.names().count("join_gang") == 1, "it keeps its leave"


async def test_what_the_gang_did_for_the_node_is_in_the_node_s_report_once(play: Play, spanning: World) -> None:
    write = ExternalWrite(at=NOW, system=System.KUBERNETES, verb="exec", object="/pods/train-0/exec", status=101)
    record = ActRecord(
        act=ActivityName.REQUEST_GANG_CHECKPOINT, step=Step.CHECKPOINT, at=NOW, trail=Trail().wrote(write)
    )

    def with_acts(argument: gang.JoinGang) -> gang.GangState:
        state: gang.GangState = released()(argument)
        return state.model_copy(update={"acts": (record,)})

    spanning.scripts[ActivityName.AWAIT_GANG] = with_acts
    spanning.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.RESUME)
    report = await incident.result()
    assert spanning.names().count("await_gang") == 2
    assert [kept for kept in report.acts if kept.act == record.act] == [record]


@pytest.mark.parametrize("name", [OverrideName.ABORT, OverrideName.RELEASE])
async def test_incident_that_is_stopped_before_its_release_reports_what_the_gang_did_by_then(
    play: Play, spanning: World, name: OverrideName
) -> None:
    record = ActRecord(
        act=ActivityName.REQUEST_GANG_CHECKPOINT, step=Step.CHECKPOINT, at=NOW, error="The job had not answered."
    )
    stuck = Stuck()
    spanning.on(ActivityName.AWAIT_GANG, stuck)
    spanning.scripts[ActivityName.LEAVE_GANG] = lambda _: gang.GangLeft(acts=(record,))
    incident = await play.start()
    await stuck.started.wait()
    await incident.press(name)
    report = await incident.result()
    (left,) = spanning.arguments(ActivityName.LEAVE_GANG)
    assert left.tell
    assert [kept for kept in report.acts if kept.act == record.act] == [record]


async def test_released_node_knows_what_its_gang_did_and_does_not_ask_again(play: Play, spanning: World) -> None:
    await (await play.start()).result()
    assert [left.tell for left in spanning.arguments(ActivityName.LEAVE_GANG)] == [False, False]


@pytest.mark.parametrize("others", [(), (gang.JobOnNode(job="default/ReplicaSet/web", pods=1),)])
async def test_job_that_is_dead_or_hangs_waits_for_nobody_s_leave_unless_others_work_beside_it(
    play: Play, world: World, others: tuple[gang.JobOnNode, ...]
) -> None:
    jobs = (gang.JobOnNode(job=JOB, uid="uid-1", declared=True, pods=1, idle="it hangs"), *others)
    world.scripts[ActivityName.FIND_JOBS] = lambda _: gang.JobsOnNode(jobs=jobs, jobs_total=len(jobs))
    report = await (await play.start()).result()
    assert report.outcome is Outcome.REPLACED
    assert ("ask_permit" in world.names()) == bool(others)
    (asked,) = world.arguments(ActivityName.REQUEST_CHECKPOINTS)
    assert (asked.permit is not None) == bool(others)
    says = next(step.summary for step in report.steps if step.step is Step.DISRUPT)
    assert (f"{JOB} (it hangs)" in says) == (not others)


async def test_last_attempt_of_a_job_is_a_human_s_decision_and_the_question_shows_it(
    play: Play, spanning: World
) -> None:
    spanning.scripts[ActivityName.FIND_JOBS] = on_node(attempts_left=0, ends=True, why="maxRestarts 3, 3 used")
    incident = await play.start()
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "This is the last attempt: default/Job/train would end for good (maxRestarts 3, 3 used)" in report.summary
    assert "join_gang" not in spanning.names()
    await incident.press(OverrideName.APPROVE)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_policy_may_let_a_last_attempt_go(play: Play, spanning: World) -> None:
    spanning.policy = fast(checkpoints=CheckpointPolicy(last_attempt=Otherwise.EVICT))
    spanning.scripts[ActivityName.FIND_JOBS] = on_node(attempts_left=0, ends=True)
    assert (await (await play.start()).result()).outcome is Outcome.REPLACED


async def test_approval_that_the_policy_asks_for_shows_the_attempts_left(play: Play, spanning: World) -> None:
    spanning.policy = fast(approve_before=(Step.DISRUPT,))
    spanning.scripts[ActivityName.FIND_JOBS] = on_node(attempts_left=2, why="maxRestarts 3, 1 used")
    incident = await play.start()
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "default/Job/train: 2 attempts left (maxRestarts 3, 1 used)" in report.summary
    await incident.press(OverrideName.APPROVE)
    await incident.result()


@pytest.mark.parametrize("otherwise", Otherwise)
async def test_job_that_saved_nothing_is_evicted_or_a_human_s_decision_as_its_owner_says(
    play: Play, spanning: World, otherwise: Otherwise
) -> None:
    spanning.scripts[ActivityName.AWAIT_GANG] = released(
        status=CheckpointStatus.FAILED, step=None, explanation="disk full", otherwise=otherwise
    )
    incident = await play.start()
    if otherwise is Otherwise.ASK:
        report = await incident.until_phase(Phase.NEEDS_HUMAN)
        assert "Work would be lost: default/Job/train saved nothing (disk full)" in report.summary
        assert "drain_node" not in spanning.names()
        assert spanning.names()[-2:] == ["leave_gang", "price_disruption"], "nobody waits for it meanwhile"
        await incident.press(OverrideName.APPROVE)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.facts[f"checkpoint {JOB}"] == "not saved: disk full"


async def test_checkpoint_that_a_gang_saved_after_this_node_s_suspect_fault_is_not_believed(
    play: Play, spanning: World
) -> None:
    """The node joined its gang when the job had been asked: what was saved then may carry the damage."""
    report = await (await play.start(finding(data=DataTrust.SUSPECT, first_seen=NOW))).result()
    assert "it is not to be used" in report.facts[f"checkpoint {JOB}"]


async def test_job_is_followed_until_it_is_past_its_checkpoint_and_that_is_in_the_report(
    play: Play, spanning: World
) -> None:
    """V13"""
    seen = gang.FollowedJob(
        job=JOB, resumed=True, passed=True, at=1200, explanation="all 4 pods run again", saved_steps=100,
        saved_accelerator_seconds=6400.0, lost_steps=0,
    )  # fmt: skip
    spanning.scripts[ActivityName.FOLLOW_JOBS] = lambda _: gang.JobsFollowed(jobs=(seen,))
    report = await (await play.start(finding(data=DataTrust.TRUSTED))).result()
    assert report.facts["work"] == "1 of 1 job running again, past the checkpoint"
    assert "100 steps saved (6400 accelerator-seconds" in report.facts[f"resumed {JOB}"]
    (before, after) = spanning.arguments(ActivityName.WRITE_RECEIPTS)
    assert (before.followed, after.followed) == ((), (seen,))


async def test_job_that_cannot_be_read_has_no_receipt_and_the_report_says_so(play: Play, spanning: World) -> None:
    spanning.scripts[ActivityName.FIND_JOBS] = on_node(uid="", unread=True)
    report = await (await play.start(finding(data=DataTrust.TRUSTED))).result()
    assert "write_receipts" not in spanning.names()
    assert any(f"{JOB} has no receipt: its object could not be read" in note for note in report.notes)


async def test_what_a_job_saved_when_it_was_ended_is_in_the_report_once_it_was_seen(
    play: Play, spanning: World
) -> None:
    before = {"status": CheckpointStatus.AT_END, "mode": "sigterm", "step": 900}
    spanning.scripts[ActivityName.AWAIT_GANG] = released(**before)
    found = JobCheckpoint(
        job=JOB, status=CheckpointStatus.SAVED, step=1000, uri="s3://b/1000", saved_at=NOW, previous_step=900
    )
    seen = gang.FollowedJob(job=JOB, resumed=True, passed=True, explanation="all run again", at_end=found)
    spanning.scripts[ActivityName.FOLLOW_JOBS] = lambda _: gang.JobsFollowed(jobs=(seen,))
    report = await (await play.start(finding(data=DataTrust.TRUSTED))).result()
    (asked,) = spanning.arguments(ActivityName.FOLLOW_JOBS)
    drained = next(step for step in report.steps if step.step is Step.DRAIN)
    assert asked.evicted_at == drained.started_at
    assert report.facts[f"checkpoint {JOB}"].startswith("saved step 1000")
    assert [(saved.status, saved.saved_steps) for saved in report.saved] == [("saved", 100)]
    (_, after) = spanning.arguments(ActivityName.WRITE_RECEIPTS)
    assert after.checkpoints == (found,)


async def test_following_that_fails_changes_no_outcome(play: Play, spanning: World) -> None:
    spanning.scripts[ActivityName.FOLLOW_JOBS] = fails(ErrorType.ACCESS_DENIED, "Grant list pods.")
    report = await (await play.start()).result()
    assert report.outcome is Outcome.REPLACED
    assert any("Grant list pods." in note for note in report.notes)


async def test_only_the_first_of_a_gang_s_nodes_follows_the_job(play: Play, spanning: World) -> None:
    def second(argument: gang.JoinGang) -> gang.GangState:
        state: gang.GangState = released()(argument)
        return state.model_copy(update={"first": "another/run"})

    spanning.scripts[ActivityName.AWAIT_GANG] = second
    await (await play.start()).result()
    assert "follow_jobs" not in spanning.names()


async def test_node_without_declarations_costs_one_list(play: Play, world: World) -> None:
    jobs = (gang.JobOnNode(job="default/ReplicaSet/web", pods=3),)
    world.scripts[ActivityName.FIND_JOBS] = lambda _: gang.JobsOnNode(jobs=jobs, jobs_total=1)
    report = await (await play.start()).result()
    asked = {"request_checkpoints", "join_gang", "await_gang", "leave_gang", "follow_jobs", "write_receipts"}
    assert not asked & set(world.names())
    assert world.names().count("find_jobs") == 1
    assert report.facts["checkpoint default/ReplicaSet/web"] == "declares no checkpoint"


async def test_job_alone_on_the_node_is_asked_by_the_incident_itself(play: Play, world: World) -> None:
    saved = JobCheckpoint(job=JOB, status=CheckpointStatus.SAVED, step=7, uri="x", saved_at=NOW)
    world.scripts[ActivityName.REQUEST_CHECKPOINTS] = lambda _: acts.Checkpoints(jobs=(saved,), jobs_total=1)
    report = await (await play.start()).result()
    assert report.facts[f"checkpoint {JOB}"].startswith("saved step 7")
    assert "join_gang" not in world.names()
    assert "follow_jobs" in world.names()


async def test_act_that_fails_while_it_is_told_to_stop_is_stopped_and_needs_no_human(
    play: Play, spanning: World
) -> None:
    """Temporal tries no act again that it was asked to cancel: the failure, or a dead worker's time-out, is the end."""
    started = asyncio.Event()

    async def reluctant(_argument: Any) -> Any:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ApplicationError("It waits.", type=ErrorType.PERMIT_QUEUED) from None

    spanning.on(ActivityName.AWAIT_GANG, reluctant, released())
    incident = await play.start()
    await started.wait()
    await incident.handle.signal("permit_granted", {"token": "look again"})
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert not report.notes
    assert spanning.names().count("await_gang") == 2


async def test_d31_machine_that_was_mended_meanwhile_is_a_human_s_decision_and_whoever_resumes_has_decided(
    play: Play, world: World
) -> None:
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.EVIDENCE_OVER, "It has booted anew."))
    incident = await play.start(finding(evidence_end=EvidenceEnd.BOOT))
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "`release` gives it back" in report.summary
    await incident.press(OverrideName.RESUME)
    assert (await incident.result()).outcome is Outcome.REPLACED
    before, after = world.arguments(ActivityName.DRAIN_NODE)
    assert ([cause.boot_id for cause in before.causes], after.causes) == (["boot-1"], ())
