"""What a load does to the stack: which nodes are closed, and what each program needed for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from activities.cluster import PodWatch
from contract.names import INCIDENT_LABEL
from deploy.local.stack import Stack

_NAMES_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Of a watch. Whole Nodes, listed twice a second, would be half of what the machine does (API concepts)."""


def cpu_s() -> dict[str, float]:
    """CPU seconds that each program of the stack, the workers and this process have used."""
    found: dict[str, float] = {}
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used, words = process.cpu_times(), process.cmdline()
            module = words[words.index("-m") + 1].rpartition(".")[2] if "-m" in words else Path(words[0]).name
            name = "this benchmark" if process == this else module
            found[name] = found.get(name, 0.0) + used.user + used.system
    return found


@contextmanager
def closed_nodes(stack: Stack) -> Iterator[set[str]]:
    """The names of the nodes that are quarantined, kept up to date for the length of the block by one watch."""
    closed: set[str] = set()

    def follow(watch: PodWatch) -> None:
        for event in watch:
            (closed.discard if event["type"] == "DELETED" else closed.add)(event["object"]["metadata"]["name"])

    with stack.kubernetes.connected() as api:
        call = api.param_serialize(
            "GET",
            "/api/v1/nodes",
            query_params=[("labelSelector", INCIDENT_LABEL), ("watch", "1")],
            header_params={"Accept": _NAMES_ONLY},
            auth_settings=["BearerToken"],
        )
        watch = PodWatch(api.call_api(*call).response)
        follower = threading.Thread(target=follow, args=(watch,), name="quarantined nodes", daemon=True)
        follower.start()
        try:
            yield closed
        finally:
            watch.stop()
            follower.join()
