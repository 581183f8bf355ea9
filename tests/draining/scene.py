"""Pods and budgets to drain, and the drain itself as a worker runs it."""

from datetime import timedelta
from typing import Any

from kubernetes import client
from kubernetes.client import ApiException

from activities.drain import DrainActivity
from contract.acts import Drained, DrainNode
from contract.identity import Target
from deploy.local.scene import add_pod, wait_for
from tests.acting import Acting

MERGE = "application/merge-patch+json"


def drain(acting: Acting, target: Target, *, details: list[Any] | None = None, **changes: Any) -> Drained:
    usual: dict[str, Any] = {
        "target": target,
        "evict_unmanaged_pods": False,
        "evict_local_storage_pods": True,
        "deadline": timedelta(seconds=20),
    }
    made: Drained = acting.environment(details=details).run(
        DrainActivity(acting.cluster).drain_node, DrainNode(**{**usual, **changes})
    )
    return made


def pod(acting: Acting, namespace: str, name: str) -> Any:
    try:
        return acting.core.read_namespaced_pod(name, namespace)
    except ApiException as error:
        if error.status == 404:
            return None
        raise


def unmanaged(acting: Acting, node: str, namespace: str, name: str, **more: Any) -> None:
    add_pod(acting.stack, name, node=node, namespace=namespace, **more)
    wait_for(lambda: pod(acting, namespace, name).status.phase in ("Running", "Succeeded"), name)


def budget(acting: Acting, namespace: str, name: str, selector: dict[str, Any], min_available: int = 1) -> None:
    policy: Any = client.PolicyV1Api(acting.core.api_client)
    body = {"metadata": {"name": name}, "spec": {"minAvailable": min_available, "selector": selector}}
    policy.create_namespaced_pod_disruption_budget(namespace, body)
    # Until the disruption controller has seen it, every eviction is refused for another reason.
    wait_for(
        lambda: policy.read_namespaced_pod_disruption_budget(name, namespace).status.expected_pods is not None, name
    )


def says(acting: Acting, words: str) -> None:
    """Wait until the running drain tells it in its heartbeat."""
    wait_for(lambda: any(words in str(beat) for beat in list(acting.heartbeats)), words)


def silence(acting: Acting, node: str) -> None:
    """The node's kubelet says nothing any more."""
    acting.patch(node, {"metadata": {"annotations": {"nodemend.local/unready": "yes"}}})
    acting.core.patch_node_status(
        node,
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        _content_type="application/strategic-merge-patch+json",
    )
