"""The memory of failed machines: bounded, written by many at once without a loss, and not stopped by an editor."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest

from activities import memory as module
from activities.circumstances import CircumstanceReader
from activities.memory import Memory, tried_before
from activities.mend import MendActivity
from activities.node_facts import REMEMBERED
from activities.objects import Objects
from contract.acts import MendMachine
from contract.fault import EvidenceEnd, Verdict
from contract.memory import FailedMachine, Failure, TriedRung
from contract.names import FAILED_MACHINES
from contract.plan import Rung
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import RebootMode, ReplacementPolicy
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.runbook.world import NOW, finding
from workflows.assess import assess


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


def test_machine_is_added_to_those_that_are_remembered_in_nodemends_own_namespace(acting: Acting) -> None:
    """Whichever test comes first has the ConfigMap there made; what is added to it is this one's to show."""
    added = [machine(number, incident=f"remediate-{uuid.uuid4()}") for number in range(2)]
    for one in added:
        acting.memory.remember(one)
    assert [m for m in acting.memory.all() if m in added] == added


def test_hundred_machines_that_fail_at_once_are_written_down_without_standing_in_each_others_way(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each on its own they overwrote each other and were tried again for minutes, with their machines unmarked."""
    changes: list[str] = []
    patch = Objects.patch
    monkeypatch.setattr(Objects, "patch", lambda *given: changes.append("one") or patch(*given))
    together = Barrier(100)

    def fail(number: int) -> None:
        together.wait()
        memory.remember(machine(number))
        memory.remember_tried(tried(node=f"node-{number}"))

    with ThreadPoolExecutor(100) as executor:
        list(executor.map(fail, range(100)))
    assert {m.node for m in memory.all()} == {f"node-{n}" for n in range(100)}
    assert {rung.node for rung in memory.tried()} == {f"node-{n}" for n in range(100)}
    assert len(changes) < 100, "each of 200 writes was a call of its own"


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


# --- what was tried -------------------------------------------------------------------------------------------------


def tried(**changes: Any) -> TriedRung:
    usual = {"at": NOW, "rung": "reboot", "node": "node-1", "instance_id": "i-1", "incident": "remediate-1"}
    return TriedRung(**{**usual, **changes})


def known(*rungs: TriedRung, instance: str = "i-2", host: str = "", serials: set[str] | None = None) -> tuple[str, ...]:
    """What counts for a machine that fails now."""
    return tried_before(rungs, instance, host, serials or set(), NOW - REMEMBERED)


def test_rung_that_was_tried_is_known_by_instance_serial_and_host_within_the_window() -> None:
    """DESIGN §3: a rung that failed is not repeated, though the Node that carried the note is gone."""
    assert known(tried(), instance="i-1") == ("reboot",)
    assert known(tried(serials=("19fc",)), serials={"19fc"}) == ("reboot",)
    assert known(tried(host="h-1"), host="h-1") == ("reboot",)
    assert known(tried(at=NOW - REMEMBERED - timedelta(seconds=1)), instance="i-1") == ()


def test_other_device_on_the_same_host_may_still_be_mended() -> None:
    assert known(tried(host="h-1", serials=("19fc",)), host="h-1", serials={"20aa"}) == ()
    assert known(tried(), instance="") == ()
    assert known(tried(instance_id="", host="", serials=()), instance="") == ()


def test_what_was_tried_and_who_failed_are_remembered_side_by_side(memory: Memory) -> None:
    memory.remember(machine(1))
    for _ in range(2):
        memory.remember_tried(tried())
    memory.remember_tried(tried(rung="reset-device"))
    assert [rung.rung for rung in memory.tried()] == ["reboot", "reset-device"]
    assert [m.node for m in memory.all()] == ["node-1"]


def test_rung_that_failed_in_one_incident_is_climbed_past_in_the_next_on_another_node_of_the_device(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    """The device came back in another machine: its serial number is all that is the same."""
    first, second = node_group(2).nodes
    serial, soon = f"sn-{first}", timedelta(seconds=2)
    acting.stack.fleet.knobs.reboot_delay_s = 3600.0
    policy = Policy(default=GroupPolicy(mode=Mode.ACT, replacement=ReplacementPolicy(reboot=RebootMode.REPAIRABLE)))
    act = MendActivity(acting.cluster, acting.auto_scaling, acting.memory, lambda: policy)
    argument = MendMachine(target=acting.claim(first), serials=(serial,), soak=soon, deadline=soon)
    assert not acting.do(act.reboot_machine, argument).whole

    fault = finding(
        verdict=Verdict.REPAIRABLE,
        evidence_end=EvidenceEnd.BOOT,
        fields={"serial-num": serial},
        signature=f"neuron-repairable/serial-num={serial}",
    )
    reader = CircumstanceReader(acting.auto_scaling.ec2, acting.memory)
    again = acting.target(second).identity
    assert reader.tried(again, (fault,)) == ("reboot",)
    known_now = again.model_copy(update={"tried": reader.tried(again, (fault,))})
    assert assess([fault], again, None, policy.default.replacement).rung is Rung.REBOOT
    assert assess([fault], known_now, None, policy.default.replacement).rung is Rung.REPLACE
