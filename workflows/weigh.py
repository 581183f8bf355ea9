"""What a decision rests on, for people: evidence for and against, how sure it is, what would change its mind. Pure.

It decides nothing: the rung stands before it is asked, and two plans that differ here alone are one decision.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from contract.corroboration import Circumstances, Corroboration, CorroborationPolicy
from contract.fault import FaultReport, Verdict
from contract.identity import NodeIdentity
from contract.override import Override
from contract.plan import Confidence, Plan, Rung
from contract.words import counted
from workflows.corroborate import Witnesses, counters_stood_still

_SHOWN: Final = 5
"""Findings told as evidence one by one."""
_OTHERS_FAULT: Final = frozenset({Verdict.ELSEWHERE, Verdict.APPLICATION, Verdict.NOTICE})

_AWAITED: Final = {
    Corroboration.COUNTERS: "the driver counting uncorrected errors of the device",
    Corroboration.EC2: "EC2 scheduling an event for the instance, or failing its status check",
    Corroboration.OTHER_SOURCE: "the kubelet falling silent",
    Corroboration.RECURRENCE: "the same device failing again under another job",
}


class Judged(NamedTuple):
    """What a decision was made of."""

    same: Sequence[FaultReport]
    """The believed findings of the worst verdict."""
    identity: NodeIdentity
    approval: Override | None
    found: Witnesses
    proven: bool
    """Whether the witnesses ended a doubt."""
    circumstances: Circumstances | None
    rules: CorroborationPolicy


def weighed(plan: Plan, judged: Judged) -> Plan:
    """The plan with what it rests on."""
    against = tuple(_against(judged))
    return plan.model_copy(
        update={
            "confidence": _confidence(judged),
            "evidence_for": tuple(_in_favour(judged)),
            "evidence_against": against,
            "would_change": tuple(_would_change(plan, judged)),
        }
    )


def _confidence(judged: Judged) -> Confidence:
    """Only what is known of the findings of the worst verdict counts: more of them never make it less sure."""
    if judged.same[0].verdict is Verdict.AMBIGUOUS:
        return Confidence.MEDIUM if judged.proven or judged.approval else Confidence.LOW
    return Confidence.MEDIUM if all(finding.drill for finding in judged.same) else Confidence.HIGH


def _in_favour(judged: Judged) -> list[str]:
    told = dict.fromkeys(
        f"The {_origin(finding)} says {finding.reason}"
        + (f" of device {device}" if (device := finding.fields.get("nd-id", "")) else "")
        + f" (rule {finding.rule})."
        for finding in judged.same
    )
    shown = [*told][:_SHOWN]
    more = (
        [f"{counted(len(told) - _SHOWN, 'more finding says', 'more findings say')} the same of it."]
        if len(told) > _SHOWN
        else []
    )
    approved = [f"{judged.approval.by} says so: {judged.approval.reason}."] if judged.approval else []
    return [*shown, *more, *judged.found.values(), *approved]


def _against(judged: Judged) -> list[str]:
    found = []
    if all(finding.drill for finding in judged.same):
        found.append("User space wrote every line: a drill, or a forgery.")
    if judged.same[0].verdict in _OTHERS_FAULT:
        return found
    if judged.same[0].verdict is Verdict.AMBIGUOUS:
        found.append("Software causes such lines too.")
    if counters_stood_still(judged.same):
        found.append("The driver has counted no uncorrected error of the device.")
    if judged.circumstances and judged.circumstances.ec2_asked and Corroboration.EC2 not in judged.found:
        found.append("EC2 knows of nothing against the instance.")
    if judged.identity.ready:
        found.append("Its kubelet answered when the machine was identified.")
    return found


def _would_change(plan: Plan, judged: Judged) -> list[str]:
    match plan.rung:
        case Rung.OBSERVE:
            return ["A finding whose rule puts the fault down to this machine."]
        case Rung.QUARANTINE if judged.same[0].verdict is Verdict.AMBIGUOUS and not judged.proven:
            missing = [_AWAITED[kind] for kind in judged.rules.accepted if kind not in judged.found]
            short = judged.rules.needed - len(judged.found)
            human = "A human: `approve` has it replaced, `release` gives it back."
            if len(missing) < short or not missing or judged.circumstances is None:
                return [human]
            return [f"{'One' if short == 1 else f'{short}'} of: {'; '.join(missing)}.", human]
        case Rung.QUARANTINE:
            return ["What the last reason names, mended, and `resume`.", "A human: `release` gives it back."]
        case Rung.RESET_DEVICE | Rung.REBOOT:
            return [
                f"The fault coming back after the {plan.rung}: then the next rung is due.",
                "A finding that no repair on this machine ends.",
            ]
        case Rung.REPLACE:
            return [
                "A human: `release`, or opening the node by hand, until the machine is given up.",
                "A policy that no longer says `act` for its group.",
            ]


def _origin(finding: FaultReport) -> str:
    origin = finding.source.replace("-", " ")
    return {"kmsg": "kernel log", "ec2": "EC2 API"}.get(finding.source, f"source '{origin}'")
