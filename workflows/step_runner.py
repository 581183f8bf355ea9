"""Runs the acts of an incident one after another, and obeys humans between them and, while it still can, during them.

What fails for good does not leave the workflow: it parks, with a sentence that says what happened and what can be
done. It knows nothing about the runbook; the runbook knows nothing about time-outs, cancellation and parking.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from contract.incident import StepStatus
    from contract.model import Message
    from contract.names import ESCALATIONS_METRIC, ActivityName, ErrorType, Outcome, OverrideName, Phase, Step
    from workflows import needs_human, running, sentences, trails
    from workflows.failures import ENDS, NOT_DONE, TRANSIENT, IncidentEnded, describe
    from workflows.incident_state import Incident
    from workflows.override_table import Stand
    from workflows.overrides import Controls
    from workflows.running import Interrupted
    from workflows.step_orders import Deadline, StepSkipped
    from workflows.timing import QUICK, Timing, until

R = TypeVar("R", bound=Message)


@dataclass(frozen=True)
class _Act(Generic[R]):
    """An act of a step, as often as it is tried."""

    step: Step
    name: ActivityName
    argument: Callable[[], Message]
    result: type[R]
    says: str
    timing: Timing | None
    deadline: Deadline | None
    restart_on_change: bool


class StepRunner:
    """Runs acts for one incident."""

    def __init__(self, incident: Incident, controls: Controls, publish: Callable[[Phase | None], None]) -> None:
        """``publish`` shows the incident to people, and announces a new phase where one is given."""
        self.committed = False
        """Past the point of no return."""
        self.ending = False
        """The incident is over, and what it holds is given back: there is nothing left to steer."""
        self.step: Step | None = None
        self._incident = incident
        self._controls = controls
        self._publish = publish
        self._waits_at: Stand | None = None
        self.prepare: Callable[[ActivityName], Awaitable[None]] | None = None
        """What to see to before an act is started."""
        self.before_parking: Callable[[], Awaitable[None]] | None = None
        """What to give back before a human is waited for."""
        self.escalate: Callable[[], None] = lambda: None
        """Show that a human was asked once more."""

    @property
    def stand(self) -> Stand:
        """What overrides may do now."""
        if self._incident.outcome or self.ending:
            return Stand.CLOSED
        if self.committed:
            return Stand.COMMITTED_PARKED if self._waits_at is Stand.PARKED else Stand.COMMITTED
        if self._controls.held:
            return Stand.HELD
        return self._waits_at or Stand.RUNNING

    @property
    def open_step(self) -> Step | None:
        """The step that overrides of a step are about; None once it has ended and the next has not begun."""
        record = self._incident.steps.get(self.step) if self.step else None
        return self.step if record and record.ended_at is None else None

    async def act(
        self,
        step: Step,
        name: ActivityName,
        argument: Callable[[], Message],
        result: type[R],
        *,
        says: str,
        timing: Timing | None = None,
        deadline: Deadline | None = None,
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
            timing: its time-outs, where they are not those of its deadline, or quick.
            deadline: how long it waits by itself; the argument reads it, and a human may extend it.
            restart_on_change: cancel and start again when the argument changes while it runs.
            irreversible: this act is the point of no return.
            stand: what overrides may do meanwhile, where that is not what they may do while any step runs.

        Raises:
            IncidentEnded: a human stopped the incident, or the failure is an answer.
            StepSkipped: a human had the step left out.
        """
        act = _Act(step, name, argument, result, says, timing, deadline, restart_on_change)
        while True:
            await self.obey(step)
            if self.prepare and not self.committed:
                await self.prepare(name)
            try:
                with self._standing_at(stand):
                    self.begin(step, says)
                    self.committed = self.committed or irreversible
                    return await self._try(act)
            except Interrupted:
                continue
            except ActivityError as error:
                if irreversible and describe(error)[0] in NOT_DONE:
                    self.committed = False
                await self._failed(step, error, deadline)

    async def watch(
        self,
        step: Step,
        name: ActivityName,
        argument: Callable[[], Message],
        result: type[R],
        *,
        says: str,
        deadline: Deadline,
    ) -> R | None:
        """Run an act of an open step that must not change the outcome: what it could not do becomes a note.

        Raises:
            StepSkipped: a human had the step left out.
        """
        act = _Act(step, name, argument, result, says, None, deadline, restart_on_change=False)
        while True:
            await self.obey(step)
            try:
                return await self._try(act)
            except Interrupted:
                continue
            except ActivityError as error:
                self._incident.note(f"{name} failed: {describe(error)[1]}")
                return None

    async def afterwards(
        self, name: ActivityName, argument: Message, result: type[R] | None, says: str, timing: Timing = QUICK
    ) -> R | None:
        """Run an act that must not change the outcome: what it could not do becomes a note."""
        try:
            answer = await running.run(name, argument, result, timing, says)
            return trails.answered(self._incident, name, None, answer)
        except ActivityError as error:
            trails.failed(self._incident, name, None, error)
            self._incident.note(f"{name} failed: {describe(error)[1]}")
            return None

    async def obey(self, step: Step) -> None:
        """Do what humans pressed: stop here, wait while they hold the incident, or leave the step out.

        Raises:
            IncidentEnded: a human stopped the incident.
            StepSkipped: a human had the step left out.
        """
        self.step = step
        if not self.committed:
            self._stop_if_told()
            if self._controls.held:
                self.begin(step, sentences.held(self._incident), StepStatus.WAITING)
                await workflow.wait_condition(lambda: not self._controls.held or self._controls.stop is not None)
                self._stop_if_told()
        if order := self._controls.told(step, OverrideName.SKIP_STEP):
            self._controls.order = None
            raise StepSkipped(step, order.override)

    async def pause(self, step: Step, duration: timedelta, says: str) -> None:
        """Wait, unless a human stops the incident or has the step left out."""
        await self.obey(step)
        self.begin(step, says)
        await self._wait(
            lambda: self._controls.held or self._controls.stop is not None or self._controls.told(step) is not None,
            duration,
            says,
        )
        await self.obey(step)

    async def wait(self, step: Step, done: Callable[[], bool], patience: timedelta, says: str) -> bool:
        """Wait for something that is not an act. False when it did not come."""
        if done():
            return True
        self.begin(step, says, StepStatus.WAITING)
        return await self._wait(done, patience, says)

    async def gate(self, step: Step, why: str = "") -> None:
        """Wait for a human's approval as incidents from before 0.3 do: of whatever the plan is then."""
        why = why or f"The policy asks for an approval before {step}."
        seen = self._controls.approvals
        while self._controls.approvals == seen:
            await self.obey(step)
            says = f"{why} Press `approve`, `abort` or `release`."
            self.begin(step, says, StepStatus.WAITING)
            await self.wait_for_human(
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
        deadline: Deadline | None = None,
    ) -> None:
        """Wait for a human, or until ``changed``. Returns when the step is to be tried again, with ``deadline``.

        Raises:
            IncidentEnded: a human stopped the incident.
            StepSkipped: a human had the step left out.
        """
        if self.before_parking and not self.committed:
            await self.before_parking()
        self.begin(step, says, StepStatus.FAILED if not undecided else StepStatus.WAITING)
        resumes, approvals = self._controls.resumes, self._controls.approvals
        self._incident.note(says)
        await self.wait_for_human(
            Stand.PARKED_UNDECIDED if undecided else Stand.PARKED,
            says,
            lambda: (
                self._controls.resumes > resumes
                or self._controls.approvals > approvals
                or self._controls.told(step) is not None
                or changed()
            ),
            by_itself=lambda: retries_itself,
        )
        if self.committed and self._controls.stop is OverrideName.ABORT:
            self._stop_if_told()
        if deadline:
            deadline.obey(self._controls.told(step), ran=None)
        await self.obey(step)

    def begin(self, step: Step, says: str, status: StepStatus = StepStatus.RUNNING) -> None:
        """Say what is going on."""
        self.step = step
        self._incident.summary = says
        self._incident.begin(step, workflow.now(), says, status)
        self._publish(None)

    def skip(self, skipped: StepSkipped) -> None:
        """Say that a step was left out, by whom and why."""
        self.end(skipped.step, sentences.skipped(skipped.step, skipped.override), StepStatus.SKIPPED)

    def end(self, step: Step, says: str, status: StepStatus = StepStatus.DONE) -> None:
        """Say what came of it. What a human told about the step came too late then."""
        if order := self._controls.told(step):
            self._controls.order = None
            self._incident.note(f"`{order.name}` of {order.override.by} changed nothing: {step} had just ended.")
        self._incident.end(step, workflow.now(), says, status)
        self._publish(None)

    @contextmanager
    def _standing_at(self, stand: Stand | None) -> Iterator[None]:
        self._waits_at = stand
        try:
            yield
        finally:
            self._waits_at = None

    def moved(self, step: Step, deadline: Deadline, ran: timedelta) -> bool:
        """Obey what a human told about the deadline of a step that waits without an act. False when nothing was."""
        order = self._controls.told(step)
        if order is None:
            return False
        deadline.obey(order, ran)
        self._controls.order = None
        return True

    async def _try(self, act: _Act[R]) -> R:
        """One try of an act, which what humans told about the step may interrupt."""
        # Whatever waits to be obeyed was about the try before this one.
        self._controls.order = None
        started = workflow.now()
        try:
            return await self._once(act)
        except Interrupted:
            if act.deadline:
                act.deadline.obey(self._controls.told(act.step), ran=workflow.now() - started)
            raise

    async def _once(self, act: _Act[R]) -> R:
        sent = act.argument()
        timing = act.timing or (until(act.deadline.now) if act.deadline else QUICK)

        def interrupted() -> bool:
            if self._controls.told(act.step):
                return True
            if self.committed:
                return False
            pressed = self._controls.held or self._controls.stop is not None
            return pressed or (act.restart_on_change and act.argument() != sent)

        try:
            answer = await running.run_until(
                act.name,
                sent,
                act.result,
                timing,
                act.says,
                interrupted=interrupted,
                failing_is_stopping=lambda: workflow.patched("interrupted-though-it-failed"),
                goes_on_when_cancelled=lambda: self.committed,
            )
        except ActivityError as error:
            trails.failed(self._incident, act.name, act.step, error)
            raise
        return trails.answered(self._incident, act.name, act.step, answer)

    async def _failed(self, step: Step, error: ActivityError, deadline: Deadline | None) -> None:
        kind, message = describe(error)
        outcome = ENDS.get(kind) if kind else None
        if kind is ErrorType.POLICY_FORBIDS and step is Step.QUARANTINE:
            outcome = Outcome.REFUSED
        if outcome and not self.committed:
            self.end(step, message, StepStatus.FAILED)
            raise IncidentEnded(outcome, message)
        transient = kind is None or kind in TRANSIENT
        says = needs_human.failed(step, kind, message, self._incident.request.node, transient=transient)
        await self.park(step, says, retries_itself=transient, deadline=deadline)

    async def wait_for_human(
        self, stand: Stand, says: str, answered: Callable[[], bool], *, by_itself: Callable[[], bool]
    ) -> None:
        """Wait until it is ``answered``, saying again and again that a human is needed, or go on ``by_itself``."""
        self._waits_at = stand
        self._incident.asked_at, self._incident.asked_again = workflow.now(), 0
        self._publish(Phase.NEEDS_HUMAN)
        patience = self._incident.policy.deadlines.escalation
        try:
            while not await self._wait(
                lambda: answered() or self._controls.stop is not None or self._controls.held, patience, "escalate"
            ):
                workflow.logger.warning("A human is still waited for: %s", says)
                workflow.metric_meter().create_counter(ESCALATIONS_METRIC, "Waits for a human").add(1)
                if by_itself():
                    return
                self._incident.asked_again += 1
                if workflow.patched("escalations-are-shown"):
                    self.escalate()
                # Doubling bounds the history of an incident that nobody looks at for weeks.
                patience *= 2
        finally:
            self._waits_at = None
            self._incident.asked_at = None
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
