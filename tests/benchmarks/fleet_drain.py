"""Drains many nodes at once in one process, as one worker does, and says as JSON what it took.

``python -m tests.benchmarks.fleet_drain KUBECONFIG NODE…``
"""

import itertools
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest import mock

import psutil
from kubernetes import config
from kubernetes.client.rest import RESTClientObject

from activities.drain import DrainActivity
from contract.acts import Drained, DrainNode
from contract.identity import Target
from tests.acting import Acting
from worker.clients import ACTS_AT_ONCE, cluster_by
from worker.main import make_worker

assert make_worker, "a worker's modules, so that its memory is that of a worker"


class Peak:
    """The most memory that this process held, looked at ten times a second."""

    def __init__(self) -> None:
        self.bytes = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        process = psutil.Process()
        while True:
            self.bytes = max(self.bytes, process.memory_info().rss)
            time.sleep(0.1)


def main(kubeconfig: str, *nodes: str) -> None:
    """Claim the nodes, drain them all at once, print the figures."""
    api: Any = config.new_client_from_config(config_file=kubeconfig)
    cluster = cluster_by(api.configuration)
    acting = Acting(stack=None, cluster=cluster, auto_scaling=None, core=None)  # type: ignore[arg-type]
    targets = [acting.claim(node) for node in nodes]
    act, calls, peak = DrainActivity(cluster), itertools.count(), Peak()
    request = RESTClientObject.request

    def counted(self: Any, *arguments: Any, **more: Any) -> Any:
        next(calls)
        return request(self, *arguments, **more)

    def drain(target: Target) -> Drained:
        argument = DrainNode(
            target=target,
            evict_unmanaged_pods=True,
            evict_local_storage_pods=True,
            deadline=timedelta(minutes=5),
        )
        made: Drained = acting.environment().run(act.drain_node, argument)
        return made

    with mock.patch.object(RESTClientObject, "request", counted), ThreadPoolExecutor(ACTS_AT_ONCE) as drains:
        started = time.monotonic()
        done = list(drains.map(drain, targets))
        took_s = time.monotonic() - started
    figures = {
        "took_s": took_s,
        "evicted": sum(one.evicted for one in done),
        "calls": next(calls),
        "rss_mib": peak.bytes / 1024**2,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
