"""The lines that the demo can play: the one of the README, and the first golden sample of every rule."""

import re
from dataclasses import dataclass
from typing import Final

from cli.errors import CommandError
from contract.names import ExitCode
from deploy.local.scene import DemoScene

DEMO: Final = "demo"
_DEMO_LINE: Final = (
    "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR instance-id={instance} hostname={host} nd-id=3 nc-id=1 "
    "serial-num=19fcda00f5ff6eb9 action=TERMINATE_INSTANCE"
)
_QUIET: Final = ("application", "notice", "benign")


@dataclass(frozen=True)
class Fault:
    """One line to play."""

    rule: str
    verdict: str
    line: str
    """With places for the machine's own names."""

    def on(self, scene: DemoScene) -> str:
        """The line as the demo's machine would write it."""
        line = self.line.format(instance=scene.instance_id, host=scene.node) if self.rule == DEMO else self.line
        return re.sub(r"instance-id=i-[0-9a-f]+", f"instance-id={scene.instance_id}", line)


def choose(fault: str) -> Fault:
    """The fault of an id.

    Raises:
        CommandError: there is none of that id, or it is one that starts no incident.
    """
    if fault == DEMO:
        return Fault(DEMO, "hardware", _DEMO_LINE)
    from detector.catalogue import BUILT_IN, load_rules

    rules = {rule.id: rule for rule in load_rules([BUILT_IN])}
    playable = sorted(name for name, rule in rules.items() if rule.verdict not in _QUIET)
    if fault not in playable:
        told = "is counted on the node and starts no incident" if fault in rules else "is no rule"
        raise CommandError(
            f"--fault {fault}: it {told}.", f"Choose one of: {DEMO}, {', '.join(playable)}.", ExitCode.USAGE
        )
    return Fault(fault, str(rules[fault].verdict), rules[fault].matches[0])
