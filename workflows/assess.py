"""The decision about a machine: findings, identity and policy in, a plan with reasons out. No I/O, no clock."""

from collections.abc import Sequence
from typing import Final

from contract.corroboration import Circumstances, CorroborationPolicy
from contract.fault import DataTrust, EvidenceEnd, FaultReport, Verdict, named_instance
from contract.identity import MachineKind, NodeIdentity
from contract.override import Override
from contract.plan import Plan, Rung
from contract.replacement import RebootMode, ReplacementPolicy
from workflows.authority import overruled
from workflows.corroborate import Witnesses, in_doubt_until_confirmed, proofs_of, witnesses
from workflows.weigh import Judged, weighed

_SEVERITY: Final = tuple(Verdict)
"""``Verdict`` is declared from the worst to the least."""

APPROVED_BY_SOMEONE: Final = Override(by="someone", reason="to see what an approval would change")

_NO_RULES: Final = ReplacementPolicy()
_USUAL_WITNESSES: Final = CorroborationPolicy()


def assess(
    findings: Sequence[FaultReport],
    identity: NodeIdentity,
    approval: Override | None = None,
    rules: ReplacementPolicy = _NO_RULES,
    circumstances: Circumstances | None = None,
    corroboration: CorroborationPolicy = _USUAL_WITNESSES,
) -> Plan:
    """Decide what the findings call for on this machine.

    More findings can only raise the rung, but for what a device's own driver says of it (``workflows.authority``). A
    line that names another machine is not believed. Without a way to replace, and wherever the findings leave doubt,
    the answer is quarantine and a human; ``approval`` is that human's decision to replace, and ``corroboration`` says
    which second witnesses end the doubt without one, of those that can confirm the rule. A rule that asks for a witness
    leaves doubt until there is one, however sure its verdict. ``rules`` say which lower rungs may be tried, and none is
    tried twice on a machine.
    """
    named_here = [finding for finding in findings if not _names_another(finding, identity)]
    if not named_here:
        return _doubted(findings, identity)
    mends = rules.reboot is RebootMode.REPAIRABLE or rules.device_reset is not None
    told = overruled(named_here) if mends else named_here
    believed = [in_doubt_until_confirmed(finding, told, circumstances, corroboration) for finding in told]
    proofs = proofs_of(believed, circumstances, corroboration)

    def severity(finding: FaultReport) -> int:
        # What is proven is a hardware fault: whatever may repair another one on the machine does not repair it.
        return _SEVERITY.index(Verdict.HARDWARE if finding.key in proofs else finding.verdict)

    # The certain before the proven.
    worst = min(believed, key=lambda f: (severity(f), _SEVERITY.index(f.verdict), f.first_seen))
    proven = worst.key in proofs
    same = [f for f in believed if f.verdict is worst.verdict and (f.key in proofs) is proven]
    rung, reasons, remedy = _rung(worst, same, identity, approval, rules, proofs.get(worst.key, {}))
    decided = Plan(
        rung=rung,
        reasons=(_says(worst), *reasons),
        remedy=remedy,
        data=DataTrust.SUSPECT if any(finding.data is DataTrust.SUSPECT for finding in same) else DataTrust.TRUSTED,
        evidence_since=min(finding.first_seen for finding in same),
        fuse=identity.fuse.says if identity.fuse else "",
        device_resource=next((finding.device_resource for finding in same if finding.device_resource), None),
    )
    asked = corroboration.of_rule(worst.corroboration)
    confirming = witnesses(same, believed, circumstances, asked)
    return weighed(decided, Judged(same, identity, approval, confirming, proven, circumstances, asked))


def _rung(
    worst: FaultReport,
    same: Sequence[FaultReport],
    identity: NodeIdentity,
    approval: Override | None,
    rules: ReplacementPolicy,
    proven_by: Witnesses,
) -> tuple[Rung, tuple[str, ...], str]:
    match worst.verdict:
        case Verdict.ELSEWHERE | Verdict.APPLICATION | Verdict.NOTICE:
            return Rung.OBSERVE, ("The rule says that this machine is not what failed: it is recorded only.",), ""
        case Verdict.HARDWARE:
            return _replace_or_ask(identity, "The hardware failed for good: another machine is the only repair.")
        case Verdict.REPAIRABLE | Verdict.AMBIGUOUS if approval:
            return _replace_or_ask(identity, f"{approval.by} decided to replace it: {approval.reason}")
        case Verdict.REPAIRABLE:
            return _mend_or_climb(same, identity, rules)
        case Verdict.AMBIGUOUS if proven_by:
            kinds = " and ".join(proven_by)
            return _replace_or_ask(identity, f"This line alone proves nothing, and is corroborated ({kinds}).")
        case Verdict.AMBIGUOUS:
            return (
                Rung.QUARANTINE,
                ("This line alone does not prove that the machine failed.",),
                "Look at the device counters: press `approve` to have it replaced, or `release` to give it back.",
            )


def _mend_or_climb(
    same: Sequence[FaultReport], identity: NodeIdentity, rules: ReplacementPolicy
) -> tuple[Rung, tuple[str, ...], str]:
    """The lowest rung that the policy allows and that was not tried, else the next; evidence has to end with it."""
    ends_at_boot = all(finding.evidence_end is EvidenceEnd.BOOT for finding in same)
    allowed = [
        rung
        for rung, allows in (
            (Rung.RESET_DEVICE, rules.device_reset is not None),
            (Rung.REBOOT, rules.reboot is RebootMode.REPAIRABLE and identity.instance_id is not None),
        )
        if allows and ends_at_boot
    ]
    left = [rung for rung in allowed if rung not in identity.tried]
    if not allowed:
        return (
            Rung.QUARANTINE,
            ("A reset or reboot may repair this, and the policy leaves that to people.",),
            "Reboot the machine and press `release`, or press `approve` to have it replaced.",
        )
    if not left:
        tried = " and ".join(rung for rung in allowed)
        return _replace_or_ask(identity, f"It was tried to repair it lately ({tried}), and it failed again.")
    if identity.foreign_owners:
        return (
            Rung.QUARANTINE,
            (f"A {left[0]} may repair this, but another controller acts on it: {'; '.join(identity.foreign_owners)}.",),
            "Let that controller finish and press `resume`, or press `abort`.",
        )
    return left[0], (f"A {left[0]} may repair this, and was not tried on this machine lately.",), ""


def _replace_or_ask(identity: NodeIdentity, reason: str) -> tuple[Rung, tuple[str, ...], str]:
    if identity.kind is MachineKind.AUTO_SCALING and (lacking := _lacks_group(identity)):
        return Rung.QUARANTINE, (reason, lacking[0]), lacking[1]
    if identity.foreign_owners:
        return (
            Rung.QUARANTINE,
            (reason, f"But another controller acts on it: {'; '.join(identity.foreign_owners)}."),
            "Let that controller replace it and press `abort`, or switch its repair off and press `resume`.",
        )
    return Rung.REPLACE, (reason,), ""


def _lacks_group(identity: NodeIdentity) -> tuple[str, str] | None:
    """Why no Auto Scaling group replaces it, and what to do; None when one does."""
    if identity.instance_id is None:
        return (
            f"But its provider id {identity.provider_id!r} names no EC2 instance: nothing can replace it.",
            "Replace the machine by hand and press `abort`, or press `release` to give it back.",
        )
    if identity.group is None:
        return (
            f"But {identity.instance_id} is in no Auto Scaling group: terminating it would bring none back.",
            "Replace the instance by hand and press `abort`, or attach it to its group and press `resume`.",
        )
    return None


def _doubted(findings: Sequence[FaultReport], identity: NodeIdentity) -> Plan:
    named = sorted({named_instance(finding) for finding in findings})
    return Plan(
        rung=Rung.QUARANTINE,
        reasons=(
            _says(findings[0]),
            f"But the line names {', '.join(named)}, and this machine is {identity.instance_id or 'no EC2 instance'}: "
            "it is forged, or the driver is wrong.",
        ),
        remedy="Find out who wrote the line. Press `release` to give the node back, or `abort` to leave it closed.",
        evidence_against=("Every line names another machine than the one that it came from.",),
        would_change=("A finding that names this machine, or none.",),
        evidence_since=min(finding.first_seen for finding in findings),
    )


def _names_another(finding: FaultReport, identity: NodeIdentity) -> bool:
    named = named_instance(finding)
    return named.startswith("i-") and named != identity.instance_id


def _says(finding: FaultReport) -> str:
    drill = " (a drill: user space wrote the line)" if finding.drill else ""
    return f"Rule {finding.rule} found {finding.reason}: {finding.verdict}{drill}."
