"""The lines that the demo can play: the one of the README, and the first golden sample of every rule."""

from dataclasses import dataclass
from typing import Final

from cli.errors import CommandError
from contract.fault import Verdict
from contract.names import ExitCode, Outcome

DEMO: Final = "demo"
_DEMO_LINE: Final = (
    "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR instance-id=i-0 hostname=h nd-id=3 nc-id=1 "
    "serial-num=19fcda00f5ff6eb9 action=TERMINATE_INSTANCE"
)
_ENDS: Final = {
    Verdict.HARDWARE: Outcome.REPLACED,
    Verdict.REPAIRABLE: Outcome.RELEASED,
    Verdict.AMBIGUOUS: Outcome.RELEASED,
    Verdict.ELSEWHERE: Outcome.OBSERVED,
}
"""Doubtful ones wait for a human, and the demo gives the node back. Quiet ones start no incident."""


@dataclass(frozen=True)
class Fault:
    """One line to play, and how its incident has to end."""

    rule: str
    verdict: Verdict
    line: str

    @property
    def outcome(self) -> Outcome:
        """How the incident has to end, said before it begins."""
        return _ENDS[self.verdict]


def faults() -> dict[str, Fault]:
    """What can be played, by id."""
    from detector.catalogue import BUILT_IN, load_rules

    playable = {
        rule.id: Fault(rule.id, Verdict(rule.verdict), rule.matches[0])
        for rule in sorted(load_rules([BUILT_IN]), key=lambda rule: rule.id)
        if rule.verdict in _ENDS
    }
    return {DEMO: Fault(DEMO, Verdict.HARDWARE, _DEMO_LINE), **playable}


def choose(fault: str) -> Fault:
    """The fault of an id.

    Raises:
        CommandError: there is none of that id, or it is one that starts no incident.
    """
    known = faults()
    if fault not in known:
        raise CommandError(
            f"--fault {fault}: no rule of this name starts an incident.",
            f"Choose one of: {', '.join(known)}. `nodemend demo --fault list` shows their lines.",
            ExitCode.USAGE,
        )
    return known[fault]
