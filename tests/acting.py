"""Acts run directly, on the real API server and moto, in an activity environment of their own."""

import dataclasses
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import boto3
import pytest
from kubernetes import client, config
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.auto_scaling import AutoScaling
from activities.cluster import Cluster
from activities.identities import devices
from activities.machines.all import Machines
from activities.memory import Memory
from activities.quarantine import QuarantineActivity
from contract import acts
from contract.identity import Fence, NodeIdentity, Target
from contract.names import INSTANCE_TYPE_LABEL, NODEGROUP_LABEL, ZONE_LABEL
from deploy.components import NAMESPACE, Component
from deploy.local.stack import CLUSTER, Stack
from worker.clients import cluster_by

T = TypeVar("T")


@dataclass
class Acting:
    """Clients as a worker has them, and one incident in whose name acts are run."""

    stack: Stack
    cluster: Cluster
    auto_scaling: AutoScaling
    core: Any
    incident: str = "remediate-local-test"
    run: str = "run-1"
    heartbeats: list[Any] = field(default_factory=list)

    @cached_property
    def records(self) -> Path:
        """Folder for what this incident leaves, which goes with the stack."""
        return Path(tempfile.mkdtemp(prefix="records-", dir=self.stack.state_dir))

    @property
    def admin(self) -> Cluster:
        """The cluster as its administrator sees it, for what others do to it."""
        return Cluster(self.core.api_client)

    @property
    def machines(self) -> Machines:
        """What replaces machines here."""
        return Machines(self.cluster, self.auto_scaling)

    @property
    def memory(self) -> Memory:
        """What is remembered here, in Nodemend's own namespace."""
        return Memory(self.cluster, NAMESPACE)

    def environment(self, *, details: list[Any] | None = None) -> ActivityEnvironment:
        """An environment whose act was scheduled now."""
        made = ActivityEnvironment()
        now = datetime.now(UTC)
        made.info = dataclasses.replace(
            made.info,
            scheduled_time=now,
            current_attempt_scheduled_time=now,
            heartbeat_details=details or [],
        )
        made.on_heartbeat = lambda *args: self.heartbeats.append(args[0]) if args else None
        return made

    def do(self, act: Any, argument: Any) -> Any:
        """Run an act to its end."""
        return self.environment().run(act, argument)

    def target(self, node: str, **changes: Any) -> Target:
        """The node as `identify` freezes it."""
        found = self.cluster.node(node)
        assert found is not None
        labels = found["metadata"]["labels"]
        provider_id = found["spec"].get("providerID", "")
        usual: dict[str, Any] = {
            "cluster": CLUSTER,
            "node": node,
            "node_uid": found["metadata"]["uid"],
            "boot_id": found["status"]["nodeInfo"]["bootID"],
            "provider_id": provider_id,
            "instance_id": provider_id.rpartition("/")[2],
            "group": labels.get(NODEGROUP_LABEL),
            "zone": labels.get(ZONE_LABEL, ""),
            "instance_type": labels.get(INSTANCE_TYPE_LABEL, ""),
            "devices": devices(found),
        }
        return Target(
            identity=NodeIdentity(**{**usual, **changes}), fence=Fence(incident_id=self.incident, run_id=self.run)
        )

    def claim(self, node: str) -> Target:
        """Quarantine a node in this incident's name."""
        target = self.target(node)
        self.do(
            QuarantineActivity(self.cluster).quarantine_node,
            acts.QuarantineNode(target=target, rule="test-rule", reason="TestFault"),
        )
        return target

    def patch(self, node: str, patch: dict[str, Any]) -> None:
        """Change a node as somebody else would."""
        self.core.patch_node(node, patch, _content_type="application/merge-patch+json")


@contextmanager
def acting_on(stack: Stack) -> Iterator[Acting]:
    """Clients of the stack: the acts' with the rights of a worker, the test's own with an administrator's."""
    kubeconfig = stack.environment_of(Component.WORKER)["KUBECONFIG"]
    with (
        stack.kubernetes.connected() as admin,
        closing(config.new_client_from_config(config_file=kubeconfig)) as worker,
        mock.patch.dict(os.environ, stack.aws.environment()),
    ):
        cluster = cluster_by(worker.configuration)
        with closing(cluster.api):
            yield Acting(stack, cluster, AutoScaling(boto3.Session()), client.CoreV1Api(admin))


def refusal(call: Callable[[], object]) -> tuple[str | None, str]:
    """Type and sentence of the error that an act ends with."""
    with pytest.raises(ApplicationError) as raised:
        call()
    return raised.value.type, raised.value.message


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something while an act waits."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()
    assert not failures
