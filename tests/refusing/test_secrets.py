"""No secret leaves a whole incident: not what pods have in their environment, nor what the worker logs in with."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes

from contract.names import Outcome
from deploy.components import Component
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy

PASSWORD = "hunter2-of-the-database"
SECRET_VALUE = "value-of-an-annotation-that-is-nobodys-business"

AWS_SECRET = "key-with-which-the-worker-signs"


def add_pod_with_secrets(stack: Stack, node: str, namespace: str) -> None:
    """A pod as people write them: a password in its environment and on its command line."""
    pod = {
        "metadata": {"name": "careless", "annotations": {"example.com/api-key": SECRET_VALUE}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "args": [f"--password={PASSWORD}"],
                    "env": [{"name": "DATABASE_PASSWORD", "value": PASSWORD}],
                }
            ],
        },
    }
    with stack.kubernetes.connected() as api:
        core: Any = kubernetes.CoreV1Api(api)
        core.create_namespaced_pod(namespace, pod)
        wait_for(lambda: core.read_namespaced_pod("careless", namespace).status.phase == "Running", "the pod")


def credentials(stack: Stack) -> list[str]:
    """What the worker shows to Kubernetes."""
    kubeconfig = Path(stack.environment_of(Component.WORKER)["KUBECONFIG"])
    users = yaml.safe_load(kubeconfig.read_text())["users"]
    return [str(value) for user in users for value in user["user"].values()]


@pytest.mark.timeout(240)
async def test_no_secret_is_in_history_report_record_or_log_of_a_whole_incident(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    group = node_group(2)
    add_pod_with_secrets(local_stack, group.nodes[0], namespace)
    rules = {**QUICK_POLICY, "evict_unmanaged_pods": True}
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: rules})
    more = {"NODEMEND_LOG_LEVEL": "DEBUG", "AWS_SECRET_ACCESS_KEY": AWS_SECRET}
    with running_worker(local_stack, policy, tmp_path, **more) as worker:
        handle = await send(await connect(local_stack), report_about(local_stack, group.nodes[0]))
        report = await handle.result()
        history = await handle.fetch_history()
    assert report.outcome is Outcome.REPLACED, report.summary
    kept = {
        "history": b"".join(event.SerializeToString() for event in history.events),
        "log": worker.text().encode(),
        **{
            str(path): path.read_bytes()
            for path in await asyncio.to_thread(lambda: list((tmp_path / "records").rglob("*")))
            if path.is_file()
        },
    }
    assert b"careless" in kept["history"], "the pod took part"
    secrets = [PASSWORD, SECRET_VALUE, AWS_SECRET, *credentials(local_stack)]
    assert len(secrets) > 3
    leaks = [
        (where, number) for where, text in kept.items() for number, one in enumerate(secrets) if one.encode() in text
    ]
    assert not leaks
