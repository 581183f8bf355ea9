"""Nodemend's own identities on the embedded stack, with the rights they have in earnest.

What runs as a component there runs with that component's service account, its RBAC and its admission policies, so the
demo and the tests show that these suffice. A detector's token is bound to a Pod on its node, as a DaemonSet's is.
"""

from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, utils
from kubernetes.client import ApiException

from deploy.components import ADMISSION, NAMESPACE, Component
from deploy.local.kubernetes import Kubernetes, write_private

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


def kubeconfig_of(kubernetes: Kubernetes, component: Component, node: str | None = None) -> Path:
    """Write a kubeconfig of a component, on a node: with a token that is bound to a Pod there."""
    path = kubernetes.kubeconfig.with_name(f"kubeconfig-{component}{f'-{node}' if node else ''}")
    config = yaml.safe_load(kubernetes.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(kubernetes, component, node)}
    write_private(path, yaml.safe_dump(config))
    return path


def token_of(kubernetes: Kubernetes, component: Component, node: str | None = None) -> str:
    """A real token of a component's service account; with a node, one that says so and ends with the Node."""
    with kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        spec: dict[str, Any] = {"expirationSeconds": _TOKEN_S, "audiences": []}
        if node:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": _pod_on(core, component, node)}
        answer = core.create_namespaced_service_account_token(component, NAMESPACE, {"spec": spec})
        return str(answer.status.token)


def _pod_on(core: Any, component: Component, node: str) -> str:
    name = f"{component}-{node}"
    pod = {
        "metadata": {"name": name, "labels": {"app": str(component)}},
        "spec": {
            "nodeName": node,
            "serviceAccountName": str(component),
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "local/never-pulled:1"}],
        },
    }
    try:
        core.create_namespaced_pod(NAMESPACE, pod)
    except ApiException as error:
        # It is there already, from an earlier token.
        if error.status != 409:
            raise
    return name
