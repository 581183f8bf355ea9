"""Second witnesses of a doubtful finding: who else says that this machine failed, without having read the same line.

A line of the kernel log proves little: software causes some of them, and a process that may open the device can have
some written. Node Problem Detector and agents like it read the same log, so they are the same witness (K12). Pure.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from contract.corroboration import Circumstances, Corroboration, CorroborationPolicy, RuleCorroboration
from contract.fault import FaultReport, Verdict
from contract.names import DEVICE_COUNTERS, ClusterSource

AROUND: Final = timedelta(hours=1)
"""How far from the finding a counter may have moved. They are looked at every minute, and faults come in series."""
_AGAINST_MACHINE: Final = frozenset({Verdict.HARDWARE, Verdict.REPAIRABLE, Verdict.AMBIGUOUS})
_CERTAIN: Final = frozenset({Verdict.HARDWARE, Verdict.REPAIRABLE})
_DEVICE_FIELDS: Final = ("nd-id", "device")

Witnesses = dict[Corroboration, str]
"""What each kind says, in a sentence."""


def witnesses(
    doubtful: Sequence[FaultReport],
    findings: Sequence[FaultReport],
    circumstances: Circumstances | None,
    rules: CorroborationPolicy,
) -> Witnesses:
    """Whoever confirms one of the doubtful findings, of the kinds that the policy accepts.

    ``findings`` are all that are believed, the doubtful ones among them. Without circumstances the incident began
    under a version that knew no corroboration, and stays with what it decided.
    """
    if circumstances is None:
        return {}
    said = {
        Corroboration.COUNTERS: _counters(doubtful, findings),
        Corroboration.EC2: _ec2(doubtful, findings, circumstances),
        Corroboration.OTHER_SOURCE: _others(doubtful, findings, rules),
        Corroboration.RECURRENCE: circumstances.recurrence[0] if circumstances.recurrence else "",
    }
    return {kind: sentence for kind, sentence in said.items() if sentence and kind in rules.accepted}


def suffice(found: Witnesses, rules: CorroborationPolicy) -> bool:
    """Whether the policy takes the word of so many."""
    return len(found) >= rules.needed


def in_doubt_until_confirmed(
    finding: FaultReport,
    findings: Sequence[FaultReport],
    circumstances: Circumstances | None,
    rules: CorroborationPolicy,
) -> FaultReport:
    """The finding; in doubt where its rule asks for a witness before anything is destroyed, and there is none."""
    asked = rules.of_rule(finding.corroboration)
    if finding.corroboration is None or finding.verdict not in _CERTAIN:
        return finding
    if suffice(witnesses([finding], findings, circumstances, asked), asked):
        return finding
    return finding.model_copy(update={"verdict": Verdict.AMBIGUOUS})


def proofs_of(
    findings: Sequence[FaultReport], circumstances: Circumstances | None, rules: CorroborationPolicy
) -> dict[str, Witnesses]:
    """Who ends the doubt of each doubtful finding whose doubt is ended, by the finding's key.

    Findings whose rules ask for the same are doubted, and proven, together: a device that fails says so in many lines.
    """
    doubtful: dict[RuleCorroboration | None, list[FaultReport]] = {}
    for finding in findings:
        if finding.verdict is Verdict.AMBIGUOUS:
            doubtful.setdefault(finding.corroboration, []).append(finding)
    proven: dict[str, Witnesses] = {}
    for asks, together in doubtful.items():
        asked = rules.of_rule(asks)
        found = witnesses(together, findings, circumstances, asked)
        if suffice(found, asked):
            proven |= dict.fromkeys((finding.key for finding in together), found)
    return proven


def counters_stood_still(findings: Sequence[FaultReport]) -> bool:
    """Whether the counters of each finding's device were read, and show no uncorrected error at all."""
    read = [_counters_of(finding) for finding in findings]
    return bool(read) and all(values and set(values) == {"0"} for values in read)


def _counters(doubtful: Sequence[FaultReport], findings: Sequence[FaultReport]) -> str:
    """What the driver counted, as a finding of its own: the node vouches for it as for a line, by its digest."""
    counted = [finding for finding in findings if finding.source == DEVICE_COUNTERS]
    others = [finding for finding in findings if finding.source != DEVICE_COUNTERS]
    pairs = [(finding, moved) for finding in others for moved in counted if finding in doubtful or moved in doubtful]
    for finding, moved in pairs:
        same = moved.component == finding.component and _device(finding) in ("", _device(moved))
        if same and finding.verdict in _AGAINST_MACHINE and _near(moved, finding):
            return moved.message
    return ""


def _ec2(doubtful: Sequence[FaultReport], findings: Sequence[FaultReport], circumstances: Circumstances) -> str:
    if all(finding.source == ClusterSource.EC2 for finding in doubtful):
        return ""
    told = [f.message for f in findings if f.source == ClusterSource.EC2 and f.verdict in _AGAINST_MACHINE]
    return (told or [f"{word}." for word in circumstances.ec2] or [""])[0]


def _others(doubtful: Sequence[FaultReport], findings: Sequence[FaultReport], rules: CorroborationPolicy) -> str:
    accused = {_witness(finding, rules) for finding in doubtful}
    for finding in findings:
        witness = _witness(finding, rules)
        if witness and finding.verdict in _AGAINST_MACHINE and accused - {witness}:
            return f"{witness} says so too: {finding.message}"
    return ""


def _witness(finding: FaultReport, rules: CorroborationPolicy) -> str:
    """Who says it, of those that count as another source; empty for the kernel log and for what has its own kind."""
    if finding.source == ClusterSource.NOT_READY:
        return "The kubelet's silence"
    by_name = finding.source in (ClusterSource.CONDITION, ClusterSource.TAINT)
    return finding.condition_type if by_name and finding.condition_type in rules.independent else ""


def _device(finding: FaultReport) -> str:
    return next((finding.fields[name] for name in _DEVICE_FIELDS if finding.fields.get(name)), "")


def _counters_of(finding: FaultReport) -> list[str]:
    """Values of the counters of the device that the line names, as they were when it was reported."""
    device = _device(finding)
    named = device and finding.component == "neuron"
    return [value for name, value in finding.fields.items() if named and name.startswith(f"neuron{device}.")]


def _near(other: FaultReport, finding: FaultReport) -> bool:
    return finding.first_seen - AROUND <= other.first_seen <= finding.last_seen + AROUND
