"""The permits of one incident: asked of FleetBudget, held, and given back. What was granted is known by asking."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract.budget import RepairResult
    from contract.identity import Fence
    from contract.names import ActivityName, Outcome, Step
    from contract.permit import (
        AskPermit,
        PermitAnswer,
        PermitApproval,
        PermitKind,
        PermitRequest,
        ReturnPermits,
        severity_of,
    )
    from workflows.incident_state import Incident
    from workflows.override_table import Stand
    from workflows.overrides import Controls
    from workflows.step_runner import StepRunner
    from workflows.timing import PERMIT


class Permits:
    """What one incident holds of its fleet's budget."""

    def __init__(self, incident: Incident, fence: Fence, runner: StepRunner, controls: Controls) -> None:
        self.nudges = 0
        """How many ``permit_granted`` signals came: each makes a waiting incident ask again at once."""
        self._incident = incident
        self._fence = fence
        self._runner = runner
        self._controls = controls
        self._marked = False
        """The node may carry the mark of waiting for its quarantine."""
        self._asked: dict[PermitKind, bool] = {}
        """Asked, and whether held."""
        self._heard: tuple[PermitRequest, PermitAnswer] | None = None
        """What was answered with another act, and to what."""

    def held(self, kind: PermitKind) -> bool:
        """Whether it is granted and not given back."""
        return self._asked.get(kind, False)

    def in_use(self) -> list[PermitRequest]:
        """What is held: FleetBudget asks when it has lost its memory."""
        return [self.request(kind) for kind in self._asked if self.held(kind)]

    def take(self, kind: PermitKind, answer: PermitAnswer) -> None:
        """An answer that came with another act."""
        self._asked[kind] = self._asked.get(kind, False) or answer.granted
        self._heard = None if answer.granted else (self.request(kind), answer)

    async def hold(self, kind: PermitKind, step: Step) -> None:
        """Have the permit, waiting for it as long as it takes. The act shows why it waits."""
        if self.held(kind):
            return
        self._asked[kind] = False
        self._marked = self._marked or kind is PermitKind.QUARANTINE
        await self._runner.act(
            step,
            ActivityName.ASK_PERMIT,
            lambda: self._ask(kind),
            PermitAnswer,
            says=f"Asking the fleet's budget for a {kind} permit.",
            timing=PERMIT,
            restart_on_change=True,
            stand=Stand.QUEUED,
        )
        self._asked[kind] = True
        self.spend_approval()

    def _ask(self, kind: PermitKind) -> AskPermit:
        request = self.request(kind)
        # After a nudge it is out of date, and to another request than what is asked now (an approval, say) it is none.
        heard = self._heard[1] if self._heard and self._heard[0] == request and not self.nudges else None
        return AskPermit(request=request, nudges=self.nudges, node_uid=self._node_uid, heard=heard)

    @property
    def approval(self) -> PermitApproval | None:
        """A human's word that the permit which is waited for may pass what guards the budget."""
        pressed = self._controls.permit_approval
        return PermitApproval(by=pressed.by, reason=pressed.reason) if pressed else None

    def spend_approval(self) -> None:
        """It was for the permit that waited when it was given, not for the next."""
        self._controls.permit_approval = None

    async def give_back(self, *kinds: PermitKind, outcome: Outcome | None = None) -> None:
        """Give back those of them that are held or still asked for; at the close, with how the incident ended."""
        asked = [kind for kind in kinds if self._asked.pop(kind, None) is not None]
        self._heard = None
        if asked:
            argument = ReturnPermits(
                cluster=self._incident.request.cluster,
                tokens=tuple(self.request(kind).token for kind in asked),
                result=self._result(outcome) if outcome else None,
                node=self._incident.request.node,
                node_uid=self._node_uid if outcome and self._marked else "",
            )
            await self._runner.afterwards(ActivityName.RETURN_PERMITS, argument, None, ", ".join(asked))

    def _result(self, outcome: Outcome) -> RepairResult | None:
        """How the repair ended, where there was one."""
        if outcome not in (Outcome.REPLACED, Outcome.REPLACED_UNVERIFIED):
            return None
        request = self.request(PermitKind.DISRUPTION)
        return RepairResult(
            incident_id=request.incident_id,
            run_id=request.run_id,
            group=request.group,
            fault=request.fault,
            node=request.node,
            replacement=self._incident.replacement_node or "",
            failed=outcome is Outcome.REPLACED_UNVERIFIED,
            at=workflow.now(),
        )

    @property
    def _node_uid(self) -> str:
        return self._incident.identity.node_uid if self._incident.identity else ""

    def request(self, kind: PermitKind) -> PermitRequest:
        """What is asked for, in the name of this run."""
        identity = self._incident.identity
        assert identity is not None
        return PermitRequest(
            kind=kind,
            incident_id=self._fence.incident_id,
            run_id=self._fence.run_id,
            cluster=identity.cluster,
            group=identity.group or "",
            node=identity.node,
            zone=identity.zone,
            signature=self._incident.findings[0].signature,
            rule=self._incident.findings[0].rule,
            severity=severity_of(self._incident.findings),
            traits=self._incident.traits,
            approval=self.approval,
            useless=bool(self._incident.circumstances and self._incident.circumstances.work_dead),
        )
