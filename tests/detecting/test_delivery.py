"""Delivery on the real parts: Temporal and the API server, each with the other away, and both with detectors killed.

No worker runs here: what a detector sent stands in the history of the incident that it started.
"""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
import yaml
from kubernetes import client

from contract.names import FINDINGS_ANNOTATION, incident_id
from contract.proof import is_proven
from deploy.components import NAMESPACE, Component
from deploy.local.stack import CLUSTER, Stack
from detector.carried import carried_reports
from detector.spool import read_delivered, read_entries
from tests.conftest import MakeNodeGroup
from tests.detecting.running import HBM, Detector, reports_in, wait_until
from tests.operating.proxy import Proxy

INSTANCE = "i-0123456789abcdef0"
NO_KUBERNETES = {"KUBECONFIG": "/nonexistent"}
NO_TEMPORAL = {"TEMPORAL_ADDRESS": "127.0.0.1:1"}


class World:
    """One node of the stack and the detector on it."""

    def __init__(self, stack: Stack, node: dict[str, Any], folder: Path) -> None:
        self.stack = stack
        self.name = str(node["metadata"]["name"])
        self.instance_id = node["spec"]["providerID"].rpartition("/")[2]
        self.detector = Detector(
            folder,
            {
                **stack.environment_of(Component.DETECTOR, self.name),
                "NODE_NAME": self.name,
                "NODEMEND_INSTANCE_ID": self.instance_id,
            },
        )

    @property
    def incident(self) -> str:
        return incident_id(CLUSTER, self.name, self.instance_id)

    async def reports(self, incident: str = "") -> list[Any]:
        temporal = self.stack.temporal
        return await reports_in(temporal.address, temporal.namespace, incident or self.incident)

    def node(self) -> dict[str, Any]:
        with self.stack.kubernetes.connected() as api:
            core: Any = client.CoreV1Api(api)
            found: dict[str, Any] = json.loads(core.read_node(self.name, _preload_content=False).data)
            return found

    def condition(self, kind: str) -> dict[str, Any]:
        return next((c for c in self.node()["status"]["conditions"] if c["type"] == kind), {})

    def events(self) -> list[dict[str, Any]]:
        with self.stack.kubernetes.connected() as api:
            core: Any = client.CoreV1Api(api)
            answer = core.list_namespaced_event(
                "default", field_selector=f"involvedObject.name={self.name}", _preload_content=False
            )
            found: list[dict[str, Any]] = json.loads(answer.data)["items"]
            return [event for event in found if event["source"].get("component") == "nodemend-detector"]

    def delivered(self, temporal: int, node: int) -> None:
        """Wait until the sides have what they are said to have."""
        wanted = {"temporal": temporal, "node": node}
        wait_until(lambda: read_delivered(str(self.detector.spool)) == wanted, f"delivered: {wanted}")


@pytest.fixture
def world(local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path) -> World:
    group = node_group(1)
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        node = json.loads(core.read_node(group.nodes[0], _preload_content=False).data)
    return World(local_stack, node, tmp_path)


async def test_finding_is_one_report_one_condition_and_one_event(world: World) -> None:
    before = {c["type"]: c for c in world.node()["status"]["conditions"]}
    with world.detector.running():
        wait_until(lambda: world.condition("NeuronHealth"))
        assert world.condition("NeuronHealth")["status"] == "False"
        assert world.condition("NeuronHealth")["reason"] == "NeuronHasNoError"
        assert world.condition("KernelLogHealth")["status"] == "False"
        world.detector.write("usb 1-1: new device", HBM.format(device=3), "neuron: nd3: reset")
        world.delivered(temporal=1, node=1)
    (report,) = await world.reports()
    assert (report.node, report.instance_id, report.fields["nd-id"]) == (world.name, world.instance_id, "3")
    assert report.context == ("usb 1-1: new device",)
    assert report.context_after == ("neuron: nd3: reset",)
    assert "machine.uptime_s" in report.fields
    assert not report.drill
    faulty = world.condition("NeuronHealth")
    assert (faulty["status"], faulty["reason"]) == ("True", "NeuronHasError_HBM_UNCORRECTABLE_ERROR")
    # The Node confirms the report, so that `identify` believes it.
    assert is_proven(report, world.node()["metadata"]["annotations"])
    # C1: the conditions of others are as they were.
    after = {c["type"]: c for c in world.node()["status"]["conditions"]}
    assert set(before) <= set(after)
    assert all(after[kind]["lastTransitionTime"] == before[kind]["lastTransitionTime"] for kind in before)
    # C12, C14: the Event is this very Node's, bounded, and names record and boot.
    (event,) = world.events()
    assert event["involvedObject"]["uid"] == world.node()["metadata"]["uid"]
    assert event["reason"] == "NeuronHasError_HBM_UNCORRECTABLE_ERROR"
    assert f"boot {report.boot_id}, record 2" in event["message"]
    assert len(event["message"]) <= 1024


async def test_c4_second_fault_does_not_move_the_transition_and_c7_restart_neither(world: World) -> None:
    with world.detector.running():
        world.detector.write(HBM.format(device=1))
        world.delivered(temporal=1, node=1)
        first = world.condition("NeuronHealth")
        world.detector.write(HBM.format(device=2))
        world.delivered(temporal=2, node=2)
        second = world.condition("NeuronHealth")
    assert first["lastTransitionTime"] == second["lastTransitionTime"]
    heartbeat = second["lastHeartbeatTime"]
    with world.detector.running():
        wait_until(lambda: world.condition("NeuronHealth")["lastHeartbeatTime"] > heartbeat)
        again = world.condition("NeuronHealth")
    assert (again["status"], again["lastTransitionTime"]) == ("True", first["lastTransitionTime"])
    assert len(await world.reports()) == 2
    assert len(world.events()) == 2


async def test_k11_line_of_user_space_starts_a_drill_of_its_own(world: World) -> None:
    with world.detector.running():
        world.detector.write("test NEURON_HW_ERR=DMA_ERROR test", priority=11)
        world.delivered(temporal=1, node=1)
    assert await world.reports() == []
    (report,) = await world.reports(incident_id(CLUSTER, world.name, world.instance_id, drill=True))
    assert report.drill
    (event,) = world.events()
    assert event["message"].startswith("Drill: ")


async def test_node_without_temporal_credentials_carries_its_findings_itself(world: World) -> None:
    """``NODEMEND_DELIVERY=node``: Temporal is not even tried."""
    with world.detector.running(NODEMEND_DELIVERY="node", **NO_TEMPORAL):
        world.detector.write(HBM.format(device=0))
        world.delivered(temporal=1, node=1)
        world.detector.write(HBM.format(device=1))
        world.delivered(temporal=2, node=2)
    carried = world.node()["metadata"]["annotations"]
    reports = carried_reports(carried[FINDINGS_ANNOTATION])
    assert [report.fields["nd-id"] for report in reports] == ["0", "1"]
    assert {report.instance_id for report in reports} == {world.instance_id}
    assert all(is_proven(report, carried) for report in reports)
    assert "Temporal" not in world.detector.log()
    assert await world.reports() == []


@pytest.mark.parametrize("slow", ["temporal", "kubernetes"])
async def test_slow_side_gets_everything_once_and_holds_the_other_up_by_nothing(world: World, slow: str) -> None:
    stack = world.stack
    config = yaml.safe_load(Path(stack.environment_of(Component.DETECTOR, world.name)["KUBECONFIG"]).read_text())
    server = config["clusters"][0]["cluster"]
    address = stack.temporal.address if slow == "temporal" else urlparse(server["server"]).netloc
    with Proxy(address, delay_s=0.5) as slow_way:
        server["server"] = f"https://{slow_way.address}"
        mine = world.detector.folder / "kubeconfig"
        mine.write_text(yaml.safe_dump(config))
        setting = {"TEMPORAL_ADDRESS": slow_way.address} if slow == "temporal" else {"KUBECONFIG": str(mine)}
        with world.detector.running(**setting):
            for device in range(3):
                world.detector.write(HBM.format(device=device))
            world.delivered(temporal=3, node=3)
    assert [report.fields["nd-id"] for report in await world.reports()] == ["0", "1", "2"]
    assert len(world.events()) == 3


async def test_temporal_away_the_node_is_told_and_temporal_gets_all_in_order_later(world: World) -> None:
    with world.detector.running(**NO_TEMPORAL):
        world.detector.write(HBM.format(device=0))
        world.delivered(temporal=0, node=1)
        # The other side goes on with what is new.
        world.detector.write(HBM.format(device=1), HBM.format(device=2))
        world.delivered(temporal=0, node=3)
        wait_until(lambda: "nothing listens there. Check that it runs, and TEMPORAL_ADDRESS" in world.detector.log())
        assert world.detector.get("/healthz")[0] == 200
    assert world.condition("NeuronHealth")["status"] == "True"
    assert await world.reports() == []
    with world.detector.running():
        world.delivered(temporal=3, node=3)
        wait_until(lambda: not read_entries(str(world.detector.spool))[0], "the spool is empty")
    assert [report.fields["nd-id"] for report in await world.reports()] == ["0", "1", "2"]
    assert len(world.events()) == 3


async def test_c13_kubernetes_away_temporal_is_told_and_the_node_later(world: World) -> None:
    with world.detector.running(**NO_KUBERNETES):
        world.detector.write(HBM.format(device=0))
        world.delivered(temporal=1, node=0)
        wait_until(lambda: "set KUBECONFIG" in world.detector.log())
    assert world.condition("NeuronHealth") == {}
    with world.detector.running():
        world.delivered(temporal=1, node=1)
    assert world.condition("NeuronHealth")["status"] == "True"
    assert len(await world.reports()) == 1


async def test_wrong_namespace_is_said_and_the_finding_stays(world: World) -> None:
    with world.detector.running(TEMPORAL_NAMESPACE="nowhere"):
        world.detector.write(HBM.format(device=0))
        wait_until(lambda: "has no namespace 'nowhere': create it or set TEMPORAL_NAMESPACE" in world.detector.log())
        assert len(read_entries(str(world.detector.spool))[0]) == 1
    with world.detector.running():
        world.delivered(temporal=1, node=1)
    assert len(await world.reports()) == 1


async def test_node_that_the_cluster_does_not_know_delays_no_report(world: World) -> None:
    world.name = "node-of-nobody"
    world.detector.environment["NODE_NAME"] = world.name
    with world.detector.running():
        world.detector.write(HBM.format(device=0))
        world.delivered(temporal=1, node=0)
        wait_until(lambda: "There is no Node node-of-nobody in the cluster: check NODE_NAME" in world.detector.log())
    assert len(await world.reports()) == 1


async def test_c16_node_of_another_machine_is_not_written(world: World) -> None:
    world.instance_id = INSTANCE
    world.detector.environment["NODEMEND_INSTANCE_ID"] = INSTANCE
    with world.detector.running():
        world.detector.write(HBM.format(device=0))
        world.delivered(temporal=1, node=0)
        wait_until(lambda: "nothing is written to another's Node" in world.detector.log())
    assert world.condition("NeuronHealth") == {}
    assert world.events() == []
    assert len(await world.reports()) == 1


async def test_instance_id_comes_from_the_node_where_the_machine_does_not_say(world: World) -> None:
    del world.detector.environment["NODEMEND_INSTANCE_ID"]
    with world.detector.running(NODEMEND_INSTANCE_ID=""):
        world.detector.write(HBM.format(device=0))
        world.delivered(temporal=1, node=1)
    (report,) = await world.reports()
    assert report.instance_id == world.instance_id


async def test_damaged_entry_stops_none_of_those_after_it(world: World) -> None:
    with world.detector.running(**NO_TEMPORAL, **NO_KUBERNETES):
        world.detector.write(HBM.format(device=0), HBM.format(device=1))
        wait_until(lambda: len(read_entries(str(world.detector.spool))[0]) == 2)
    spool = world.detector.spool / "spool.jsonl"
    first, second = spool.read_text().splitlines()
    spool.write_text(json.dumps({"id": json.loads(first)["id"], "kind": "finding"}) + "\n" + second + "\n")
    with world.detector.running():
        world.delivered(temporal=2, node=2)
    assert [report.fields["nd-id"] for report in await world.reports()] == ["1"]
    assert "is given up on the temporal side" in world.detector.log()
    assert (world.detector.spool / "rejected.json").exists()


async def test_storm_is_one_report_and_quiet_findings_are_none(world: World) -> None:
    with world.detector.running():
        wait_until(world.detector.answers)
        world.detector.write(*[HBM.format(device=0)] * 5000)
        world.detector.write(*["Memory cgroup out of memory: Killed process 1 (python3) total-vm:1kB"] * 5000)
        wait_until(lambda: world.detector.metric("nodemend_detector_records_read_total") == 10_000)
        world.delivered(temporal=1, node=1)
        text = world.detector.get("/metrics")[1]
        assert 'problem_counter{reason="NeuronHasError_HBM_UNCORRECTABLE_ERROR"} 5000' in text
        assert 'problem_counter{reason="OomKilledInCgroup"} 5000' in text
    assert len(await world.reports()) == 1


async def test_finding_is_delivered_though_the_disk_takes_nothing_and_once_for_all(world: World) -> None:
    with world.detector.running():
        wait_until(world.detector.answers)
        wait_until(lambda: world.condition("KernelLogHealth"))
        (world.detector.spool / "spool.jsonl").mkdir()
        world.detector.write(HBM.format(device=4))
        wait_until(lambda: world.condition("NeuronHealth")["status"] == "True", "the node is told")
        assert world.condition("KernelLogHealth")["reason"] == "DetectorSpoolUnwritable"
        assert world.detector.get("/healthz")[0] == 503
        (report,) = await world.reports()
        assert report.fields["nd-id"] == "4"
        (world.detector.spool / "spool.jsonl").rmdir()
        world.delivered(temporal=1, node=1)
        wait_until(lambda: world.condition("KernelLogHealth")["status"] == "False", "the disk is told to be well")
    assert len(await world.reports()) == 1
    assert len(world.events()) == 1


async def test_heartbeat_renews_a_lease_of_the_node(world: World) -> None:
    with world.detector.running(POD_NAMESPACE=NAMESPACE):
        wait_until(lambda: _lease(world), "there is a Lease")
    lease = _lease(world)
    assert lease["spec"]["holderIdentity"] == world.name
    assert lease["metadata"]["ownerReferences"][0]["uid"] == world.node()["metadata"]["uid"]


def _lease(world: World) -> dict[str, Any]:
    with world.stack.kubernetes.connected() as api:
        coordination: Any = client.CoordinationV1Api(api)
        answer = coordination.list_namespaced_lease(NAMESPACE, _preload_content=False)
        found = {lease["metadata"]["name"]: lease for lease in json.loads(answer.data)["items"]}
        lease: dict[str, Any] = found.get(f"nodemend-detector-{world.name}", {})
        return lease


@pytest.mark.parametrize("seed", range(2))
async def test_killed_at_any_moment_every_finding_arrives_once(world: World, seed: int) -> None:
    """Watch, courier or both are killed at moments that nobody chose; the log goes on meanwhile."""
    chance = random.Random(seed)
    rounds = 6
    for device in range(rounds):
        world.detector.start()
        if chance.random() < 0.5:
            wait_until(world.detector.answers)
        world.detector.write(HBM.format(device=device))
        time.sleep(chance.uniform(0.0, 2.5))
        if chance.random() < 0.5:
            _kill_couriers(world.detector)
            time.sleep(chance.uniform(0.0, 0.3))
        world.detector.end(kill=True)
        if chance.random() < 0.5:
            _kill_couriers(world.detector)
    with world.detector.running():
        wait_until(world.detector.answers)
        wait_until(lambda: world.detector.state().get("seq") == rounds)
        wait_until(lambda: not read_entries(str(world.detector.spool))[0], "the spool is empty")
    reports = await world.reports()
    assert [report.fields["nd-id"] for report in reports] == [str(device) for device in range(rounds)]
    assert len({report.request_id for report in reports}) == rounds
    assert len(world.events()) == rounds


def _kill_couriers(detector: Detector) -> None:
    """Those of this detector alone, found by their folder."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = status.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"detector.courier" in words and str(detector.spool).encode() in words:
            os.kill(int(status.parent.name), signal.SIGKILL)
