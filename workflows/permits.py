"""The permits of one incident: asked of FleetBudget, held, and given back. What was granted is known by asking."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract.identity import Fence
    from contract.names import ActivityName, Step
    from contract.permit import AskPermit, PermitAnswer, PermitKind, PermitRequest, ReturnPermits
    from workflows.incident_state import Incident
    from workflows.step_runner import StepRunner
    from workflows.timing import PERMIT


class Permits:
    """What one incident holds of its fleet's budget."""

    def __init__(self, incident: Incident, fence: Fence, runner: StepRunner) -> None:
        self.nudges = 0
        """How many ``permit_granted`` signals came: each makes a waiting incident ask again at once."""
        self._incident = incident
        self._fence = fence
        self._runner = runner
        self._asked: dict[PermitKind, bool] = {}
        """Asked, and whether held."""

    def held(self, kind: PermitKind) -> bool:
        """Whether it is granted and not given back."""
        return self._asked.get(kind, False)

    def take(self, kind: PermitKind, answer: PermitAnswer) -> None:
        """An answer that came with another act."""
        self._asked[kind] = self._asked.get(kind, False) or answer.granted

    async def hold(self, kind: PermitKind, step: Step) -> None:
        """Have the permit, waiting for it as long as it takes. The act shows why it waits."""
        if self.held(kind):
            return
        self._asked[kind] = False
        await self._runner.act(
            step,
            ActivityName.ASK_PERMIT,
            lambda: AskPermit(request=self._request(kind), nudges=self.nudges),
            PermitAnswer,
            says=f"Asking the fleet's budget for a {kind} permit.",
            timing=PERMIT,
            restart_on_change=True,
        )
        self._asked[kind] = True

    async def give_back(self, *kinds: PermitKind) -> None:
        """Give back those of them that are held or still asked for."""
        asked = [kind for kind in kinds if self._asked.pop(kind, None) is not None]
        if asked:
            tokens = tuple(self._request(kind).token for kind in asked)
            argument = ReturnPermits(cluster=self._incident.request.cluster, tokens=tokens)
            await self._runner.afterwards(ActivityName.RETURN_PERMITS, argument, None, ", ".join(asked))

    def _request(self, kind: PermitKind) -> PermitRequest:
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
        )
