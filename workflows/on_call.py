"""Prints docs/on-call.md: ``python -m workflows.on_call > docs/on-call.md``. A test fails when the two differ."""

from collections.abc import Iterator
from typing import Final

from contract.names import ErrorType, OverrideName, Step
from workflows.failures import ENDS, TRANSIENT
from workflows.needs_human import DO, STANDS, TIMED_OUT, argument, command

_INTRODUCTION: Final = f"""# On call: an incident needs a human

*Printed from `workflows/needs_human.py` by `python -m workflows.on_call`; a test holds it current.*

`nodemend status` lists those that wait first; `nodemend watch NODE` shows one: what happened, how
the machine stands, what you can press. The same stands on the workflow's page in the Temporal UI. While an incident
waits, nothing happens to its node, and no other node waits for it: leave to disturb work is given back.

It is asked again after `deadlines.escalation` of the policy (1 h unless set), then after twice that, and so on: each
time the memo is rewritten, a warning is logged and `nodemend_escalations_total` is raised. Page on that, and on the
search attribute `NeedsHuman`.

To go on, once you have done what the sentence says: `{command(OverrideName.RESUME, "NODE")}`, or in the Temporal UI
send `resume` with `{argument()}`.
What else is possible is on the page and in [overrides.md](overrides.md): `abort` leaves the node closed, `release`
gives it back as it was. If you do not know, leave it: a closed node harms nobody."""

QUESTIONS: Final = {
    "Before … the policy asks for …": "a gate: the plan, its digest and its price stand there",
    "This is the last attempt: …": "a job would end for good; ask its owner, then `approve`, or `abort`",
    "Work would be lost: …": "a job saved nothing, and its owner wants to be asked; `approve` drains all the same",
    "Quarantine: … This line alone does not prove …": "look at the counters; `approve` replaces, `release` gives back",
    "Quarantine: … the policy leaves that to people. …": "reboot the machine, then `release`; or `approve` replaces it",
    "Quarantine: … another controller acts on it: …": "let it finish and `abort`; or switch it off there and `resume`",
    "Quarantine: … names no EC2 instance: …": "replace the machine by hand, then `abort`; or `release` gives it back",
    "Quarantine: … is in no Auto Scaling group: …": "replace it by hand, then `abort`; or attach it, then `resume`",
    "Quarantine: … it is forged, or the driver is wrong. …": "find out who wrote the line; `release`, or `abort`",
    "Of the … other nodes of …": "a hang: look at the node that is named, not at this one, then `abort` here",
    "… would not replace the instance: …": "clear the obstacle at the group that is named, then `resume`",
    "The policy wants a reboot before … is given up, …": "change the policy's answer and `resume`; or `abort`",
}
"""How each question begins and what tells it from others (``…``: anything), and what to do."""


def document() -> str:
    """The whole document."""
    return "\n\n".join([_INTRODUCTION, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    yield "\n".join(
        [
            "## A step failed",
            "",
            "It reads: *step* failed: *what happened*, how the machine stands, what to do, what to type.",
            "",
            "| failure | what to do | by itself |",
            "|---|---|---|",
            *(f"| `{kind}` | {words} | {_by_itself(kind)} |" for kind, words in DO.items()),
        ]
    )
    yield "\n".join(
        [
            "| step that failed | how the machine stands |",
            "|---|---|",
            *(f"| {step} | {STANDS[step]} |" for step in Step),
        ]
    )
    yield "\n".join(
        [
            "## A question",
            "",
            "| it says | what to do |",
            "|---|---|",
            *(f"| {says} | {do} |" for says, do in QUESTIONS.items()),
        ]
    )


def _by_itself(kind: str) -> str:
    if kind == TIMED_OUT or kind in TRANSIENT:
        return "tried again when it is told again"
    if kind in ENDS:
        return f"ends as `{ENDS[ErrorType(kind)]}`; asks only past the point of no return"
    return "–"


if __name__ == "__main__":
    print(document(), end="")
