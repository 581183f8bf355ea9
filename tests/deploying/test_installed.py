"""The chart on a real API server: admitted, enforced, upgraded, removed; and its programs do their work as it says.

One journey, because the cluster must have nothing of Nodemend before it.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config
from kubernetes.client import ApiException

from contract.incident import IncidentReport
from contract.names import ExitCode, Outcome, incident_id
from deploy.local.build import locate_helm
from deploy.local.machine import MachineShape
from deploy.local.scene import create_node_group, wait_for
from deploy.local.stack import CLUSTER, Stack, running_stack
from tests.conftest import quick_knobs
from tests.deploying.cluster import Kubelet
from tests.deploying.rendering import CHART, Json
from tests.detecting.running import HBM
from tests.harness import QUICK_POLICY, WIDE_BUDGET, connect, http
from tests.operating.command import nodemend
from tests.refusing.test_give_back import as_others_left_it

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

NAMESPACE = "fleet-care"
soon = partial(wait_for, patience_s=120.0)
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
    # The region is the chart's own to tell.
    theirs = ("AWS_REGION", "AWS_DEFAULT_REGION")
    cloud = [{"name": key, "value": value} for key, value in stack.aws.environment().items() if key not in theirs]
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
    group, careful = create_node_group(stack, "trn1", 2), create_node_group(stack, "careful", 1)
    create_node_group(stack, "system", 2, shape=SYSTEM)
    node, instance, waiting = group.nodes[0], group.instance_ids[0], careful.nodes[0]
    before = {name: as_others_left_it(stack, name) for name in (group.nodes[1], waiting)}
    shadow = {"default": {"mode": "shadow", "deadlines": {"settle": "PT0S"}}, "budget": WIDE_BUDGET}
    notes = helm(stack, "install", "nodemend", str(CHART), "--create-namespace", values=values_for(stack, shadow))
    assert "helm uninstall nodemend -n fleet-care" in notes
    # The command line asks the namespace of Temporal's that the workers use.
    assert f"TEMPORAL_NAMESPACE={values_for(stack, shadow)['temporal']['namespace']}" in notes
    assert "nodemend doctor --namespace fleet-care" in notes

    kubelet = Kubelet(stack, NAMESPACE, tmp_path)
    soon(lambda: len(kubelet.pods("worker")) == len(kubelet.pods("watch-cluster")) == 2, "two replicas of each")
    soon(lambda: len(kubelet.pods("detector")) == 3, "a detector on each Neuron node, and on no other")
    detectors = {pod["spec"]["nodeName"]: pod for pod in kubelet.pods("detector")}
    assert set(detectors) == {*group.nodes, waiting}
    pods = [kubelet.pods("worker")[0], kubelet.pods("watch-cluster")[0], detectors[node], detectors[waiting]]
    with ExitStack() as running:
        worker, watch, *_detectors = [running.enter_context(kubelet.running(pod)) for pod in pods]
        soon(lambda: said(worker, "health on"), "the worker to serve")
        health = re.search(r"http://(127\.0\.0\.1:\d+)/healthz", worker.read_text())
        assert health
        soon(lambda: http(f"http://{health[1]}/healthz")[0] == 200, "the worker's readiness")
        assert http(f"http://{health[1]}/livez")[0] == 200
        soon(lambda: said(watch, r"healthz are on"), "watch-cluster to serve")

        kmsg = kubelet.mount(detectors[node])["/dev/kmsg"]
        write_line(kmsg, 1)
        soon(lambda: sent(watch) == 1, "watch-cluster to hand the finding on")
        await outcome_of(stack, node, instance, Outcome.SHADOWED)

        asking = {**QUICK_POLICY, "approve_before": ["disrupt"]}
        acting = {**shadow, "groups": {group.name: QUICK_POLICY, careful.name: asking}}
        helm(stack, "upgrade", "nodemend", str(CHART), values=values_for(stack, acting))
        kubelet.refresh("nodemend-policy", kubelet.mount(pods[0])["/etc/nodemend/policy"])
        write_line(kmsg, 2)
        soon(lambda: sent(watch) == 2, "watch-cluster to hand the second finding on")
        await outcome_of(stack, node, instance, Outcome.REPLACED)
        assert instance in stack.fleet.terminated
        write_line(kubelet.mount(detectors[waiting])["/dev/kmsg"], 3)
        soon(lambda: as_others_left_it(stack, waiting)["unschedulable"], "the other one's quarantine")

        other = group.nodes[1]
        with kube(kubelet, detectors[other]) as core:
            lie = {"status": {"conditions": [{"type": "NeuronHealth", "status": "True", "reason": "x"}]}}
            system_node = kubelet.pods("worker")[0]["spec"]["nodeName"]
            assert "may write its own Node alone" in forbidden(core.patch_node_status, system_node, lie)
            forbidden(core.patch_node, other, {"spec": {"unschedulable": True}})
        with kube(kubelet, pods[0]) as core:
            forbidden(core.list_namespaced_secret, NAMESPACE)
            assert "status" in forbidden(core.patch_node_status, other, lie)

        refused = nodemend("uninstall", **stack.environment())
        assert refused.returncode == ExitCode.FAILED
        assert "Nodemend still runs" in refused.stderr

    helm(stack, "uninstall", "nodemend", "--wait")
    assert left_of_release(stack) == []
    for component in ("worker", "watch-cluster", "detector"):
        soon(lambda of=component: not kubelet.pods(of), f"the pods of {component} to be gone")

    checked = nodemend("uninstall", "--check", **stack.environment())
    assert checked.returncode == ExitCode.FAILED
    kinds = {line.partition(" ")[0] for line in checked.stdout.splitlines()}
    assert kinds == {"Node", "Lease", "ConfigMap", "Schedule", "Workflow"}, checked.stdout
    cleared = nodemend("uninstall", **stack.environment())
    assert cleared.returncode == ExitCode.OK, cleared.stdout + cleared.stderr
    assert (
        f"Node {waiting} is given back as it was. Known against it: rule neuron-memory-uncorrectable" in cleared.stderr
    )
    assert nodemend("uninstall", "--check", **stack.environment()).returncode == ExitCode.OK
    assert {name: as_others_left_it(stack, name) for name in before} == before
    assert everything_of_ours(stack) == []


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


@contextmanager
def kube(kubelet: Kubelet, pod: Json) -> Iterator[Any]:
    """A client with a pod's own token."""
    with config.new_client_from_config(str(kubelet.kubeconfig(pod))) as api:
        yield client.CoreV1Api(api)


def everything_of_ours(stack: Stack) -> list[str]:
    """Whatever bears our name, looked for without the command's own list of it."""
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        leases = client.CoordinationV1Api(api).list_lease_for_all_namespaces().items
        maps = core.list_config_map_for_all_namespaces().items
        found = [f"{item.kind} {item.metadata.name}" for item in [*leases, *maps] if "nodemend" in item.metadata.name]
        for node in core.list_node().items:
            marks = [
                *(node.metadata.annotations or {}),
                *node.metadata.labels,
                *(t.key for t in node.spec.taints or []),
            ]
            conditions = [condition.type for condition in node.status.conditions]
            found += [f"{node.metadata.name}: {mark}" for mark in marks if "nodemend.io/" in mark]
            found += [
                f"{node.metadata.name}: {kind}" for kind in conditions if kind in ("NeuronHealth", "KernelLogHealth")
            ]
    return found


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
