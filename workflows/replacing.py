"""From a machine that must go to its proven successor: the steps of the runbook that change the fleet.

In the usual order the old machine goes first. Where the policy or the look at its group says so, a spare is raised and
proven before the work on the old machine is stopped, so that capacity never dips.
"""

from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract import acts
    from contract.identity import MachineKind, NodeIdentity, Target
    from contract.names import ActivityName, OverrideName, Step
    from contract.replacement import ReplacementPolicy
    from workflows import sentences
    from workflows.approvals import Gatekeeper
    from workflows.incident_state import Incident
    from workflows.needs_human import way_on
    from workflows.step_orders import Deadline, StepSkipped
    from workflows.step_runner import StepRunner


class Replacing:
    """The part of one incident that has its machine replaced."""

    def __init__(self, incident: Incident, runner: StepRunner, gates: Gatekeeper, target: Callable[[], Target]) -> None:
        self._incident = incident
        self._runner = runner
        self._gates = gates
        self._target = target
        self._survey: acts.GroupSurvey | None = None
        self._spare: acts.Replacement | None = None

    async def look_ahead(self) -> None:
        """See that there will be a successor before the work is stopped, and raise it first where that is wanted.

        A node that is partly broken and still works is worth more than one that is gone and not replaced (A17).
        """
        survey = await self._clear_way(Step.DISRUPT, drained=False)
        if survey.spare_first and self._identity.kind is MachineKind.AUTO_SCALING:
            await self._raise_spare(survey)

    async def give_up_machine(self) -> None:
        """Look once more, then have the machine replaced: the point of no return."""
        if self._spare is None:
            self._survey = await self._clear_way(Step.REPLACE, drained=True)
        await self._gates.before(Step.REPLACE)
        survey = self._survey
        assert survey is not None
        marked = await self._runner.act(
            Step.REPLACE,
            ActivityName.MARK_INSTANCE_UNHEALTHY,
            lambda: acts.MarkUnhealthy(
                target=self._target(),
                drill=self._incident.request.drill,
                call=survey.call,
                report_to_ec2=self._rules.report_to_ec2,
                spare_is_up=self._spare is not None,
                reason=self._incident.findings[0].reason,
                serials=sentences.serials(self._incident.findings),
                job=self._incident.traits.get("job", ""),
            ),
            acts.MarkedUnhealthy,
            says=f"Marking {self._identity.instance_id} unhealthy.",
            irreversible=True,
        )
        self._tell(Step.REPLACE, "marked unhealthy", sentences.marked(marked))

    async def see_successor(self) -> None:
        """Follow the launch to its Node and prove it, where that was not done before."""
        if self._spare is None:
            assert self._survey is not None
            await self._prove(self._survey, await self._await_launch(self._survey))

    async def see_old_one_gone(self) -> None:
        """Wait until nothing of the old machine is left."""
        deadline = Deadline(self._incident.policy.deadlines.replacement)
        closed = await self._runner.act(
            Step.CLOSE,
            ActivityName.CLOSE_INCIDENT,
            lambda: acts.CloseIncident(target=self._target(), deadline=deadline.now),
            acts.Closed,
            says="Seeing the old machine gone.",
            deadline=deadline,
        )
        self._incident.facts["old machine"] = sentences.closed(closed)

    async def _clear_way(self, step: Step, *, drained: bool) -> acts.GroupSurvey:
        patience = Deadline(self._incident.policy.deadlines.group)
        while True:
            survey = await self._runner.act(
                step,
                ActivityName.SURVEY_GROUP,
                lambda: acts.SurveyGroup(target=self._target(), rules=self._rules, patience=patience.now),
                acts.GroupSurvey,
                says=f"Looking whether {self._identity.group} would replace the instance.",
                deadline=patience,
            )
            if known := sentences.known_of_group(survey):
                self._incident.facts["group"] = known
            hopes_for_reboot = survey.reboot_first and not drained
            if not survey.obstacles and not hopes_for_reboot:
                return survey
            says = sentences.obstacles(survey, drained=drained) if survey.obstacles else sentences.reboot_first(survey)
            await self._runner.park(
                step, f"{says} {way_on(OverrideName.RESUME, self._identity.node)}", deadline=patience
            )

    async def _raise_spare(self, survey: acts.GroupSurvey) -> None:
        raised = await self._runner.act(
            Step.DISRUPT,
            ActivityName.RAISE_SPARE,
            lambda: acts.RaiseSpare(target=self._target(), drill=self._incident.request.drill),
            acts.SpareRaised,
            says=f"Having {survey.group} launch a spare beside {self._identity.instance_id}.",
        )
        self._incident.on_standby = True
        self._incident.facts["spare"] = sentences.spare(raised)
        spare = await self._await_launch(survey)
        await self._prove(survey, spare)
        self._survey, self._spare = survey, spare

    async def _await_launch(self, survey: acts.GroupSurvey) -> acts.Replacement:
        deadline = Deadline(self._incident.policy.deadlines.replacement)
        replacement = await self._runner.act(
            Step.AWAIT_REPLACEMENT,
            ActivityName.AWAIT_REPLACEMENT,
            lambda: acts.AwaitReplacement(
                target=self._target(), survey=survey, deadline=deadline.now, startup_taint=self._rules.startup_taint
            ),
            acts.Replacement,
            says=f"Waiting for {survey.group} to launch a replacement and for its Node.",
            deadline=deadline,
        )
        self._incident.replacement_instance_id = replacement.instance_id
        self._incident.replacement_node = replacement.node
        self._tell(Step.AWAIT_REPLACEMENT, "replacement", sentences.replacement(replacement))
        return replacement

    async def _prove(self, survey: acts.GroupSurvey, replacement: acts.Replacement) -> None:
        try:
            await self._verify(survey, replacement)
        except StepSkipped as skipped:
            self._incident.verification_skipped = skipped.override
            self._runner.skip(skipped)

    async def _verify(self, survey: acts.GroupSurvey, replacement: acts.Replacement) -> None:
        deadlines, findings = self._incident.policy.deadlines, self._incident.findings
        deadline = Deadline(deadlines.verification)
        verified = await self._runner.act(
            Step.VERIFY,
            ActivityName.VERIFY_REPLACEMENT,
            lambda: acts.VerifyReplacement(
                target=self._target(),
                replacement=replacement,
                soak=deadlines.soak,
                deadline=deadline.now,
                rules=self._rules,
                condition_types=tuple(sorted({finding.condition_type for finding in findings})),
                serials=sentences.serials(findings),
                image=survey.image,
            ),
            acts.Verified,
            says=f"Proving that {replacement.node} is whole.",
            deadline=deadline,
        )
        self._tell(Step.VERIFY, "verified", sentences.verified(verified))

    @property
    def _identity(self) -> NodeIdentity:
        assert self._incident.identity is not None
        return self._incident.identity

    @property
    def _rules(self) -> ReplacementPolicy:
        return self._incident.policy.replacement

    def _tell(self, step: Step, fact: str, sentence: str) -> None:
        self._incident.facts[fact] = sentence
        self._runner.end(step, sentence)
