"""A policy that changes while an incident runs: what was tightened holds for it at its next look, what was loosened
holds for new incidents. Pure.

Only what allows or forbids is held down. How long a step may wait, or how a job is asked, is neither tight nor loose:
the newest word counts.
"""

from typing import Final

from contract.corroboration import CorroborationPolicy
from contract.policy import CheckpointPolicy, DrainEscalation, GroupPolicy, Mode, OnCulprit, Otherwise
from contract.replacement import Answer, RebootMode, ReplacementPolicy, ReturningMachine

_MODES: Final = tuple(Mode)
_ESCALATIONS: Final = tuple(DrainEscalation)
"""``DrainEscalation`` is declared from what waits to what destroys."""
_ANSWERS: Final = tuple(Answer)
"""``Answer`` is declared from the least to the most cautious."""
_RETURNING: Final = tuple(ReturningMachine)
_CULPRITS: Final = tuple(OnCulprit)


def tightened(then: GroupPolicy, now: GroupPolicy) -> GroupPolicy:
    """For an incident that began under ``then`` and is looked at again under ``now``: no looser than either."""
    return now.model_copy(
        update={
            "mode": min(then.mode, now.mode, key=_MODES.index),
            "drills": min(then.drills, now.drills, key=_MODES.index),
            "approve_before": tuple(dict.fromkeys((*then.approve_before, *now.approve_before))),
            # Of gates before one step the strictest asks, so all of both together are no looser than either.
            "gates": (*then.gates, *(gate for gate in now.gates if gate not in then.gates)),
            "evict_unmanaged_pods": then.evict_unmanaged_pods and now.evict_unmanaged_pods,
            "evict_local_storage_pods": then.evict_local_storage_pods and now.evict_local_storage_pods,
            "drain_escalation": min(then.drain_escalation, now.drain_escalation, key=_ESCALATIONS.index),
            "culprits": min(then.culprits, now.culprits, key=_CULPRITS.index),
            "checkpoints": _checkpoints(then.checkpoints, now.checkpoints),
            "corroboration": _corroboration(then.corroboration, now.corroboration),
            "replacement": _replacement(then.replacement, now.replacement),
        }
    )


def _corroboration(then: CorroborationPolicy, now: CorroborationPolicy) -> CorroborationPolicy:
    accepted = tuple(kind for kind in then.accepted if kind in now.accepted)
    return CorroborationPolicy.model_construct(
        accepted=accepted,
        # More kinds may be needed than are accepted in common: then none suffices, and a human decides.
        needed=max(then.needed, now.needed),
        independent=tuple(name for name in then.independent if name in now.independent),
    )


def _checkpoints(then: CheckpointPolicy, now: CheckpointPolicy) -> CheckpointPolicy:
    """Where either has a human asked before work is lost, a human is asked."""

    def tighter(one: Otherwise, other: Otherwise) -> Otherwise:
        return Otherwise.ASK if Otherwise.ASK in (one, other) else other

    return now.model_copy(
        update={
            "malformed": tighter(then.malformed, now.malformed),
            "last_attempt": tighter(then.last_attempt, now.last_attempt),
        }
    )


def _replacement(then: ReplacementPolicy, now: ReplacementPolicy) -> ReplacementPolicy:
    return now.model_copy(
        update={
            "reboot": RebootMode.NEVER if RebootMode.NEVER in (then.reboot, now.reboot) else now.reboot,
            "device_reset": now.device_reset if then.device_reset else None,
            "answers": {
                finding: max(then.answer(finding), now.answer(finding), key=_ANSWERS.index)
                for finding in (*then.answers, *(finding for finding in now.answers if finding not in then.answers))
            },
            "required_daemon_sets": tuple(dict.fromkeys((*then.required_daemon_sets, *now.required_daemon_sets))),
            "probe": now.probe or then.probe,
            "returning_machine": min(then.returning_machine, now.returning_machine, key=_RETURNING.index),
            "failed_repairs_max": min(then.failed_repairs_max, now.failed_repairs_max),
        }
    )
