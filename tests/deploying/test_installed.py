"""The chart on a real API server: admitted, enforced, upgraded, removed; and its programs do their work as it says.

One journey, because the cluster must have nothing of Nodemend before it.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.client import ApiException

from contract.incident import IncidentReport
from contract.names import Outcome, incident_id
from deploy.local.build import locate_helm
from deploy.local.machine import MachineShape
from deploy.local.scene import create_node_group, wait_for
from deploy.local.stack import CLUSTER, Stack, running_stack
from tests.conftest import quick_knobs
from tests.deploying.cluster import Kubelet
from tests.deploying.rendering import CHART, Json
from tests.detecting.running import HBM
from tests.harness import QUICK_POLICY, WIDE_BUDGET, connect, http

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

NAMESPACE = "fleet-care"
SYSTEM = MachineShape(instance_type="m7i.large", device_resource="example.com/none", devices=1)


@pytest.fixture(scope="module")
def empty_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("empty"), rbac=None) as stack:
        stack.fleet.knobs = quick_knobs()
        yield stack


def helm(stack: Stack, *arguments: str, values: Json | None = None) -> str:
    given = ["--values", "-"] if values is not None else []
    done = subprocess.run(
        [str(locate_helm()), *arguments, *given, "--namespace", NAMESPACE],
        input=yaml.safe_dump(values) if values is not None else None,
        env={**os.environ, "KUBECONFIG": str(stack.kubernetes.kubeconfig), "HELM_CACHE_HOME": str(stack.state_dir)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def values_for(stack: Stack, policy: Json) -> Json:
    """What a user gives, with the stack's Temporal and AWS."""
    cloud = [{"name": key, "value": value} for key, value in stack.aws.environment().items() if key != "AWS_REGION"]
    on_system = {"nodeSelector": {"node.kubernetes.io/instance-type": SYSTEM.instance_type}, "extraEnv": cloud}
    return {
        "cluster": CLUSTER,
        "temporal": {"address": stack.temporal.address, "namespace": stack.temporal.namespace},
        "aws": {"region": stack.aws.region},
        "policy": policy,
        "worker": on_system,
        "watchCluster": on_system,
    }


def forbidden(call: Any, *arguments: Any) -> str:
    with pytest.raises(ApiException) as refused:
        call(*arguments)
    assert refused.value.status == 403
    return str(refused.value.body)


async def outcome_of(stack: Stack, node: str, instance: str, outcome: Outcome) -> IncidentReport:
    """The report of the node's incident once it has ended so."""
    handle = (await connect(stack)).get_workflow_handle(
        incident_id(CLUSTER, node, instance), result_type=IncidentReport
    )
    report: IncidentReport = await handle.result()
    assert report.outcome is outcome, report
    return report


def write_line(kmsg: Path, number: int) -> None:
    """As the kernel writes it: each fault on another device."""
    with kmsg.open("a") as handle:
        handle.write(f"3,{number},{number},-;{HBM.format(device=number)}\n")


def said(log: Path, text: str) -> bool:
    return re.search(text, log.read_text(errors="replace")) is not None


async def test_chart_is_installed_works_and_is_removed(empty_cluster: Stack, tmp_path: Path) -> None:
    stack = empty_cluster
    group, _ = create_node_group(stack, "trn1", 2), create_node_group(stack, "system", 2, shape=SYSTEM)
    node, instance = group.nodes[0], group.instance_ids[0]
    shadow = {"default": {"mode": "shadow", "deadlines": {"settle": "PT0S"}}, "budget": WIDE_BUDGET}
    notes = helm(stack, "install", "nodemend", str(CHART), "--create-namespace", values=values_for(stack, shadow))
    assert "Before `helm uninstall nodemend`" in notes

    kubelet = Kubelet(stack, NAMESPACE, tmp_path)
    wait_for(lambda: len(kubelet.pods("worker")) == len(kubelet.pods("watch-cluster")) == 2, "two replicas of each")
    wait_for(lambda: len(kubelet.pods("detector")) == 2, "a detector on each Neuron node, and on no other")
    detectors = {pod["spec"]["nodeName"]: pod for pod in kubelet.pods("detector")}
    assert set(detectors) == set(group.nodes)
    pods = [kubelet.pods("worker")[0], kubelet.pods("watch-cluster")[0], detectors[node]]
    with ExitStack() as running:
        worker, watch, _detector = [running.enter_context(kubelet.running(pod)) for pod in pods]
        wait_for(lambda: said(worker, "health on"), "the worker to serve")
        health = re.search(r"http://(127\.0\.0\.1:\d+)/healthz", worker.read_text())
        assert health
        wait_for(lambda: http(f"http://{health[1]}/healthz")[0] == 200, "the worker's readiness")
        assert http(f"http://{health[1]}/livez")[0] == 200
        wait_for(lambda: said(watch, r"healthz are on"), "watch-cluster to serve")

        kmsg = kubelet.mount(detectors[node])["/dev/kmsg"]
        write_line(kmsg, 1)
        wait_for(lambda: sent(watch) == 1, "watch-cluster to hand the finding on")
        await outcome_of(stack, node, instance, Outcome.SHADOWED)

        acting = {**shadow, "groups": {group.name: QUICK_POLICY}}
        helm(stack, "upgrade", "nodemend", str(CHART), values=values_for(stack, acting))
        kubelet.refresh("nodemend-policy", kubelet.mount(pods[0])["/etc/nodemend/policy"])
        write_line(kmsg, 2)
        wait_for(lambda: sent(watch) == 2, "watch-cluster to hand the second finding on")
        await outcome_of(stack, node, instance, Outcome.REPLACED)
        assert instance in stack.fleet.terminated

        other = group.nodes[1]
        with kube(kubelet, detectors[other]) as core:
            lie = {"status": {"conditions": [{"type": "NeuronHealth", "status": "True", "reason": "x"}]}}
            system_node = kubelet.pods("worker")[0]["spec"]["nodeName"]
            assert "may write its own Node alone" in forbidden(core.patch_node_status, system_node, lie)
            forbidden(core.patch_node, other, {"spec": {"unschedulable": True}})
        with kube(kubelet, pods[0]) as core:
            forbidden(core.list_namespaced_secret, NAMESPACE)
            assert "status" in forbidden(core.patch_node_status, other, lie)

    helm(stack, "uninstall", "nodemend", "--wait")
    assert left_of_release(stack) == []


def sent(log: Path) -> int:
    """How many reports watch-cluster has handed on."""
    found = re.search(r"healthz are on 127\.0\.0\.1:(\d+)", log.read_text())
    assert found
    metrics = http(f"http://127.0.0.1:{found[1]}/metrics")[1]
    return round(
        sum(
            float(line.rpartition(" ")[2])
            for line in metrics.splitlines()
            if line.startswith("nodemend_watch_reports_sent")
        )
    )


def kube(kubelet: Kubelet, pod: Json) -> Any:
    """A client with a pod's own token."""
    from contextlib import contextmanager

    from kubernetes import config

    @contextmanager
    def connected() -> Iterator[Any]:
        with config.new_client_from_config(str(kubelet.kubeconfig(pod))) as api:
            yield client.CoreV1Api(api)

    return connected()


def left_of_release(stack: Stack) -> list[str]:
    """Objects that the release made and that are still there, those being deleted too."""
    found: list[str] = []
    selector = "app.kubernetes.io/instance=nodemend"
    with stack.kubernetes.connected() as api:
        apps: Any = client.AppsV1Api(api)
        core: Any = client.CoreV1Api(api)
        rbac: Any = client.RbacAuthorizationV1Api(api)
        admission: Any = client.AdmissionregistrationV1Api(api)
        for listing in (
            apps.list_deployment_for_all_namespaces,
            apps.list_daemon_set_for_all_namespaces,
            core.list_config_map_for_all_namespaces,
            core.list_service_account_for_all_namespaces,
            client.PolicyV1Api(api).list_pod_disruption_budget_for_all_namespaces,
            client.NetworkingV1Api(api).list_network_policy_for_all_namespaces,
            rbac.list_cluster_role,
            rbac.list_cluster_role_binding,
            rbac.list_role_for_all_namespaces,
            rbac.list_role_binding_for_all_namespaces,
            admission.list_validating_admission_policy,
            admission.list_validating_admission_policy_binding,
        ):
            found += [f"{listing.__name__}: {item.metadata.name}" for item in listing(label_selector=selector).items]
    return found
