"""The same scene drained by us and by ``kubectl drain``: what is left, and how many evictions were asked for."""

import re
import shutil
import subprocess
from typing import Any

import pytest
from kubernetes import client

from contract.names import MIRROR_POD_ANNOTATION, NODEGROUP_LABEL
from deploy.local.scene import (
    NodeGroup,
    create_daemonset,
    create_feature_job,
    create_web,
    running_pods,
    wait_for,
)
from deploy.local.work import COMPLETE_ANNOTATION
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.draining.counting import counted_evictions
from tests.draining.scene import drain, pod, unmanaged

EMPTY_DIR = {"volumes": [{"name": "tmp", "emptyDir": {}}]}


def create_stateful_set(acting: Acting, name: str, namespace: str, group: NodeGroup) -> None:
    apps: Any = client.AppsV1Api(acting.core.api_client)
    labels = {"app": name}
    spec = {
        "nodeSelector": {NODEGROUP_LABEL: group.name},
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": "local/never-pulled:1"}],
    }
    apps.create_namespaced_stateful_set(
        namespace,
        {
            "metadata": {"name": name},
            "spec": {
                "replicas": 2,
                "serviceName": name,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
    )


def mixed(acting: Acting, namespace: str, group: NodeGroup, at: str) -> None:
    """One pod or more of each kind on the first node of a group; the second is there for what has to leave."""
    stack, (node, other) = acting.stack, group.nodes
    acting.patch(other, {"spec": {"unschedulable": True}})
    create_web(stack, f"web-{at}", replicas=2, namespace=namespace, group=group.name)
    create_stateful_set(acting, f"db-{at}", namespace, group)
    create_feature_job(stack, f"job-{at}", ranks=2, namespace=namespace, group=group.name)
    create_daemonset(stack, f"agent-{at}", namespace=namespace, group=group.name)
    for app, count in (("web", 2), ("db", 2), ("job", 2), ("agent", 2)):
        wait_for(lambda a=app, n=count: len(running_pods(stack, f"{a}-{at}", namespace)) == n, app)  # type: ignore[misc]
    unmanaged(acting, node, namespace, f"static-{at}", annotations={MIRROR_POD_ANNOTATION: "x"})
    unmanaged(acting, node, namespace, f"done-{at}", annotations={COMPLETE_ANNOTATION: "yes"})
    unmanaged(acting, node, namespace, f"scratch-{at}", spec=EMPTY_DIR)
    unmanaged(acting, node, namespace, f"alone-{at}")
    wait_for(lambda: pod(acting, namespace, f"done-{at}").status.phase == "Succeeded", "done")
    acting.patch(other, {"spec": {"unschedulable": None}})


def left_on(acting: Acting, node: str) -> list[str]:
    """Kinds of the pods on a node, from their names."""
    return sorted(found["metadata"]["name"].partition("-")[0] for found in acting.cluster.pods_on(node))


def kubectl_drain(acting: Acting, node: str) -> list[str]:
    """Drain with kubectl; the pods of whose eviction it asked, one for each call."""
    program = shutil.which("kubectl")
    assert program
    command = [program, "--kubeconfig", str(acting.stack.kubernetes.kubeconfig), "drain", node, "-v=6"]
    flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=True)
    return re.findall(r"POST\S* \S*/pods/([^/]+)/eviction", done.stderr)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_same_pods_leave_as_with_kubectl_for_no_more_evictions_but_finished_ones_are_left_in_peace(
    acting: Acting, node_group: MakeNodeGroup, namespace: str
) -> None:
    ours, theirs = node_group(2), node_group(2)
    mixed(acting, namespace, ours, "a")
    mixed(acting, namespace, theirs, "b")
    before = left_on(acting, ours.nodes[0])
    assert before == left_on(acting, theirs.nodes[0])

    with counted_evictions() as asked:
        done = drain(acting, acting.claim(ours.nodes[0]), evict_unmanaged_pods=True)
    their_calls = kubectl_drain(acting, theirs.nodes[0])

    left = left_on(acting, ours.nodes[0])
    assert left == ["agent", "done", "static"]
    assert left_on(acting, theirs.nodes[0]) == ["agent", "static"]
    # kubectl evicts the finished pod too; whoever looks at its logs would miss it.
    assert done.evicted == len(set(asked.names)) == len(before) - len(left) == len(set(their_calls)) - 1
    # The budget of web lets its second pod go when the first runs elsewhere: who asks before that is refused.
    assert set(done.blocked_by) <= {"web-a"}
    assert len(asked.names) == done.evicted + len(asked.refusals)
