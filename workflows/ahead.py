"""What comes next in an incident, as its plan stands: for people. Pure.

It decides nothing: the runbook is the order, and what a step finds may change the plan.
"""

from typing import Final

from contract.names import Step
from contract.plan import Rung

_REPAIR: Final = {
    Rung.RESET_DEVICE: {Step.RESET_DEVICE},
    Rung.REBOOT: {Step.REBOOT},
    Rung.REPLACE: {Step.REPLACE, Step.AWAIT_REPLACEMENT, Step.VERIFY},
}
_REPAIRS: Final = frozenset[Step]().union(*_REPAIR.values())
_UNTIL_DECIDED: Final = frozenset({Step.QUARANTINE, Step.SETTLE, Step.ASSESS})
_BY_A_HUMAN: Final = "a human decides"


def ahead(step: Step, rung: Rung | None) -> tuple[str, ...]:
    """What follows a step, in order; nothing after the last.

    Args:
        step: the one that runs, waits or failed.
        rung: what the plan wants; None before there is one.
    """
    order = list(Step)
    later = order[order.index(step) + 1 :]
    match rung:
        case None:
            return (*(one for one in later if one in _UNTIL_DECIDED), "what is decided then")
        case Rung.OBSERVE:
            return tuple(one for one in later if one is Step.CLOSE)
        case Rung.QUARANTINE:
            return (*(one for one in later if one in _UNTIL_DECIDED), _BY_A_HUMAN)
        case _:
            return tuple(one for one in later if one not in _REPAIRS or one in _REPAIR[rung])
