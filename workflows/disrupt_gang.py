"""DisruptGang: a job that spans nodes is one patient, however many of its nodes fail.

One permit for all its failing nodes, one checkpoint, and then all of them drain together: two failing nodes of one job
never wait for each other's budget. A node that fails later joins. A job that is dead already needs neither.
"""

import asyncio
import hashlib
from datetime import timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from contract.acts import CheckpointStatus, JobCheckpoint
    from contract.gang import (
        GangCheckpoint,
        GangLook,
        GangMember,
        GangRequest,
        GangStage,
        GangState,
        LeaveGang,
        LookAtGang,
        RequestGangCheckpoint,
        TellGang,
        ToldGang,
    )
    from contract.model import Message
    from contract.names import (
        DISRUPT_GANG,
        GANG_QUERY,
        JOIN_GANG,
        LEAVE_GANG,
        PERMIT_GRANTED,
        PERMITS_QUERY,
        ActivityName,
        Step,
    )
    from contract.permit import AskPermit, PermitAnswer, PermitRequest, ReturnPermits
    from workflows import running, trails
    from workflows.failures import describe
    from workflows.gang_state import Gang
    from workflows.running import Interrupted
    from workflows.timing import PERMIT, QUICK, Timing

_FIRST_MEMBER: Final = timedelta(minutes=10)
_CHECK_MEMBERS: Final = timedelta(minutes=10)
"""Between two looks whether members' incidents still run; it doubles, so that waiting fills no history."""
_LONGEST_CHECK: Final = timedelta(hours=4)
_MARGIN: Final = timedelta(minutes=1)
"""On top of the deadline, for an answer on its way."""

_STEPS: Final = {
    ActivityName.LOOK_AT_GANG: Step.DISRUPT,
    ActivityName.ASK_PERMIT: Step.DISRUPT,
    ActivityName.REQUEST_GANG_CHECKPOINT: Step.CHECKPOINT,
}
"""Of the members' incidents: what is reported there as a part of which step."""

R = TypeVar("R", bound=Message)


@workflow.defn(name=DISRUPT_GANG)
class DisruptGang:
    """One job, from its first failing node to the last of them gone."""

    @workflow.init
    def __init__(self, request: GangRequest) -> None:
        """Signals may be handled before the first line of ``run``, so everything stands here."""
        self._gang = Gang(request, workflow.info().run_id)
        self._nudges = 0
        self._asked: PermitRequest | None = None
        """What the fleet's budget was told last."""
        self._leave: PermitRequest | None = None
        """What was granted last."""
        self._grows = False
        """Whether who joins and leaves is told to the fleet's budget: not by runs of before."""

    @workflow.run
    async def run(self, _request: GangRequest) -> GangState:
        """Gather, have leave, ask once, release; then hold the leave until the last node is done with."""
        try:
            await self._wait(lambda: bool(self._gang.members), _FIRST_MEMBER, "first member")
            while self._gang.members:
                await self._gather()
                await self._have_leave()
                await self._see_to_the_checkpoint()
                await self._until_another_fails()
        except asyncio.CancelledError:
            self._gang.summary = "it was cancelled; its nodes' incidents start it anew where they need it."
        # Not `finally`: that also runs, outside of the workflow, when a worker drops this from its cache.
        self._gang.closing = True
        await self._give_leave_back()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._gang.state().model_copy(update={"stage": self._gang.stage})

    # --- messages ---------------------------------------------------------------------------------------------------

    @workflow.signal(name=JOIN_GANG, description="A node of this job fails (a GangMember, from its incident).")
    def join(self, payload: Any) -> None:
        """Take a failing node in."""
        try:
            self._gang.join(GangMember.model_validate(payload))
        except ValidationError as error:
            workflow.logger.warning("A member could not be read: %s", error)
        self._show(self._gang.summary)

    @workflow.signal(name=LEAVE_GANG, description="A node of this job is done with (a LeaveGang, from its incident).")
    def leave(self, payload: Any) -> None:
        """Let a node go."""
        try:
            left = LeaveGang.model_validate(payload)
            self._gang.leave(left.member, drained=left.drained)
        except ValidationError as error:
            workflow.logger.warning("A leave could not be read: %s", error)
        self._show(self._gang.summary)

    @workflow.signal(name=PERMIT_GRANTED, description="FleetBudget says that the queued permit is granted.")
    def permit_granted(self, _payload: Any) -> None:
        """Ask the issuer again: its word counts, not that of whoever can send signals."""
        self._nudges += 1

    @workflow.query(name=GANG_QUERY, description="How far it is, who is in it, and its checkpoint.")
    def gang(self) -> GangState:
        """The gang as of now."""
        return self._gang.state()

    @workflow.query(name=PERMITS_QUERY, description="The permits of the fleet's budget that it holds.")
    def permits(self) -> list[PermitRequest]:
        """For FleetBudget, after a Terminate or a Reset."""
        return [self._leave] if self._leave else []

    # --- the steps --------------------------------------------------------------------------------------------------

    async def _gather(self) -> None:
        """Let the job's other failing nodes join."""
        gang = self._gang
        gang.open_window()
        if gang.request.rules.gather:
            await self._wait(lambda: not gang.undrained, gang.request.rules.gather, "gathering the job's failing nodes")

    async def _have_leave(self) -> None:
        """Have the fleet's leave to disturb the job. A dead one needs none, nor does a node that has leave already."""
        gang = self._gang
        if not gang.undrained:
            return
        try:
            look = await self._act(
                ActivityName.LOOK_AT_GANG, LookAtGang(request=gang.request, members=gang.undrained), GangLook
            )
        except ActivityError as error:
            workflow.logger.warning("The job could not be looked at, so it counts as alive: %s", describe(error)[1])
            look = GangLook(alive=True, explanation="it could not be looked at")
        if not look.alive:
            self._release(
                JobCheckpoint(job=gang.request.job, status=CheckpointStatus.DEAD, explanation=look.explanation)
            )
            return
        grows = self._grows = workflow.patched("permit-grows")
        has_leave = self._leave is not None and (not grows or gang.nodes <= set(self._leave.nodes))
        if has_leave or gang.covered or look.hung or not gang.undrained:
            return
        gang.stage = GangStage.QUEUED
        self._show("it is queued for the fleet's leave to disturb the job.")
        restarted_at = look.restarted_at if gang.ranks_alive else None

        def wanted() -> PermitRequest:
            """With whom has joined and left by now."""
            if self._asked and not grows:
                return self._asked.model_copy(update={"approval": gang.approval})
            return gang.permit(restarted_at)

        while gang.undrained and not gang.covered:
            self._asked, nudges = wanted(), self._nudges
            if await self._interruptible(
                ActivityName.ASK_PERMIT,
                AskPermit(request=self._asked, nudges=nudges),
                PermitAnswer,
                PERMIT,
                lambda nudges=nudges: (
                    not gang.undrained or gang.covered or self._nudges != nudges or wanted() != self._asked
                ),
            ):
                self._leave = self._asked
                return

    async def _see_to_the_checkpoint(self) -> None:
        """Ask the job once, in the name of all its failing nodes."""
        gang = self._gang
        if gang.stage is GangStage.RELEASED or not gang.undrained:
            return
        gang.stage = GangStage.ASKING
        self._show("the job is asked for a checkpoint.")
        await self._tell()
        info = workflow.info()
        nonce = hashlib.sha256(f"{info.workflow_id}/{info.run_id}/{gang.windows}".encode()).hexdigest()[:16]
        began, asked = workflow.now(), False
        while gang.undrained:
            members, suspects, request = gang.undrained, gang.suspects_at_work, gang.asks
            if not suspects and not asked:
                asked, gang.requests = True, gang.requests + 1
            gang.begin_asking(workflow.now())
            end = began + max(request.deadline, request.rules.longest) + _MARGIN
            left = max(end - workflow.now(), timedelta(seconds=1))
            try:
                answer = await self._interruptible(
                    ActivityName.REQUEST_GANG_CHECKPOINT,
                    RequestGangCheckpoint(
                        request=request,
                        members=members,
                        nonce=nonce,
                        permit=self._leave,
                        asked_at=began,
                        extended=request.deadline - gang.request.deadline,
                    ),
                    GangCheckpoint,
                    Timing(start_to_close=left, schedule_to_close=left),
                    # A fault that spoils data and shows only now: what is asked for would carry the damage. Or a
                    # human has the answer waited for longer: the same is asked for until then.
                    lambda suspects=suspects, request=request: (
                        not gang.undrained
                        or bool(gang.suspects_at_work - suspects)
                        or gang.asks.deadline > request.deadline
                    ),
                )
            except ActivityError as error:
                answer = GangCheckpoint(
                    job=gang.request.job, status=CheckpointStatus.FAILED, explanation=describe(error)[1][:500]
                )
            gang.end_asking(stopped=answer is None)
            if answer:
                self._release(answer)
                return

    async def _until_another_fails(self) -> None:
        """Hold the leave while any of the failing nodes is worked on, or until one fails that finds the job anew."""
        gang, patience = self._gang, _CHECK_MEMBERS

        def over() -> bool:
            return not gang.members or (gang.stage is not GangStage.RELEASED and bool(gang.undrained))

        await self._tell()
        while not over():
            known = await self._tell_budget()
            if not await self._wait(
                lambda known=known: over() or (known and self._uncounted()), patience, "the last node is done with"
            ):
                await self._tell(nudge=False)
                patience = min(patience * 2, _LONGEST_CHECK)

    # --- what the steps stand on ------------------------------------------------------------------------------------

    def _release(self, checkpoint: JobCheckpoint) -> None:
        self._gang.checkpoint = checkpoint
        self._gang.stage = GangStage.RELEASED
        self._show("its failing nodes may be drained.")

    async def _tell(self, *, nudge: bool = True) -> None:
        """Have the members look here, and drop those that run no more."""
        if members := tuple(self._gang.members.values()):
            try:
                told = await self._act(ActivityName.TELL_GANG, TellGang(members=members, nudge=nudge), ToldGang)
            except ActivityError as error:
                # They look by themselves as well.
                workflow.logger.warning("Members could not be told: %s", describe(error)[1])
            else:
                self._gang.drop(told.gone)

    def _uncounted(self) -> bool:
        """Whether the fleet's budget was told of other nodes than it has now.

        A job that is dead, or hangs, is disturbed without leave; nor does it cost any.
        """
        if not self._grows or not (self._asked or self._gang.covered):
            return False
        return frozenset(self._asked.nodes if self._asked else ()) != self._gang.nodes

    async def _tell_budget(self) -> bool:
        """Have those counted that go along without being asked for, and those no more that have left."""
        if not self._uncounted():
            return True
        request = self._gang.permit(None)
        try:
            await self._act(ActivityName.ASK_PERMIT, AskPermit(request=request), PermitAnswer)
        except ActivityError as error:
            workflow.logger.warning("Who joined and left could not be told: %s", describe(error)[1])
            return False
        self._asked = self._leave = request
        return True

    async def _give_leave_back(self) -> None:
        if self._asked:
            tokens = (self._asked.token,)
            argument = ReturnPermits(cluster=self._gang.request.cluster, tokens=tokens)
            try:
                await self._act(ActivityName.RETURN_PERMITS, argument, None)
            except ActivityError as error:
                # FleetBudget looks for holders that run no more.
                workflow.logger.warning("The permit could not be given back: %s", describe(error)[1])

    async def _act(self, name: ActivityName, argument: Message, result: type[R] | None) -> R:
        try:
            answer = await running.run(name, argument, result, QUICK, self._gang.request.job[: running.SUMMARY_MAX])
        except ActivityError as error:
            trails.failed(self._gang, name, _STEPS.get(name), error)
            raise
        return trails.answered(self._gang, name, _STEPS.get(name), answer)  # type: ignore[return-value]

    async def _interruptible(
        self, name: ActivityName, argument: Message, result: type[R], timing: Timing, interrupted: Any
    ) -> R | None:
        """Run an act that what happens meanwhile may stop; None where it did."""
        try:
            answer = await running.run_until(
                name,
                argument,
                result,
                timing,
                self._gang.request.job,
                interrupted=interrupted,
                waits_when_cancelled=lambda: workflow.patched("gang-waits-for-its-act"),
            )
        except Interrupted:
            return None
        except ActivityError as error:
            trails.failed(self._gang, name, _STEPS.get(name), error)
            raise
        return trails.answered(self._gang, name, _STEPS.get(name), answer)

    async def _wait(self, done: Any, patience: timedelta, summary: str) -> bool:
        try:
            await workflow.wait_condition(done, timeout=patience, timeout_summary=summary)
        except TimeoutError:
            return False
        return True

    def _show(self, summary: str) -> None:
        self._gang.summary = summary
        workflow.set_current_details(self._gang.details())
