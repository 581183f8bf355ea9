"""Runs the acts of an incident one after another, and obeys humans between them and, while it still can, during them.

What fails for good does not leave the workflow: it parks, with a sentence that says what happened and what can be
done. It knows nothing about the runbook; the runbook knows nothing about time-outs, cancellation and parking.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, RetryState, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from contract.incident import StepStatus
    from contract.model import Message
    from contract.names import NON_RETRYABLE, ActivityName, ErrorType, Outcome, OverrideName, Phase, Step
    from workflows.incident_state import Incident
    from workflows.overrides import Controls, Stand
    from workflows.timing import HEARTBEAT, QUICK, RETRY, Timing

R = TypeVar("R", bound=Message)

_ENDS: Final = {
    ErrorType.NODE_GONE: Outcome.NODE_GONE,
    ErrorType.HUMAN_VETO: Outcome.VETOED,
    ErrorType.OWNED_BY_ANOTHER: Outcome.REFUSED,
    ErrorType.FENCED_OUT: Outcome.REFUSED,
}
"""Failures that are answers: nothing is left to do, and a human would only confirm it."""

_TRANSIENT: Final = frozenset({ErrorType.UNREACHABLE, ErrorType.CONFLICT, ErrorType.BUDGET_UNAVAILABLE})
"""Failures that pass by themselves: a parked step tries again when it escalates."""

_NOT_DONE: Final = frozenset(ErrorType(name) for name in NON_RETRYABLE)
"""The irreversible act first looks whether its call was made before; so an answer of these types means it was not."""


class IncidentEnded(Exception):  # noqa: N818 - it is not an error: it is how the runbook stops early
    """The runbook stops here, with this outcome."""

    def __init__(self, outcome: Outcome, summary: str) -> None:
        super().__init__(summary)
        self.outcome = outcome
        self.summary = summary


class _Interrupted(Exception):  # noqa: N818
    """The act was cancelled, by a human's override or because its argument changed."""


class StepRunner:
    """Runs acts for one incident."""

    def __init__(self, incident: Incident, controls: Controls, publish: Callable[[Phase | None], None]) -> None:
        """``publish`` shows the incident to people, and announces a new phase where one is given."""
        self.committed = False
        """Past the point of no return."""
        self.step: Step | None = None
        self._incident = incident
        self._controls = controls
        self._publish = publish
        self._waits_at: Stand | None = None
        self.prepare: Callable[[ActivityName], Awaitable[None]] | None = None
        """What to see to before an act is started."""
        self.before_parking: Callable[[], Awaitable[None]] | None = None
        """What to give back before a human is waited for."""

    @property
    def stand(self) -> Stand:
        """What overrides may do now."""
        if self._incident.outcome:
            return Stand.CLOSED
        if self.committed:
            return Stand.COMMITTED_PARKED if self._waits_at is Stand.PARKED else Stand.COMMITTED
        if self._controls.held:
            return Stand.HELD
        return self._waits_at or Stand.RUNNING

    async def act(
        self,
        step: Step,
        name: ActivityName,
        argument: Callable[[], Message],
        result: type[R],
        *,
        says: str,
        timing: Timing = QUICK,
        restart_on_change: bool = False,
        irreversible: bool = False,
        stand: Stand | None = None,
    ) -> R:
        """Run one act to its end, parking and trying again as humans decide.

        Args:
            step: the step it belongs to.
            name: which act.
            argument: built anew for each try, so that a try works with what is known then.
            result: what it answers with.
            says: what it does, for the step record and the timeline.
            timing: its time-outs.
            restart_on_change: cancel and start again when the argument changes while it runs.
            irreversible: this act is the point of no return.
            stand: what overrides may do meanwhile, where that is not what they may do while any step runs.

        Raises:
            IncidentEnded: a human stopped the incident, or the failure is an answer.
        """
        while True:
            await self.obey(step)
            if self.prepare and not self.committed:
                await self.prepare(name)
            try:
                with self._standing_at(stand):
                    self.begin(step, says)
                    self.committed = self.committed or irreversible
                    return await self._once(name, argument, result, says, timing, restart_on_change=restart_on_change)
            except _Interrupted:
                continue
            except ActivityError as error:
                if irreversible and describe(error)[0] in _NOT_DONE:
                    self.committed = False
                await self._failed(step, error)

    async def afterwards(
        self, name: ActivityName, argument: Message, result: type[R] | None, says: str, timing: Timing = QUICK
    ) -> R | None:
        """Run an act that must not change the outcome: what it could not do becomes a note."""
        try:
            answer: R | None = await workflow.execute_activity(
                name,
                argument,
                result_type=result,
                start_to_close_timeout=timing.start_to_close,
                schedule_to_close_timeout=timing.schedule_to_close,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=RETRY,
                summary=says,
            )
            return answer
        except ActivityError as error:
            self._incident.note(f"{name} failed: {describe(error)[1]}")
            return None

    async def obey(self, step: Step) -> None:
        """Do what humans pressed: stop here, or wait while they hold the incident."""
        self.step = step
        if self.committed:
            return
        self._stop_if_told()
        if self._controls.held:
            self.begin(step, "Held by a human. Press `resume` to go on.", StepStatus.WAITING)
            await workflow.wait_condition(lambda: not self._controls.held or self._controls.stop is not None)
            self._stop_if_told()

    async def pause(self, step: Step, duration: timedelta, says: str) -> None:
        """Wait, unless a human stops the incident."""
        await self.obey(step)
        self.begin(step, says)
        await self._wait(lambda: self._controls.held or self._controls.stop is not None, duration, says)
        await self.obey(step)

    async def wait(self, step: Step, done: Callable[[], bool], patience: timedelta, says: str) -> bool:
        """Wait for something that is not an act. False when it did not come."""
        if done():
            return True
        self.begin(step, says, StepStatus.WAITING)
        return await self._wait(done, patience, says)

    async def gate(self, step: Step, why: str = "") -> None:
        """Wait for a human's approval."""
        why = why or f"The policy asks for an approval before {step}."
        seen = self._controls.approvals
        while self._controls.approvals == seen:
            await self.obey(step)
            says = f"{why} Press `approve`, `abort` or `release`."
            self.begin(step, says, StepStatus.WAITING)
            await self._wait_for_human(
                Stand.AT_GATE, says, lambda: self._controls.approvals > seen, by_itself=lambda: False
            )

    async def park(
        self,
        step: Step,
        says: str,
        *,
        undecided: bool = False,
        retries_itself: bool = False,
        changed: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait for a human, or until ``changed``. Returns when the step is to be tried again."""
        if self.before_parking and not self.committed:
            await self.before_parking()
        self.begin(step, says, StepStatus.FAILED if not undecided else StepStatus.WAITING)
        resumes, approvals = self._controls.resumes, self._controls.approvals
        self._incident.note(says)
        await self._wait_for_human(
            Stand.PARKED_UNDECIDED if undecided else Stand.PARKED,
            says,
            lambda: self._controls.resumes > resumes or self._controls.approvals > approvals or changed(),
            by_itself=lambda: retries_itself,
        )
        if self.committed and self._controls.stop is OverrideName.ABORT:
            self._stop_if_told()
        await self.obey(step)

    def begin(self, step: Step, says: str, status: StepStatus = StepStatus.RUNNING) -> None:
        """Say what is going on."""
        self.step = step
        self._incident.summary = says
        self._incident.begin(step, workflow.now(), says, status)
        self._publish(None)

    def end(self, step: Step, says: str, status: StepStatus = StepStatus.DONE) -> None:
        """Say what came of it."""
        self._incident.end(step, workflow.now(), says, status)
        self._publish(None)

    @contextmanager
    def _standing_at(self, stand: Stand | None) -> Iterator[None]:
        self._waits_at = stand
        try:
            yield
        finally:
            self._waits_at = None

    async def _once(
        self,
        name: ActivityName,
        argument: Callable[[], Message],
        result: type[R],
        says: str,
        timing: Timing,
        *,
        restart_on_change: bool,
    ) -> R:
        sent = argument()
        handle: workflow.ActivityHandle[R] = workflow.start_activity(
            name,
            sent,
            result_type=result,
            start_to_close_timeout=timing.start_to_close,
            schedule_to_close_timeout=timing.schedule_to_close,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=says[:100],
        )

        def interrupted() -> bool:
            if self.committed:
                return False
            pressed = self._controls.held or self._controls.stop is not None
            return pressed or (restart_on_change and argument() != sent)

        try:
            await workflow.wait_condition(lambda: handle.done() or interrupted())
        except asyncio.CancelledError:
            if not self.committed:
                handle.cancel()
                await workflow.wait_condition(handle.done)
            raise
        if not handle.done():
            # It must have stopped before anything else is done to the node: give_back beside a drain would be a race.
            handle.cancel()
            await workflow.wait_condition(handle.done)
            failure = handle.exception()
            if failure and is_cancelled_exception(failure):
                raise _Interrupted
            if failed_while_stopping(failure) and workflow.patched("interrupted-though-it-failed"):
                raise _Interrupted
        return handle.result()

    async def _failed(self, step: Step, error: ActivityError) -> None:
        kind, message = describe(error)
        outcome = _ENDS.get(kind) if kind else None
        if kind is ErrorType.POLICY_FORBIDS and step is Step.QUARANTINE:
            outcome = Outcome.REFUSED
        if outcome and not self.committed:
            self.end(step, message, StepStatus.FAILED)
            raise IncidentEnded(outcome, message)
        transient = kind is None or kind in _TRANSIENT
        again = (
            "It is tried again by itself later, or now with `resume`." if transient else "Press `resume` when mended."
        )
        await self.park(step, f"{step} failed: {message} {again}", retries_itself=transient)

    async def _wait_for_human(
        self, stand: Stand, says: str, answered: Callable[[], bool], *, by_itself: Callable[[], bool]
    ) -> None:
        self._waits_at = stand
        self._publish(Phase.NEEDS_HUMAN)
        patience = self._incident.policy.deadlines.escalation
        try:
            while not await self._wait(
                lambda: answered() or self._controls.stop is not None or self._controls.held, patience, "escalate"
            ):
                workflow.logger.warning("A human is still waited for: %s", says)
                workflow.metric_meter().create_counter("nodemend_escalations", "Waits for a human").add(1)
                if by_itself():
                    return
                # Doubling bounds the history of an incident that nobody looks at for weeks.
                patience *= 2
        finally:
            self._waits_at = None
        self._publish(Phase.ADMITTED)

    async def _wait(self, done: Callable[[], bool], patience: timedelta, summary: str) -> bool:
        try:
            await workflow.wait_condition(done, timeout=patience, timeout_summary=summary[:100])
        except TimeoutError:
            return False
        return True

    def _stop_if_told(self) -> None:
        stop, by = self._controls.stop, self._controls.stopped_by
        if stop is None or by is None:
            return
        if self.committed:
            raise IncidentEnded(
                Outcome.REPLACED_UNVERIFIED,
                f"{by.by} ended the incident before the replacement was proven: {by.reason}",
            )
        if stop is OverrideName.RELEASE:
            raise IncidentEnded(Outcome.RELEASED, f"{by.by} had the node given back: {by.reason}")
        raise IncidentEnded(Outcome.ABORTED, f"{by.by} ended the incident; the node stays quarantined: {by.reason}")


def failed_while_stopping(failure: BaseException | None) -> bool:
    """Whether an act that was told to stop failed in place of saying so, or its worker died: it is not tried again."""
    return isinstance(failure, ActivityError) and failure.retry_state is RetryState.CANCEL_REQUESTED


def describe(error: ActivityError) -> tuple[ErrorType | None, str]:
    """The type and the sentence of a failed act; no type where it timed out."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        known = ErrorType(cause.type) if cause.type in set(ErrorType) else None
        return known, cause.message
    return None, f"{error.activity_type} did not finish in time ({cause or error})."
