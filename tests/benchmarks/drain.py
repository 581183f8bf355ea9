"""Draining a node with a hundred pods, beside ``kubectl drain`` on the same scene in the same run; then many nodes."""

import json
import re
import shutil
import subprocess
import sys
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
from deploy.local.scene import create_daemonset, create_node_group, wait_for
from deploy.local.stack import Stack
from deploy.local.work import SLOW_ANNOTATION
from tests.acting import acting_on
from tests.api_server import served
from tests.benchmarks.figures import ROOT, Figure, at_most

PODS = 100
ENDS_AFTER_S = 3.0
NODES = 50
PODS_OF_MANY = 20


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
        wait_for(lambda: len(self._took) >= PODS, "every pod's end")
        return max(self._took.values())

    def _follow(self) -> None:
        # Plain JSON: the typed client would take a good part of the CPU time that is being measured.
        with self._stack.kubernetes.connected() as api, suppress(Exception):
            core: Any = client.CoreV1Api(api)
            selector = f"bench={self._label}"
            for event in PodWatch(
                core.list_namespaced_pod("default", label_selector=selector, watch=True, _preload_content=False)
            ):
                pod, now = event["object"], time.monotonic()
                uid = pod["metadata"]["uid"]
                if "deletionTimestamp" in pod["metadata"]:
                    self._began.setdefault(uid, now)
                # A finished pod of a Job may stay for its controller's finalizer: it has ended all the same.
                ended = event["type"] == "DELETED" or pod["status"]["phase"] in ("Failed", "Succeeded")
                if ended and uid in self._began:
                    self._took.setdefault(uid, now - self._began[uid])


def measure(stack: Stack, _folder: Path) -> Iterator[Figure]:
    """Drain the same scene twice, and many nodes at once."""
    node = _scene(stack, "bench-drain")
    ends = Terminations(stack, "bench-drain")
    ours_s, ours_calls = _ours(stack, node)
    note = f"{PODS} pods of five kinds; over the slowest one's own end ({ends.slowest_s():.1f} s from its eviction)"
    yield at_most("drain_overhead_s", ours_s - ends.slowest_s(), "s", 1.0, note)
    yield at_most("drain_eviction_calls_per_pod", ours_calls / PODS, "calls", 1.0, note)
    _forget(stack, "bench-drain")
    if kubectl := shutil.which("kubectl"):
        node = _scene(stack, "bench-kubectl")
        ends = Terminations(stack, "bench-kubectl")
        their_s, their_calls = _theirs(stack, node, kubectl)
        overhead = round(their_s - ends.slowest_s(), 3)
        note = f"the same scene; over the slowest one's own end ({ends.slowest_s():.1f} s from its eviction)"
        yield Figure("kubectl_drain_overhead_s", overhead, "s", "for comparison", True, note)
        yield Figure("kubectl_drain_eviction_calls_per_pod", their_calls / PODS, "calls", "for comparison", True, note)
        _forget(stack, "bench-kubectl")
    yield from _fleet(stack)


def _fleet(stack: Stack) -> Iterator[Figure]:
    """Many nodes at once, in a process of its own that has what a worker has."""
    nodes = create_node_group(stack, "bench-fleet", NODES).nodes
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        for node in nodes:
            for number in range(PODS_OF_MANY):
                add_pod_by(core, f"{node.partition('.')[0]}-{number}", node)

        def running() -> int:
            pods = core.list_namespaced_pod("default", label_selector="bench=fleet").items
            return sum(pod.status.phase == "Running" for pod in pods)

        wait_for(lambda: running() == NODES * PODS_OF_MANY, "the pods of the fleet", 180.0)
    before = served(stack)
    command = [sys.executable, "-m", "tests.benchmarks.fleet_drain", str(stack.kubernetes.kubeconfig), *nodes]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found, seen = json.loads(done.stdout), served(stack) - before
    pods = NODES * PODS_OF_MANY
    assert found["evicted"] == pods
    note = f"{NODES} nodes with {PODS_OF_MANY} pods each, {found['took_s']:.1f} s in all"
    yield at_most("drain_fleet_api_calls_per_pod", found["calls"] / pods, "calls", 3.0, note)
    yield at_most("drain_fleet_api_server_p99_s", seen.p99_s(), "s", 1.0, f"{note}; bound of its histogram's bucket")
    yield at_most("drain_fleet_worker_rss_mib", found["rss_mib"], "MiB", 400.0, note)


def add_pod_by(core: Any, name: str, node: str) -> None:
    """A pod of the fleet. (By one client: a thousand would take as many connections.)"""
    core.create_namespaced_pod(
        "default",
        {
            "metadata": {"name": name, "labels": {"bench": "fleet"}},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "main", "image": "local/never-pulled:1"}],
            },
        },
    )


def _scene(stack: Stack, name: str) -> str:
    """A node with a hundred pods of mixed kinds, which all run, and a DaemonSet's."""
    node = create_node_group(stack, name, 2).nodes[0]

    def labels(kind: str) -> dict[str, str]:
        # A label of the kind's own, or one controller adopts another's pods.
        return {"bench": name, "kind": kind}

    def template(kind: str, **spec: Any) -> dict[str, Any]:
        return {
            "metadata": {"labels": labels(kind), "annotations": {SLOW_ANNOTATION: f"{ENDS_AFTER_S:g}s"}},
            "spec": {
                "terminationGracePeriodSeconds": 30,
                # Here and nowhere else: what takes their place waits, and the scene is the same for both.
                "nodeSelector": {"kubernetes.io/hostname": node},
                "containers": [{"name": "main", "image": "local/never-pulled:1"}],
                **spec,
            },
        }

    def controlled(kind: str, replicas: int, **spec: Any) -> dict[str, Any]:
        selector = {"matchLabels": labels(kind)}
        return {
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": selector, "template": template(kind), **spec},
        }

    empty_dir = {"volumes": [{"name": "tmp", "emptyDir": {}}]}
    create_daemonset(stack, f"{name}-agent", group=name)
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        apps: Any = client.AppsV1Api(api)
        batch: Any = client.BatchV1Api(api)
        web = controlled("web", 40, template=template("web", **empty_dir))
        apps.create_namespaced_deployment("default", web)
        parallel = {"serviceName": name, "podManagementPolicy": "Parallel"}
        apps.create_namespaced_stateful_set("default", controlled("db", 10, **parallel))
        job = {
            "parallelism": 30,
            "completions": 30,
            "template": template("job", restartPolicy="Never"),
            # An eviction is no failure: the Job would give up, and delete its pods itself.
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
        }
        batch.create_namespaced_job("default", {"metadata": {"name": name}, "spec": job})
        for number in range(20):
            pod = template("alone")
            pod["metadata"]["name"] = f"{name}-alone-{number}"
            core.create_namespaced_pod("default", pod)

        def running() -> int:
            pods = core.list_namespaced_pod("default", label_selector=f"bench={name}").items
            return sum(pod.status.phase == "Running" for pod in pods)

        wait_for(lambda: running() == PODS, f"{PODS} pods", 60.0)
    return node


def _forget(stack: Stack, name: str) -> None:
    """Take away what would make pods anew for ever."""
    with stack.kubernetes.connected() as api:
        apps: Any = client.AppsV1Api(api)
        batch: Any = client.BatchV1Api(api)
        apps.delete_namespaced_deployment(name, "default")
        apps.delete_namespaced_stateful_set(name, "default")
        apps.delete_namespaced_daemon_set(f"{name}-agent", "default")
        batch.delete_namespaced_job(name, "default", propagation_policy="Background")


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
    command += ["--ignore-daemonsets", "--delete-emptydir-data"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took = time.monotonic() - started
    return took, len(re.findall(r"POST \S+/eviction|verb=\"POST\" url=\"\S+/eviction", done.stderr))
