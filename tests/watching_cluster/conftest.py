"""A cluster to watch, with a namespace of its own per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from deploy.local.stack import Stack
from tests.watching_cluster.running import Cluster


@pytest.fixture
def cluster(local_stack: Stack, namespace: str, tmp_path: Path) -> Iterator[Cluster]:
    with local_stack.kubernetes.connected() as api:
        made = Cluster(local_stack, namespace, tmp_path, client.CoreV1Api(api), client.CoordinationV1Api(api))
        yield made
        for replica in made.replicas:
            # Those that a failed test left.
            replica.process.kill()
            replica.process.wait()
