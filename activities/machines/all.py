"""Which module replaces a machine: by the kind that was frozen when it was identified."""

from activities.auto_scaling import AutoScaling
from activities.machines.group import GroupReplacer
from activities.machines.kind import Replacer
from contract.identity import MachineKind, NodeIdentity


class Machines:
    """The replacers of a cluster."""

    def __init__(self, auto_scaling: AutoScaling) -> None:
        self.groups = GroupReplacer(auto_scaling)
        self._by_kind: dict[MachineKind, Replacer] = {MachineKind.AUTO_SCALING: self.groups}

    def of(self, identity: NodeIdentity) -> Replacer:
        """What replaces this machine."""
        return self._by_kind[identity.kind]
