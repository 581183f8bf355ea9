"""A cluster to watch, with a namespace of its own per test."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from deploy.components import NAMESPACE, Component
from deploy.local.rights import grant_in
from deploy.local.stack import Stack
from tests.watching_cluster.running import Cluster


@pytest.fixture
def own_namespace(local_stack: Stack) -> Iterator[str]:
    """Nodemend's own namespace, another one for each test: what is left in it is not the next one's to find."""
    name = f"{NAMESPACE}-{uuid.uuid4().hex[:8]}"
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": name}})
        grant_in(local_stack.kubernetes, Component.WATCH_CLUSTER, name)
        yield name
        core.delete_namespace(name)


@pytest.fixture
def cluster(local_stack: Stack, own_namespace: str, tmp_path: Path) -> Iterator[Cluster]:
    with local_stack.kubernetes.connected() as api:
        made = Cluster(local_stack, own_namespace, tmp_path, client.CoreV1Api(api), client.CoordinationV1Api(api))
        yield made
        for replica in made.replicas:
            # Those that a failed test left.
            replica.process.kill()
            replica.process.wait()
