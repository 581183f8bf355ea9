"""Counts the evictions that this process asks a real API server for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from kubernetes.client import ApiException

from activities.cluster import Cluster


@dataclass
class Asked:
    """The calls, in their order."""

    names: list[str] = field(default_factory=list)
    """Of the pods, one for each call."""
    present_at: dict[str, set[str]] = field(default_factory=dict)
    """Which pods were on the node when a pod was asked to leave, by its name."""
    most_at_once: int = 0
    refusals: list[int] = field(default_factory=list)
    """Status codes of the answers that were no success."""


@contextmanager
def counted_evictions() -> Iterator[Asked]:
    """Count for the length of the block. The calls themselves are made as ever."""
    asked, lock, running = Asked(), threading.Lock(), 0
    evict = Cluster.evict

    def counted(self: Cluster, pod: Any, grace_period_s: int | None) -> None:
        nonlocal running
        name = pod["metadata"]["name"]
        there = {one["metadata"]["name"] for one in self.pods_on(pod["spec"]["nodeName"])}
        with lock:
            running += 1
            asked.names.append(name)
            asked.present_at[name] = there
            asked.most_at_once = max(asked.most_at_once, running)
        try:
            evict(self, pod, grace_period_s)
        except ApiException as error:
            asked.refusals.append(error.status)
            raise
        finally:
            with lock:
                running -= 1

    with mock.patch.object(Cluster, "evict", counted):
        yield asked
