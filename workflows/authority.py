"""Findings whose remedy the device's own driver names: Xid 154 is the authority over the Xids around it. Pure.

NVIDIA's catalogue ("XID Errors", 154): follow the recovery action that it names. It comes within seconds of the Xid
that caused it. Only a lower rung that the policy allows is taken at its word: where reboots are left to people, a dead
device is replaced as before, and so it is once the reboot was tried.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from contract.fault import EvidenceEnd, FaultReport, Verdict

_WINDOW: Final = timedelta(seconds=30)
"""As other repairers of GPU nodes have it."""
_RECOVERY: Final = "nvidia-recovery-reset"
"""The rule of a 154 that asks for a reset or a reboot."""
_MACHINE: Final = frozenset({Verdict.HARDWARE, Verdict.AMBIGUOUS})


def overruled(findings: Sequence[FaultReport]) -> list[FaultReport]:
    """The findings; where the driver says that a reset or a reboot repairs a device, its others say so too."""
    words = [finding for finding in findings if finding.rule == _RECOVERY and _device(finding)]
    return [_as_told(finding, words) for finding in findings]


def _as_told(finding: FaultReport, words: Sequence[FaultReport]) -> FaultReport:
    if finding.component != "nvidia" or finding.verdict not in _MACHINE:
        return finding
    for word in words:
        near = word.first_seen - _WINDOW <= finding.first_seen <= word.first_seen + _WINDOW
        if near and _device(word) == _device(finding) and word.drill == finding.drill:
            return finding.model_copy(update={"verdict": Verdict.REPAIRABLE, "evidence_end": EvidenceEnd.BOOT})
    return finding


def _device(finding: FaultReport) -> str:
    """Its PCI address without the function, which some drivers write and some do not."""
    named = finding.fields.get("pci") or finding.fields.get("bare", "")
    return named.partition(".")[0].lower()
