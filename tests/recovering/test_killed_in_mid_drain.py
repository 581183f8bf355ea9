"""A worker dies in the middle of a drain: nothing is evicted twice, and no clock begins anew (D28)."""

from pathlib import Path
from typing import Any

from kubernetes import client

from contract.names import Outcome
from deploy.local.scene import add_pod, wait_for
from deploy.local.stack import Stack
from deploy.local.work import STUCK_ANNOTATION
from tests.api_server import served
from tests.conftest import MakeNodeGroup
from tests.harness import QUICK_POLICY, connect, report_about, running_worker, send, write_policy

PODS = 5


async def test_d28_worker_killed_in_mid_drain_evicts_nothing_twice_and_restarts_no_clock(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    group = node_group(2)
    node = group.nodes[0]
    for number in range(PODS):
        # Longer than the test takes: nothing ends unless it is let go.
        stuck = {STUCK_ANNOTATION: "yes"}
        add_pod(local_stack, f"p-{number}", node=node, namespace=namespace, grace_s=300, annotations=stuck)
    policy = write_policy(tmp_path / "policy.yaml", **{group.name: {**QUICK_POLICY, "evict_unmanaged_pods": True}})
    temporal = await connect(local_stack)
    with local_stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)

        def pods() -> list[Any]:
            return list(core.list_namespaced_pod(namespace).items)

        wait_for(lambda: all(pod.status.phase == "Running" for pod in pods()), "the pods")
        before = served(local_stack)
        with running_worker(local_stack, policy, tmp_path) as worker:
            handle = await send(temporal, report_about(local_stack, node))
            wait_for(lambda: all(pod.metadata.deletion_timestamp for pod in pods()), "the evictions", 60.0)
            worker.process.kill()
            worker.process.wait()
        clocks = {pod.metadata.uid: pod.metadata.deletion_timestamp for pod in pods()}
        assert len(clocks) == PODS

        with running_worker(local_stack, policy, tmp_path):
            # The drain that goes on sees this one, so it has seen the others too.
            add_pod(local_stack, "late", node=node, namespace=namespace, grace_s=1)
            wait_for(lambda: (served(local_stack) - before).evictions["201"] > PODS, "the drain to go on", 60.0)
            left = {pod.metadata.uid: pod.metadata.deletion_timestamp for pod in pods() if pod.metadata.uid in clocks}
            assert left == clocks
            # The late one ends by itself.
            for pod in [pod for pod in pods() if pod.metadata.uid in clocks]:
                let_go = {"metadata": {"annotations": {STUCK_ANNOTATION: None}}}
                core.patch_namespaced_pod(
                    pod.metadata.name, namespace, let_go, _content_type="application/merge-patch+json"
                )
            report = await handle.result()

    assert report.outcome is Outcome.REPLACED
    assert +(served(local_stack) - before).evictions == {"201": PODS + 1}
