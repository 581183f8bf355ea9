"""The length of an incident's history with one pod on the node and with a hundred: they must be the same."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes import client

from contract.names import Outcome
from deploy.local.scene import add_pod, create_node_group, wait_for
from deploy.local.stack import Stack
from tests.benchmarks.figures import Figure, at_most
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy


def measure(stack: Stack, folder: Path) -> Iterator[Figure]:
    """Play both incidents to their end."""
    events = {}
    for pods in (1, 100):
        group = create_node_group(stack, f"bench-history-{pods}", 2)
        rules = {**QUICK_POLICY, "evict_unmanaged_pods": True}
        policy = write_policy(folder / f"policy-{pods}.yaml", **{group.name: rules})
        name = f"pods-{pods}"
        for number in range(pods):
            add_pod(stack, f"{name}-{number}", node=group.nodes[0], labels={"bench": name})
        wait_for(lambda n=name, p=pods: _running(stack, n) == p, f"{pods} pods", 60.0)  # type: ignore[misc]
        with running_worker(stack, policy, folder):
            events[pods] = asyncio.run(_play(stack, group.nodes[0]))
    yield at_most("history_events_1_pod", events[1], "events", 120)
    yield Figure(
        "history_events_100_pods",
        events[100],
        "events",
        f"equal to 1 pod ({events[1]}) and at most 120",
        events[100] == events[1] and events[100] <= 120,
    )


def _running(stack: Stack, label: str) -> int:
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        pods = core.list_namespaced_pod("default", label_selector=f"bench={label}").items
    return sum(pod.status.phase == "Running" for pod in pods)


async def _play(stack: Stack, node: str) -> int:
    handle = await send(await connect(stack), report_about(stack, node))
    report = await handle.result()
    assert report.outcome is Outcome.REPLACED, report.summary
    return len((await handle.fetch_history()).events)
