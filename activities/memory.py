"""The cluster's memory of machines that failed: one ConfigMap, bounded, written conditionally, readable by people.

It outlives incidents, workers and Temporal's retention. A machine that comes back is known by instance, host or serial.
"""

from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from activities.cluster import Cluster, ConflictError, retry_on_conflict
from activities.objects import Objects
from contract.memory import FailedMachine, FailedMachines, Failure
from contract.names import FAILED_MACHINES

KEPT: Final = 500
"""Of the newest: a ConfigMap holds 1 MiB, and one machine some 500 bytes."""
LATELY: Final = timedelta(days=1)
_KEY: Final = "machines.json"


class Memory:
    """Reads and writes it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._objects = Objects(cluster)
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"

    def all(self) -> tuple[FailedMachine, ...]:
        """Everything remembered, the oldest first."""
        found = self._objects.get(f"{self._maps}/{FAILED_MACHINES}")
        return _read((found or {}).get("data", {}).get(_KEY, ""))

    def remember(self, machine: FailedMachine) -> None:
        """Add one; the same failure of the same incident is there once, however often it is tried."""
        retry_on_conflict(lambda: self._add(machine))

    def _add(self, machine: FailedMachine) -> None:
        path = f"{self._maps}/{FAILED_MACHINES}"
        found = self._objects.get(path)
        if found is None:
            first = {"metadata": {"name": FAILED_MACHINES}, "data": {_KEY: _write((machine,))}}
            if self._objects.create(self._maps, {"apiVersion": "v1", "kind": "ConfigMap", **first}) is None:
                raise ConflictError(FAILED_MACHINES)
            return
        known = _read(found.get("data", {}).get(_KEY, ""))
        if any(_same(machine, other) for other in known):
            return
        version = found["metadata"]["resourceVersion"]
        kept = [*known, machine][-KEPT:]
        self._objects.patch(path, {"metadata": {"resourceVersion": version}, "data": {_KEY: _write(kept)}})


def failed_repairs(machines: tuple[FailedMachine, ...], group: str, now: datetime) -> int:
    """How many replacements of a group failed within a day (V11). Pure."""
    return sum(m.failure is Failure.NOT_VERIFIED and m.group == group and now - m.at < LATELY for m in machines)


def known_bad(machines: tuple[FailedMachine, ...], keys: set[str]) -> FailedMachine | None:
    """The newest failure of a machine that is known under one of these names; None when it is new here. Pure."""
    return next((m for m in reversed(machines) if any(m.known_as(key) for key in keys if key)), None)


def _same(one: FailedMachine, other: FailedMachine) -> bool:
    return (one.incident, one.failure, one.instance_id, one.node) == (
        other.incident,
        other.failure,
        other.instance_id,
        other.node,
    )


def _read(text: str) -> tuple[FailedMachine, ...]:
    """What cannot be read, because somebody edited it, is forgotten: it must not stop a repair."""
    try:
        return FailedMachines.model_validate_json(text).machines if text else ()
    except ValidationError:
        return ()


def _write(machines: "tuple[FailedMachine, ...] | list[FailedMachine]") -> str:
    return FailedMachines(machines=tuple(machines)).model_dump_json(indent=1)
