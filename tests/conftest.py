"""The embedded stack for every test that asks for it: one per session, and a node group and a namespace per test.

Tests share the cluster and not the work: each makes its own group and namespace, so their order does not matter.
"""

import signal
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, Protocol

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, settings
from kubernetes import client

from deploy.local.fleet import FleetKnobs
from deploy.local.machine import TRN1, MachineShape
from deploy.local.scene import NodeGroup, create_node_group
from deploy.local.stack import Stack, running_stack
from tests import recording
from tests.acting import Acting, acting_on

# No test measures time: a machine that is busy with other things must fail none.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Processes that tests start inherit it: a shell's background job ignores Ctrl-C, and so would they.
signal.signal(signal.SIGINT, signal.default_int_handler)


class MakeNodeGroup(Protocol):
    """What the fixture ``node_group`` is: each call makes a group of its own, whose nodes are Ready."""

    def __call__(self, size: int = 2, shape: MachineShape = TRN1) -> NodeGroup: ...


def quick_knobs() -> FleetKnobs:
    """A cloud that does at once what takes minutes."""
    return FleetKnobs(boot_delay_s=0.3, device_delay_s=0.3, terminate_delay_s=0.1, node_removal_delay_s=0.3)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "local_stack" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.stack)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    with recording.noting(item.nodeid):
        return (yield)


@pytest.fixture(scope="session")
def local_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The running stack. It needs the control plane: ``nodemend local build``."""
    rbac = recording.rights_folder(tmp_path_factory.mktemp("rbac"))
    with running_stack(tmp_path_factory.mktemp("stack"), rbac=rbac) as stack:
        yield stack
        recording.keep_recording(stack.kubernetes.audit_log)
        recording.check_calls(stack.kubernetes.audit_log)
        recording.check_aws_calls(stack.aws.note()["calls"])


@pytest.fixture
def node_group(local_stack: Stack) -> Iterator[MakeNodeGroup]:
    """Makes node groups with names of their own, and removes them. The fleet is quick, and as set up, for each test."""
    made: list[str] = []
    local_stack.fleet.knobs = quick_knobs()

    def make(size: int = 2, shape: MachineShape = TRN1) -> NodeGroup:
        made.append(f"group-{uuid.uuid4().hex[:8]}")
        return create_node_group(local_stack, made[-1], size, shape=shape)

    yield make
    local_stack.fleet.knobs = quick_knobs()
    for name in made:
        # A test may have removed it itself.
        with suppress(ClientError):
            local_stack.fleet.remove_group(name)


@pytest.fixture
def namespace(local_stack: Stack) -> Iterator[str]:
    """A namespace of its own, whose pods are gone at the end, stuck ones too."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": name}})
        yield name
        core.delete_namespace(name)
        core.delete_collection_namespaced_pod(name, grace_period_seconds=0)


@pytest.fixture
def acting(local_stack: Stack) -> Iterator[Acting]:
    """Acts run directly, in the name of an incident of the test."""
    with acting_on(local_stack) as made:
        yield made


@pytest.fixture
def joined(acting: Acting) -> Iterator[list[str]]:
    """Names of Nodes that a test made itself, to be removed."""
    made: list[str] = []
    yield made
    for name in made:
        if node := acting.cluster.node(name):
            acting.admin.delete_node(name, node["metadata"]["uid"])
