"""The rungs below replacement: a reset of the devices, a reboot. Each is tried once and proven, or climbed past."""

from collections.abc import Callable
from typing import Final

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contract import acts
    from contract.identity import Target
    from contract.names import ActivityName, Step
    from contract.plan import Rung
    from workflows import sentences
    from workflows.incident_state import Incident
    from workflows.step_runner import StepRunner
    from workflows.timing import until

MENDING: Final = frozenset({Rung.RESET_DEVICE, Rung.REBOOT})
_STEPS: Final = {
    Rung.RESET_DEVICE: (Step.RESET_DEVICE, ActivityName.RESET_DEVICES, "Resetting the devices of"),
    Rung.REBOOT: (Step.REBOOT, ActivityName.REBOOT_MACHINE, "Rebooting"),
}


async def mend(incident: Incident, runner: StepRunner, rung: Rung, target: Callable[[], Target]) -> bool:
    """Try one rung and have the machine looked at. True when it is whole and the fault did not come back."""
    step, name, doing = _STEPS[rung]
    deadlines = incident.policy.deadlines
    identity = target().identity
    result = await runner.act(
        step,
        name,
        lambda: acts.MendMachine(
            target=target(),
            drill=incident.request.drill,
            by=incident.policy.replacement.reboot_by,
            job=incident.policy.replacement.device_reset,
            condition_types=tuple(sorted({finding.condition_type for finding in incident.findings})),
            serials=sentences.serials(incident.findings),
            soak=deadlines.soak,
            deadline=deadlines.reboot,
        ),
        acts.Mended,
        says=f"{doing} {identity.instance_id or identity.node}.",
        timing=until(deadlines.reboot),
    )
    incident.tried(rung)
    again = rung is Rung.REBOOT and any(finding.boot_id == result.boot_id for finding in incident.findings)
    says = sentences.mended(result, came_back=again)
    incident.facts[step] = says
    runner.end(step, says)
    return result.whole and not again
