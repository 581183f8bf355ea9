"""The memory of failed machines: bounded, written by many at once without a loss, and not stopped by an editor."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from activities import memory as module
from activities.memory import Memory
from activities.objects import Objects
from contract.memory import FailedMachine, Failure
from contract.names import FAILED_MACHINES
from tests.acting import Acting


@pytest.fixture
def memory(acting: Acting, namespace: str) -> Memory:
    return Memory(acting.cluster, namespace)


def machine(number: int, **changes: Any) -> FailedMachine:
    usual = {
        "at": datetime.now(UTC),
        "failure": Failure.GIVEN_UP,
        "node": f"node-{number}",
        "instance_id": f"i-{number:017x}",
        "reason": "HBM",
        "incident": f"remediate-{number}",
    }
    return FailedMachine(**{**usual, **changes})


def test_nothing_is_remembered_at_first(memory: Memory) -> None:
    assert memory.all() == ()


def test_retry_remembers_once(memory: Memory) -> None:
    for _ in range(2):
        memory.remember(machine(1))
    assert [m.node for m in memory.all()] == ["node-1"]


def test_workers_that_write_at_once_lose_nothing(memory: Memory) -> None:
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(lambda number: memory.remember(machine(number)), range(4)))
    assert {m.node for m in memory.all()} == {f"node-{n}" for n in range(4)}


def test_the_oldest_is_forgotten_when_it_is_full(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2)
    for number in range(3):
        memory.remember(machine(number))
    assert [m.node for m in memory.all()] == ["node-1", "node-2"]


def test_what_somebody_broke_by_hand_stops_no_repair(acting: Acting, namespace: str, memory: Memory) -> None:
    broken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FAILED_MACHINES}}
    Objects(acting.admin).create(
        f"/api/v1/namespaces/{namespace}/configmaps", {**broken, "data": {"machines.json": "{"}}
    )
    assert memory.all() == ()
    memory.remember(machine(1))
    assert len(memory.all()) == 1
