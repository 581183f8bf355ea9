"""Prints docs/overrides.md from the one table: ``python -m workflows.override_matrix > docs/overrides.md``.

A test fails when the document and the table differ.
"""

from collections.abc import Iterator
from typing import Final

from contract.names import OverrideName, Step
from workflows.override_table import DESCRIPTIONS, EXTENSION_EXAMPLE, Stand, allowed

_STANDS: Final = {
    Stand.RUNNING: "the step runs",
    Stand.QUEUED: "it waits for a permit of the fleet's budget",
    Stand.WITH_GANG: "it waits for the checkpoint of a job that spans nodes",
    Stand.HELD: "it is held",
    Stand.AT_GATE: "it waits for an approval",
    Stand.PARKED: "the step failed, or waits for something to be mended",
    Stand.PARKED_UNDECIDED: "the findings leave doubt, and it waits for a decision",
    Stand.COMMITTED: "past the point of no return, the step runs",
    Stand.COMMITTED_PARKED: "past the point of no return, the step failed",
    Stand.CLOSED: "it is closed, or gives back what it holds before it closes",
}
_INTRODUCTION: Final = """# Overrides: what you can press, and when

*Printed from `workflows/override_table.py` by `python -m workflows.override_matrix`; a test holds it current.*

Every override is a signal (works while workers are down) and an update (answered at once) of the same name, with one
argument: `by` and `reason` always, an `id` where the same act shall apply once however often it is sent, and
`extension` (ISO 8601, at most 24 h) with `extend_deadline`. One that is not possible is refused with what is, and
refused ones are in the record too. The same words sent again while they are not obeyed yet apply once.

`retry_step`, `skip_step` and `extend_deadline` are about the step at which they are pressed; one that arrives as the
step ends changes nothing, and a note says so. The irreversible call (`replace`, once it is on its way) is never
repeated or cancelled."""


def document() -> str:
    """The whole document."""
    return "\n\n".join([_INTRODUCTION, _overrides(), *_stands()]) + "\n"


def _overrides() -> str:
    lines = [f"- `{name}`: {words.rpartition(' {')[0]}" for name, words in DESCRIPTIONS.items()]
    return "\n".join([*lines, "", f"Example: `nodemend extend-deadline NODE …` sends `{EXTENSION_EXAMPLE}`."])


def _stands() -> Iterator[str]:
    for stand in Stand:
        yield "\n".join([f"## `{stand}`: {_STANDS[stand]}", "", *_table(stand)])


def _table(stand: Stand) -> Iterator[str]:
    offers = {step: allowed(stand, step) for step in Step}
    everywhere = {
        name: words for name, words in offers[Step.IDENTIFY].items() if all(name in offer for offer in offers.values())
    }
    if not any(offers.values()):
        yield "Nothing is possible any more."
        return
    if everywhere:
        yield "At every step:"
        yield ""
        yield from (f"- `{name}` {words}" for name, words in everywhere.items())
    here = [name for name in OverrideName if name not in everywhere and any(name in offer for offer in offers.values())]
    if here:
        yield ""
        yield "| step | " + " | ".join(f"`{name}`" for name in here) + " |"
        yield "|---" * (len(here) + 1) + "|"
        for step in Step:
            yield f"| {step} | " + " | ".join(offers[step].get(name, "–") for name in here) + " |"


if __name__ == "__main__":
    print(document(), end="")
