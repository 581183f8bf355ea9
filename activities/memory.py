"""The cluster's memory of machines that failed: one ConfigMap, bounded, written conditionally, readable by people.

It outlives incidents, workers, Nodes and Temporal's retention. A machine that comes back is known by instance, host or
serial, and so is what was tried on it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from activities.cluster import Cluster, ConflictError, retry_on_conflict
from activities.gathering import Gathering
from activities.objects import Objects
from contract.memory import FailedMachine, FailedMachines, Failure, TriedRung, TriedRungs
from contract.names import FAILED_MACHINES

KEPT: Final = 500
"""Of the newest: a ConfigMap holds 1 MiB, and one machine some 500 bytes."""
LATELY: Final = timedelta(days=1)
_KEY: Final = "machines.json"
_TRIED_KEY: Final = "tried.json"


class Memory:
    """Reads and writes it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._objects = Objects(cluster)
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        # A hundred machines given up at once are written down together: each on its own they would stand in each
        # other's way, and a mark waits for what is written first.
        self._failed: Gathering[FailedMachine, None] = Gathering(self._write_failed, KEPT)
        self._rungs: Gathering[TriedRung, None] = Gathering(self._write_tried, KEPT)

    def all(self) -> tuple[FailedMachine, ...]:
        """Everything remembered, the oldest first."""
        return _read(self._text(_KEY))

    def tried(self) -> tuple[TriedRung, ...]:
        """What was tried on machines, the oldest first."""
        return _read_tried(self._text(_TRIED_KEY))

    def remember(self, machine: FailedMachine) -> None:
        """Add one; the same failure of the same incident is there once, however often it is tried."""
        self._failed.get(machine)

    def remember_tried(self, rung: TriedRung) -> None:
        """Add one; the same rung on the same machine of an incident of that id is there once, as of the last time."""
        self._rungs.get(rung)

    def _write_failed(self, machines: Sequence[FailedMachine]) -> dict[FailedMachine, None]:
        def added(text: str) -> str:
            known = list(_read(text))
            before = len(known)
            for machine in sorted(machines, key=lambda machine: machine.at):
                if not any(_same(machine, other) for other in known):
                    known.append(machine)
            return text if len(known) == before else _write(known[-KEPT:])

        retry_on_conflict(lambda: self._change(_KEY, added))
        return {}

    def _write_tried(self, rungs: Sequence[TriedRung]) -> dict[TriedRung, None]:
        def added(text: str) -> str:
            newest = {_named(rung): rung for rung in sorted(rungs, key=lambda rung: rung.at)}
            others = [other for other in _read_tried(text) if _named(other) not in newest]
            return TriedRungs(rungs=(*others, *newest.values())[-KEPT:]).model_dump_json(indent=1)

        retry_on_conflict(lambda: self._change(_TRIED_KEY, added))
        return {}

    def _text(self, key: str) -> str:
        found = self._objects.get(f"{self._maps}/{FAILED_MACHINES}")
        return str((found or {}).get("data", {}).get(key, ""))

    def _change(self, key: str, change: Callable[[str], str]) -> None:
        path = f"{self._maps}/{FAILED_MACHINES}"
        found = self._objects.get(path)
        if found is None:
            first = {"metadata": {"name": FAILED_MACHINES}, "data": {key: change("")}}
            if self._objects.create(self._maps, {"apiVersion": "v1", "kind": "ConfigMap", **first}) is None:
                raise ConflictError(FAILED_MACHINES)
            return
        before = found.get("data", {}).get(key, "")
        if (after := change(before)) == before:
            return
        version = found["metadata"]["resourceVersion"]
        self._objects.patch(path, {"metadata": {"resourceVersion": version}, "data": {key: after}})


def failed_repairs(machines: tuple[FailedMachine, ...], group: str, now: datetime) -> int:
    """How many replacements of a group failed within a day (V11). Pure."""
    return sum(m.failure is Failure.NOT_VERIFIED and m.group == group and now - m.at < LATELY for m in machines)


def known_bad(machines: tuple[FailedMachine, ...], keys: set[str]) -> FailedMachine | None:
    """The newest failure of a machine that is known under one of these names; None when it is new here. Pure."""
    return next((m for m in reversed(machines) if any(m.known_as(key) for key in keys if key)), None)


def tried_before(
    rungs: tuple[TriedRung, ...], instance_id: str, host: str, serials: set[str], since: datetime
) -> tuple[str, ...]:
    """Which rungs were tried since then on this instance or device, or on this host. Pure.

    One host carries several machines: where both tell their devices by serial number, those decide and the host does
    not.
    """

    def meant(known: TriedRung) -> bool:
        if instance_id and known.instance_id == instance_id:
            return True
        if serials and known.serials:
            return bool(serials & set(known.serials))
        return bool(host) and known.host == host

    return tuple(dict.fromkeys(known.rung for known in rungs if known.at >= since and meant(known)))


def _same(one: FailedMachine, other: FailedMachine) -> bool:
    return (one.incident, one.failure, one.instance_id, one.node) == (
        other.incident,
        other.failure,
        other.instance_id,
        other.node,
    )


def _named(rung: TriedRung) -> tuple[str, str, str, str]:
    return (rung.incident, rung.rung, rung.node, rung.instance_id)


def _read(text: str) -> tuple[FailedMachine, ...]:
    """What cannot be read, because somebody edited it, is forgotten: it must not stop a repair."""
    try:
        return FailedMachines.model_validate_json(text).machines if text else ()
    except ValidationError:
        return ()


def _read_tried(text: str) -> tuple[TriedRung, ...]:
    """Likewise: then a rung may be tried once more."""
    try:
        return TriedRungs.model_validate_json(text).rungs if text else ()
    except ValidationError:
        return ()


def _write(machines: "tuple[FailedMachine, ...] | list[FailedMachine]") -> str:
    return FailedMachines(machines=tuple(machines)).model_dump_json(indent=1)
