"""Label selectors mean here what they mean to the API server."""

from typing import Any

import pytest

from activities.label_selectors import as_text, selects
from deploy.local.scene import add_pod
from tests.acting import Acting

PODS = {
    "web": {"kind": "web", "tier": "front"},
    "db": {"kind": "db", "tier": "back"},
    "bare": {},
}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.stack
def test_d35_same_pods_are_selected_as_by_the_api_server(acting: Acting, namespace: str) -> None:
    for name, labels in PODS.items():
        add_pod(acting.stack, name, namespace=namespace, labels=labels)
    for selector in (
        {},
        {"matchLabels": {"kind": "web"}},
        {"matchLabels": {"kind": "web", "tier": "back"}},
        {"matchExpressions": [expression("kind", "In", "web", "db")]},
        {"matchExpressions": [expression("kind", "NotIn", "web")]},
        {"matchExpressions": [expression("tier", "Exists")]},
        {"matchExpressions": [expression("tier", "DoesNotExist")]},
        {"matchLabels": {"kind": "db"}, "matchExpressions": [expression("tier", "NotIn", "front")]},
    ):
        by_server = {pod["metadata"]["name"] for pod in acting.cluster.pods_in(namespace, as_text(selector))}
        assert by_server == {name for name, labels in PODS.items() if selects(selector, labels)}, selector
