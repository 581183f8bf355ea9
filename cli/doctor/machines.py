"""What the doctor finds of the machines of groups: which of them are not as the others, and whose names clash. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from activities.placement import RESERVATION
from cli.doctor.findings import Finding, Level, some
from contract.identity import MachineKind, NodeIdentity
from contract.policy import Mode, Policy
from contract.replacement import Found, GroupFinding
from contract.words import counted

LOOKS_MAX: Final = 4
"""Machines of one group that are looked at, each standing for all that are like it: a look is about eight calls."""
_OF_ONE_MACHINE: Final = (GroupFinding.STANDBY, GroupFinding.SCALE_IN_PROTECTED)
"""Findings that name the machine that was looked at, and hold for those like it."""
_KEEPERS: Final = {MachineKind.AUTO_SCALING: "an Auto Scaling group", MachineKind.KARPENTER: "a NodePool"}

Alike = list[NodeIdentity]
"""Machines of one group of which a look says the same."""


def alike(machines: Iterable[NodeIdentity], group: Mapping[str, Any] | None) -> list[Alike]:
    """The machines of a group, those together of which a look would say the same; most first.

    Args:
        machines: those that have a Node.
        group: what Auto Scaling says of the group; None where it is not of Auto Scaling.
    """
    members = {one["InstanceId"]: one for one in group.get("Instances", [])} if group else {}
    kinds: dict[tuple[object, ...], Alike] = defaultdict(list)
    for machine in machines:
        seen = members.get(machine.instance_id or "", {})
        standing = (seen.get("LifecycleState") == "Standby", seen.get("ProtectedFromScaleIn", False))
        kinds[standing + ((machine.image, machine.placement.get(RESERVATION)) if group else ())].append(machine)
    return sorted(kinds.values(), key=len, reverse=True)


def together(looks: Sequence[tuple[Alike, Iterable[Found]]]) -> list[Found]:
    """What the looks found, each thing once, with the nodes that it holds for where it does not for all."""
    told: dict[tuple[GroupFinding, str], tuple[Found, list[str]]] = {}
    for machines, found in looks:
        for one in found:
            told.setdefault((one.finding, one.explanation), (one, []))[1].extend(m.node for m in machines)
    everybody = sum(len(machines) for machines, _ in looks)
    return [
        one.model_copy(update={"explanation": f"{one.explanation} (holds for {some(sorted(names))})"})
        if len(names) < everybody or (one.finding in _OF_ONE_MACHINE and len(names) > 1)
        else one
        for one, names in told.values()
    ]


def of_unlooked(name: str, kinds: Sequence[Alike]) -> Iterator[Finding]:
    """Machines of a group that no look stands for."""
    left = sorted(machine.node for machines in kinds[LOOKS_MAX:] for machine in machines)
    if left:
        yield Finding(
            f"group {name}",
            Level.NOTE,
            f"its machines are of {counted(len(kinds), 'kind')} (image, reservation, standby, protection), and one of "
            f"each of the {LOOKS_MAX} commonest was looked at; not looked at: {some(left)}",
            "whether one of these can be replaced is found out by its incident",
            "have one image and one reservation for all of a group",
        )


def of_types(name: str, machines: Iterable[NodeIdentity], group: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Types of machines that a group has or launches: a replacement has to be of the failed machine's (V2)."""
    mixed = (group or {}).get("MixedInstancesPolicy", {}).get("LaunchTemplate", {}).get("Overrides", [])
    types = {one.instance_type for one in machines} | {str(one.get("InstanceType", "")) for one in mixed}
    types.discard("")
    by_requirements = any("InstanceRequirements" in one for one in mixed)
    if len(types) > 1 or by_requirements:
        yield Finding(
            f"group {name}",
            Level.NOTE,
            f"its machines are of several types: {some(sorted(types))}"
            + (", and whatever else meets its instance requirements" if by_requirements else ""),
            "a replacement of another type than the failed machine's is not taken for proven, and a human is asked",
            "give each type a group of its own",
        )


def of_unjoined(name: str, group: Mapping[str, Any], joined: Iterable[str | None]) -> Iterator[Finding]:
    """Machines of an Auto Scaling group that serve and have no Node. ``joined``: instances that have one."""
    there = set(joined)
    serving = [one["InstanceId"] for one in group.get("Instances", []) if one["LifecycleState"] == "InService"]
    lost = sorted(one for one in serving if one not in there)
    if lost:
        yield Finding(
            f"group {name}",
            Level.NOTE,
            f"{len(lost)} of {counted(len(serving), 'machine')} in service have no Node: {some(lost)}",
            "nobody sees a fault there, and the fleet's budget counts them as lost: other repairs may wait for them",
            "see why they do not join, or whether the group serves another cluster too; new ones need some minutes",
        )


def of_foreign(machines: Iterable[NodeIdentity]) -> Iterator[Finding]:
    """Machines with a group on which somebody else is at work now."""
    busy = sorted(
        f"{one.node} ({'; '.join(one.foreign_owners)})" for one in machines if one.group and one.foreign_owners
    )
    if busy:
        yield Finding(
            "nodes",
            Level.NOTE,
            f"somebody else is at work on {some(busy)}",
            "an incident that begins there meanwhile closes the node to new work and asks a human",
            "nothing, where that ends by itself; else take the node back from it (docs/policy.md)",
        )


def of_clashes(machines: Iterable[NodeIdentity], policy: Policy) -> Iterator[Finding]:
    """Groups of one name that are kept by different keepers: the policy and the budget know groups by name alone."""
    keepers: dict[str, Counter[str]] = defaultdict(Counter)
    acts = set()
    for one in machines:
        if one.group:
            keepers[one.group][_keeper(one)] += 1
            if policy.for_node(one.group, one.nodegroup).mode is Mode.ACT:
                acts.add(one.group)
    for name, found in sorted(keepers.items()):
        if len(found) > 1:
            words = " and ".join(f"{who} ({counted(number, 'node')})" for who, number in sorted(found.items()))
            yield Finding(
                f"group {name}",
                Level.WRONG if name in acts else Level.NOTE,
                f"{words} have this one name",
                "they are one group to the policy and to the fleet's budget: their sizes are added up, and limits, "
                "pauses and failed repairs of the one hold for the other",
                "move the machines of one of them to a group of another name before a policy acts on this one",
            )


def _keeper(machine: NodeIdentity) -> str:
    namespace = machine.claim.partition("/")[0]
    return _KEEPERS.get(machine.kind) or f"an owner of Machines in namespace {namespace}"
