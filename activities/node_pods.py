"""The pods of one node as they are now: a list and the watch that follows it.

Looking again and again would cost a list each time and see an end late; the watch costs one call for the whole drain
and sees it at once.
"""

import threading
from types import TracebackType
from typing import Final, Self

from activities.cluster import Cluster, Json, PodWatch

_GONE: Final = "DELETED"
_CHANGED: Final = ("ADDED", "MODIFIED")
_ERROR: Final = "ERROR"


class NodePods:
    """Follows the pods of one node for the length of a ``with`` block."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self._lock = threading.Lock()
        self._pods: dict[str, Json] = {}
        self._changed = threading.Event()
        self._watch: PodWatch | None = None
        self._follower: threading.Thread | None = None

    def __enter__(self) -> Self:
        """List, and begin to follow."""
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Follow no more."""
        if self._watch and self._follower:
            self._watch.stop()
            self._follower.join()

    def now(self) -> list[Json]:
        """The pods, by the newest event. Where the watch has ended they are listed anew: never "none" from an error."""
        self._changed.clear()
        if self._follower is None or not self._follower.is_alive():
            self._begin()
        with self._lock:
            return list(self._pods.values())

    def wait(self, seconds: float) -> None:
        """Wait for a change since ``now``, at most so long."""
        self._changed.wait(seconds)

    def _begin(self) -> None:
        pods, version = self._cluster.pods_and_version(self._node)
        with self._lock:
            self._pods = {pod["metadata"]["uid"]: pod for pod in pods}
        self._watch = self._cluster.watch_pods(self._node, version)
        self._follower = threading.Thread(
            target=self._follow, args=(self._watch,), name=f"pods of {self._node}", daemon=True
        )
        self._follower.start()

    def _follow(self, watch: PodWatch) -> None:
        for event in watch:
            pod, kind = event["object"], event["type"]
            with self._lock:
                if kind in _CHANGED:
                    self._pods[pod["metadata"]["uid"]] = pod
                elif kind == _GONE:
                    self._pods.pop(pod["metadata"]["uid"], None)
                elif kind == _ERROR:
                    # The version is too old (410): only a new list helps.
                    break
                else:
                    continue
            self._changed.set()
        self._changed.set()
