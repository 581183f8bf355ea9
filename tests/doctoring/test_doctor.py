"""`nodemend doctor` on a live stack: it finds what was broken, and nothing where nothing is."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.duration_pb2 import Duration
from kubernetes import client
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest

from contract.names import ExitCode
from deploy.local.stack import Stack
from tests.conftest import MakeNodeGroup
from tests.doctoring.examining import examined
from tests.harness import connect

pytestmark = pytest.mark.stack


def test_what_is_broken_is_found_and_what_is_whole_is_not(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(1).name
    policy = tmp_path / "policy.yaml"
    acting = {"mode": "act", "replacement": {"reboot": "repairable"}}
    policy.write_text(yaml.safe_dump({"groups": {group: acting, "no-such-group": {"mode": "act"}}}))
    local_stack.aws.client("autoscaling").suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])

    code, found = examined(local_stack, policy)

    assert code == ExitCode.FAILED
    assert [one["level"] for one in found["Temporal"]] == ["ok"]
    # The rights that the tests run under are those that it looks for.
    assert {one["level"] for about, told in found.items() if about.startswith("rights") for one in told} == {"ok"}
    # No detector runs on this group's node.
    assert "wrong" in {one["level"] for one in found["detectors"]}
    # Whether the workers of other tests have polled lately is not ours to say.
    assert {"workers of nodemend", "workers of nodemend-budget"} <= found.keys()
    assert any(one["level"] == "wrong" and "Launch is suspended" in one["says"] for one in found[f"group {group}"])
    assert any("no-such-group" in one["says"] for one in found["policy"])
    # Moto simulates no roles: what was not looked at is said, and what a dry run can say is.
    unknown, dry_run = found["IAM"]
    assert (unknown["level"], "role cannot be found" in unknown["says"]) == ("note", True)
    assert (dry_run["level"], "(dry run)" in dry_run["says"]) == ("ok", True)


async def test_each_thing_that_is_missing_is_found_by_itself(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    node_group(1)
    bare = f"bare-{uuid.uuid4().hex[:8]}"
    temporal = await connect(local_stack)
    await temporal.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=bare, workflow_execution_retention_period=Duration(seconds=86400))
    )
    rival = {
        "metadata": {"name": bare},
        "spec": {
            "selector": {"matchLabels": {"app": bare}},
            "template": {
                "metadata": {"labels": {"app": bare}},
                "spec": {
                    "nodeSelector": {"no-such-label": "here"},
                    "containers": [
                        {"name": "node-recovery", "image": "x", "env": [{"name": "ENABLE_RECOVERY", "value": "true"}]}
                    ],
                },
            },
        },
    }
    policy = tmp_path / "policy.yaml"
    policy.write_text("{}")
    with local_stack.kubernetes.connected() as api:
        apps: Any = client.AppsV1Api(api)
        apps.create_namespaced_daemon_set("default", rival)
        try:
            # A Kubernetes namespace in which no service account of ours has any right.
            code, found = await asyncio.to_thread(
                examined, local_stack, policy, namespace="default", TEMPORAL_NAMESPACE=bare
            )
        finally:
            apps.delete_namespaced_daemon_set(bare, "default")

    assert code == ExitCode.FAILED
    assert "NeedsHuman" in found["search attributes"][0]["says"]
    for about in (
        "search attributes",
        "workers of nodemend",
        "workers of nodemend-budget",
        "rights of nodemend-worker",
        "rights of nodemend-watch-cluster",
        "rights of nodemend-detector",
        "detectors",
        "other repairers",
    ):
        wrong = [one for one in found[about] if one["level"] == "wrong"]
        assert wrong, about
        assert all(one["means"] and one["mend"] for one in wrong), about


def test_temporal_that_is_away_is_a_finding_and_the_rest_is_looked_at(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    group = node_group(1).name
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"groups": {group: {"mode": "act"}}}))
    code, found = examined(local_stack, policy, TEMPORAL_ADDRESS="127.0.0.1:9")
    assert code == ExitCode.FAILED
    assert "cannot be reached" in found["Temporal"][0]["says"]
    assert found["Temporal"][0]["mend"]
    assert {one["level"] for one in found[f"group {group}"]} <= {"ok", "note"}


def test_aws_that_is_away_is_one_finding_and_a_policy_that_is_none_another(
    local_stack: Stack, node_group: MakeNodeGroup, tmp_path: Path
) -> None:
    node_group(1)
    policy = tmp_path / "policy.yaml"
    policy.write_text("default: {mode: kill}\n")
    code, found = examined(local_stack, policy, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert code == ExitCode.FAILED
    (away,), (broken,) = found["AWS"], found["policy"]
    assert "cannot be reached" in away["says"]
    assert "line 1, default.mode" in broken["says"]
    assert all(one["level"] == "wrong" and one["means"] and one["mend"] for one in (away, broken))
    assert {"Temporal", "detectors", "rights of nodemend-worker"} <= found.keys()


def test_without_a_file_the_policy_is_the_one_that_the_workers_have(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str
) -> None:
    group = node_group(1).name
    labels = {"app": "worker"}
    pods = {
        "containers": [{"name": "worker", "image": "x"}],
        "volumes": [{"name": "policy", "configMap": {"name": "of-their-own"}}],
    }
    worker = {
        "metadata": {"name": "nodemend-worker"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pods},
        },
    }
    held = {"metadata": {"name": "of-their-own"}, "data": {"policy.yaml": f"groups: {{{group}: {{mode: act}}}}"}}
    with local_stack.kubernetes.connected() as api:
        client.CoreV1Api(api).create_namespaced_config_map(namespace, held)
        client.AppsV1Api(api).create_namespaced_deployment(namespace, worker)
        _, found = examined(local_stack, None, namespace=namespace)
        assert [one["says"] for one in found["policy"]] == [f"acts on {group}"]

        held["data"] = {"policy.yaml": "mode: act"}
        client.CoreV1Api(api).replace_namespaced_config_map("of-their-own", namespace, held)
        code, found = examined(local_stack, None, namespace=namespace)
    assert code == ExitCode.FAILED
    assert f"ConfigMap {namespace}/of-their-own is no policy: line 1, mode" in found["policy"][0]["says"]


def test_doctor_says_each_thing_that_whoever_runs_it_may_not_look_at(
    local_stack: Stack, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    group = node_group(1).name
    role = f"looks-at-nodes-{namespace}"
    with local_stack.kubernetes.connected() as api:
        core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
        core.create_namespaced_service_account(namespace, {"metadata": {"name": "nobody"}})
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
        rbac.create_cluster_role({"metadata": {"name": role}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "nobody", "namespace": namespace}
        of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        rbac.create_cluster_role_binding({"metadata": {"name": role}, "roleRef": of, "subjects": [subject]})
        try:
            asked = core.create_namespaced_service_account_token("nobody", namespace, {"spec": {}})
            config = yaml.safe_load(Path(local_stack.environment()["KUBECONFIG"]).read_text())
            config["users"][0]["user"] = {"token": asked.status.token}
            (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
            code, found = examined(local_stack, None, namespace=namespace, KUBECONFIG=str(tmp_path / "kubeconfig"))
        finally:
            rbac.delete_cluster_role_binding(role)
            rbac.delete_cluster_role(role)
    assert code == ExitCode.FAILED
    assert found["cluster"][0]["level"] == "ok"
    refused = [*found["detectors"], *found["other repairers"]]
    assert len(refused) == 3
    for one in [*refused, found["rights of nodemend-detector"][0], found["IAM"][0]]:
        assert "Kubernetes refuses" in one["says"]
        # What an incident's reader would press means nothing here.
        assert "press" not in one["says"]
        assert one["mend"]
    # The group's machines are AWS's to tell of.
    assert f"group {group}" in found
