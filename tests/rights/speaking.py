"""Components as the API server sees them: real service account tokens, and what is said to them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client import ApiException

from deploy.components import Component
from deploy.local.rights import kubeconfig_of
from deploy.local.stack import Stack

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Speaker:
    """Somebody's client, with the writes that the tests try."""

    def __init__(self, api: Any, name: str) -> None:
        self.name = name
        self.core: Any = client.CoreV1Api(api)
        self.leases: Any = client.CoordinationV1Api(api)

    def patch(self, node: str, patch: Json) -> None:
        """Merge-patch a Node."""
        self.core.patch_node(node, patch, _content_type=MERGE)

    def patch_status(self, node: str, patch: Json, how: str = STRATEGIC) -> None:
        """Patch a Node through its status, by which metadata can be changed too."""
        self.core.patch_node_status(node, patch, _content_type=how)

    def annotate(self, node: str, **annotations: str | None) -> None:
        """Set or remove annotations; a double underscore stands for what no keyword may have."""
        self.patch(node, {"metadata": {"annotations": annotations}})


@contextmanager
def speaking(stack: Stack, component: Component, node: str | None = None) -> Iterator[Speaker]:
    """A component with a token of its own; with a node, one that is bound to a Pod there."""
    path = kubeconfig_of(stack.kubernetes, component, node)
    api: Any = config.new_client_from_config(config_file=str(path))
    try:
        yield Speaker(api, f"{component} on {node}" if node else str(component))
    finally:
        api.close()


def refusal(policy: str, call: Callable[[], object]) -> str:
    """The sentence with which this very policy refuses a call."""
    with pytest.raises(ApiException) as raised:
        call()
    message = str(json.loads(raised.value.body)["message"])
    assert raised.value.status == 403, message
    assert f"ValidatingAdmissionPolicy '{policy}'" in message, message
    return message.partition("denied request: ")[2]
