"""An incident's history does not grow with the pods on its node: fleets of full nodes are the ordinary case."""

from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from contract.names import Outcome
from deploy.local.scene import NodeGroup, wait_for
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy

DEADLINES = {"settle": "PT0S", "soak": "PT0.5S", "drain": "PT5M", "replacement": "PT5M"}


def add_pods(stack: Stack, namespace: str, group: NodeGroup, count: int) -> None:
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        for number in range(count):
            spec = {
                "nodeName": group.nodes[0],
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "local/never-pulled:1"}],
            }
            core.create_namespaced_pod(namespace, {"metadata": {"name": f"{group.name}-{number}"}, "spec": spec})

        def running() -> int:
            pods = core.list_namespaced_pod(namespace).items
            return sum(pod.metadata.name.startswith(group.name) and pod.status.phase == "Running" for pod in pods)

        wait_for(lambda: running() == count, f"{count} pods", 120.0)


async def events_with(stack: Stack, group: NodeGroup, folder: Path) -> list[str]:
    """The types of the events of one incident, drained and replaced. Those of polling are not of the incident."""
    rules = {**QUICK_POLICY, "evict_unmanaged_pods": True, "deadlines": DEADLINES}
    with running_worker(stack, write_policy(folder / f"{group.name}.yaml", **{group.name: rules}), folder):
        handle = await send(await connect(stack), report_about(stack, group.nodes[0]))
        assert (await handle.result()).outcome is Outcome.REPLACED
        history = await handle.fetch_history()
    return [str(event.event_type) for event in history.events]


@pytest.mark.thorough
@pytest.mark.timeout(600)
async def test_history_is_as_long_with_two_hundred_pods_as_with_one(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    lengths = {}
    for count in (1, 200):
        group = node_group(2)
        add_pods(local_stack, namespace, group, count)
        lengths[count] = len(await events_with(local_stack, group, tmp_path))
    assert lengths[1] == lengths[200]
