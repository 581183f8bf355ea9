"""Nodemend's own identities on the embedded stack, with the rights they have in earnest.

What runs as a component there runs with that component's service account, its RBAC and its admission policies, so the
demo and the tests show that these suffice. A detector's token is bound to a Pod on its node, as a DaemonSet's is.
"""

from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, utils

from deploy.components import ADMISSION, NAMESPACE, Component
from deploy.local.kubernetes import Kubernetes, write_private
from deploy.local.waiting import wait_for

_DETECTED_LABEL: Final = "nodemend.local/detector"
_TOKEN_S: Final = 24 * 3600
"""Longer than a demo or a run of the tests."""


def install(kubernetes: Kubernetes, rbac: Path) -> None:
    """Create the components' service accounts, their rights and the admission policies.

    Args:
        kubernetes: where.
        rbac: folder of the manifests that say what they may call.
    """
    # Any: the stubs do not know the types of this function.
    create: Any = utils.create_from_dict
    with kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": NAMESPACE}})
        for path in sorted([*rbac.glob("*.yaml"), *ADMISSION.glob("*.yaml")]):
            for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                create(api, manifest)
        apps: Any = client.AppsV1Api(api)
        apps.create_namespaced_daemon_set(NAMESPACE, _daemon_set())


def grant_in(kubernetes: Kubernetes, component: Component, namespace: str) -> None:
    """Let a component do in another namespace what it may do in its own, for one that is to be at home there."""
    with kubernetes.connected() as api:
        rbac: Any = client.RbacAuthorizationV1Api(api)
        for role in rbac.list_namespaced_role(NAMESPACE, field_selector=f"metadata.name={component}").items:
            metadata = {"metadata": {"name": str(component)}}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": str(component)}
            subject = {"kind": "ServiceAccount", "name": str(component), "namespace": NAMESPACE}
            rbac.create_namespaced_role(namespace, {**metadata, "rules": role.rules})
            rbac.create_namespaced_role_binding(namespace, {**metadata, "roleRef": reference, "subjects": [subject]})


def kubeconfig_of(kubernetes: Kubernetes, component: Component, node: str | None = None) -> Path:
    """Write a kubeconfig of a component, on a node: with a token that is bound to a Pod there."""
    path = kubernetes.kubeconfig.with_name(f"kubeconfig-{component}{f'-{node}' if node else ''}")
    config = yaml.safe_load(kubernetes.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(kubernetes, component, node)}
    write_private(path, yaml.safe_dump(config))
    return path


def token_of(kubernetes: Kubernetes, component: Component, node: str | None = None) -> str:
    """A real token of a component's service account; with a node, one that is bound to the detector's Pod there."""
    with kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        spec: dict[str, Any] = {"expirationSeconds": _TOKEN_S, "audiences": []}
        if node:
            core.patch_node(node, {"metadata": {"labels": {_DETECTED_LABEL: "true"}}})
            wait_for(lambda: bool(_pods_on(core, node)), f"the detector's pod on {node}")
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": _pods_on(core, node)[0]}
        answer = core.create_namespaced_service_account_token(component, NAMESPACE, {"spec": spec})
        return str(answer.status.token)


def _pods_on(core: Any, node: str) -> list[str]:
    pods = core.list_namespaced_pod(
        NAMESPACE, label_selector=f"app={Component.DETECTOR}", field_selector=f"spec.nodeName={node}"
    )
    return [pod.metadata.name for pod in pods.items]


def _daemon_set() -> dict[str, Any]:
    """The detector's pods: none but on nodes that are labelled for it, since what runs of it here is a process."""
    labels = {"app": str(Component.DETECTOR)}
    return {
        "metadata": {"name": str(Component.DETECTOR)},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": str(Component.DETECTOR),
                    "nodeSelector": {_DETECTED_LABEL: "true"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "detector", "image": "local/never-pulled:1"}],
                },
            },
        },
    }
