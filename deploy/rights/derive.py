"""From calls to RBAC: the least that allows them, as manifests that read the same whoever derives them."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from deploy.components import NAMESPACE, Component
from deploy.rights.calls import ANYWHERE, CLUSTER_SCOPE, Call

Json = dict[str, Any]

_API: Final = "rbac.authorization.k8s.io"
ALSO: Final = {("pods/exec", "get"): "create"}
"""``exec`` over a WebSocket is a GET, and asks for ``get``; Kubernetes 1.35 and later ask for ``create`` as well."""
_HEAD: Final = """\
# Written by `python -m deploy.rights` from the calls that the tests were seen to make; do not edit (docs/security.md).
"""


def manifests(component: Component, calls: Iterable[Call]) -> list[Json]:
    """The component's service account, and a role with its binding for each place where it calls something."""
    wanted = {call for call in calls if call.component == component}
    wanted |= {
        Call(call.component, call.group, call.resource, also, call.namespace, call.name)
        for call in wanted
        if (also := ALSO.get((call.resource, call.verb)))
    }
    account = {"kind": "ServiceAccount", "name": str(component), "namespace": NAMESPACE}
    found: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": str(component), "namespace": NAMESPACE},
        }
    ]
    everywhere = {(c.group, c.resource, c.verb) for c in wanted if c.namespace in (ANYWHERE, CLUSTER_SCOPE)}
    for place in (CLUSTER_SCOPE, *sorted({c.namespace for c in wanted} - {ANYWHERE, CLUSTER_SCOPE})):
        if place == CLUSTER_SCOPE:
            here = [c for c in wanted if c.namespace in (ANYWHERE, CLUSTER_SCOPE)]
        else:
            here = [c for c in wanted if c.namespace == place and (c.group, c.resource, c.verb) not in everywhere]
        if here:
            found += _role(str(component), place, list(_rules(here)), account)
    return found


def text(component: Component, calls: Iterable[Call]) -> str:
    """The manifests as a file."""
    documents = yaml.safe_dump_all(
        manifests(component, calls), sort_keys=False, explicit_start=True, width=120, default_flow_style=None
    )
    return _HEAD + documents


def _role(name: str, place: str, rules: list[Json], account: Json) -> list[Json]:
    kind = "Role" if place else "ClusterRole"
    metadata = {"name": name, "namespace": place} if place else {"name": name}
    reference = {"apiGroup": _API, "kind": kind, "name": name}
    head = {"apiVersion": f"{_API}/v1"}
    return [
        {**head, "kind": kind, "metadata": metadata, "rules": rules},
        {**head, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": reference, "subjects": [account]},
    ]


def _rules(calls: Iterable[Call]) -> Iterator[Json]:
    """One rule for each resource, and for each name of an object where only that is called."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for call in calls:
        # A name cannot hold `create`: the object has none yet when RBAC looks. `list` and `watch` ask for all.
        named = call.name if call.verb not in ("create", "list", "watch") else ""
        verbs.setdefault((call.group, call.resource, named), set()).add(call.verb)
    for (group, resource, name), found in sorted(verbs.items()):
        unnamed = verbs.get((group, resource, ""), set()) if name else set()
        if needed := sorted(found - unnamed):
            rule: Json = {"apiGroups": [group], "resources": [resource], "verbs": needed}
            yield {**rule, "resourceNames": [name]} if name else rule
