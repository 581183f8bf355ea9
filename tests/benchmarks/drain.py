"""Draining a node with a hundred pods, beside ``kubectl drain`` on the same scene in the same run."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from kubernetes import client

from activities.cluster import Cluster, PodWatch
from activities.drain import DrainActivity
from contract.acts import DrainNode
from deploy.local.scene import add_pod, create_node_group, wait_for
from deploy.local.stack import Stack
from tests.acting import acting_on
from tests.benchmarks.figures import Figure, at_most

PODS = 100
ENDS_AFTER_S = 3.0


class Terminations:
    """How long each pod of a scene took from its eviction to its end, as a watch on the API server sees it."""

    def __init__(self, stack: Stack, label: str) -> None:
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._stack = stack
        self._label = label
        threading.Thread(target=self._follow, daemon=True).start()

    def slowest_s(self) -> float:
        """The longest of them."""
        wait_for(lambda: len(self._took) == PODS, "every pod's end")
        return max(self._took.values())

    def _follow(self) -> None:
        # Plain JSON: the typed client would take a good part of the CPU time that is being measured.
        with self._stack.kubernetes.connected() as api, suppress(Exception):
            core: Any = client.CoreV1Api(api)
            selector = f"bench={self._label}"
            for event in PodWatch(
                core.list_namespaced_pod("default", label_selector=selector, watch=True, _preload_content=False)
            ):
                metadata, now = event["object"]["metadata"], time.monotonic()
                if "deletionTimestamp" in metadata:
                    self._began.setdefault(metadata["uid"], now)
                if event["type"] == "DELETED":
                    self._took[metadata["uid"]] = now - self._began.get(metadata["uid"], now)


def measure(stack: Stack, _folder: Path) -> Iterator[Figure]:
    """Drain the same scene twice."""
    node = _scene(stack, "bench-drain")
    ends = Terminations(stack, "bench-drain")
    ours_s, ours_calls = _ours(stack, node)
    note = f"{PODS} pods; over the slowest one's own end ({ends.slowest_s():.1f} s from its eviction)"
    yield at_most("drain_overhead_s", ours_s - ends.slowest_s(), "s", 1.0, note)
    yield at_most("drain_eviction_calls_per_pod", ours_calls / PODS, "calls", 1.0, note)
    if kubectl := shutil.which("kubectl"):
        node = _scene(stack, "bench-kubectl")
        ends = Terminations(stack, "bench-kubectl")
        their_s, their_calls = _theirs(stack, node, kubectl)
        overhead = round(their_s - ends.slowest_s(), 3)
        note = f"{PODS} pods; over the slowest one's own end ({ends.slowest_s():.1f} s from its eviction)"
        yield Figure("kubectl_drain_overhead_s", overhead, "s", "for comparison", True, note)
        yield Figure("kubectl_drain_eviction_calls_per_pod", their_calls / PODS, "calls", "for comparison", True, note)


def _scene(stack: Stack, name: str) -> str:
    node = create_node_group(stack, name, 2).nodes[0]
    for number in range(PODS):
        add_pod(
            stack,
            f"{name}-{number}",
            node=node,
            labels={"bench": name},
            grace_s=30,
            annotations={"nodemend.local/end-after": f"{ENDS_AFTER_S:g}s"},
        )
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)

        def running() -> int:
            pods = core.list_namespaced_pod("default", label_selector=f"bench={name}").items
            return sum(pod.status.phase == "Running" for pod in pods)

        wait_for(lambda: running() == PODS, f"{PODS} pods", 60.0)
    return node


def _ours(stack: Stack, node: str) -> tuple[float, int]:
    calls = 0
    evict = Cluster.evict

    def counted(self: Cluster, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        evict(self, *arguments)

    with acting_on(stack) as acting, mock.patch.object(Cluster, "evict", counted):
        argument = DrainNode(
            target=acting.claim(node),
            evict_unmanaged_pods=True,
            evict_local_storage_pods=True,
            deadline=timedelta(minutes=2),
        )
        started = time.monotonic()
        done = acting.do(DrainActivity(acting.cluster).drain_node, argument)
        took = time.monotonic() - started
    assert done.evicted == PODS
    return took, calls


def _theirs(stack: Stack, node: str, kubectl: str) -> tuple[float, int]:
    command = [kubectl, "--kubeconfig", str(stack.kubernetes.kubeconfig), "drain", node, "--force", "-v=6"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took = time.monotonic() - started
    return took, len(re.findall(r"POST \S+/eviction|verb=\"POST\" url=\"\S+/eviction", done.stderr))
