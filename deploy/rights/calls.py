"""Calls of Nodemend's components, as the API server's audit log has them, and what is kept of each.

A test names its objects at random, and they may be anywhere. So of a call is kept what a right can say: the verb, the
resource, and the namespace where that is one of the few in which Nodemend always looks.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from contract.names import FAILED_MACHINES
from deploy.components import NAMESPACE, Component

ANYWHERE: Final = "*"
"""Stands for a namespace that may be any."""
CLUSTER_SCOPE: Final = ""
PLACES: Final = frozenset({NAMESPACE, "default", "kube-node-lease"})
"""Its own; that of Events about Nodes; that of the kubelets' Leases."""
OWN_NAMES: Final = frozenset({*map(str, Component), FAILED_MACHINES})
"""Objects of fixed names: what a component keeps for itself is called as the component is, but for these."""

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class Call:
    """A kind of call, as a rule of RBAC would allow it."""

    component: str
    group: str
    resource: str
    """With its subresource: ``pods/eviction``."""
    verb: str
    namespace: str = CLUSTER_SCOPE
    name: str = ""
    """Only where it is one of ``OWN_NAMES``."""


@dataclass(frozen=True)
class Seen:
    """One call in a log."""

    call: Call
    at: datetime
    allowed: bool
    """Whether RBAC allowed it; what became of it after that is another matter."""


@dataclass(frozen=True)
class Test:
    """When a test ran: what was called meanwhile is its doing."""

    name: str
    began: datetime
    ended: datetime


def read_calls(lines: Iterable[str]) -> list[Seen]:
    """The calls of the components in an audit log (JSON, one event a line), each once."""
    found: dict[str, Seen] = {}
    for line in lines:
        if not line.endswith("\n"):
            # The API server is at it.
            continue
        event = json.loads(line)
        if (seen := _seen(event)) is not None:
            found[event["auditID"]] = seen
    return list(found.values())


def witnesses(calls: Sequence[Seen], tests: Sequence[Test], known: Mapping[Call, str]) -> dict[Call, str]:
    """For each call, a test that makes it: the one that is known, where it still does, else the one that does most."""
    makers: dict[Call, Counter[str]] = {}
    chosen: dict[Call, str] = {}
    ordered = sorted(tests, key=lambda test: test.began)
    for seen in calls:
        maker = next((test.name for test in ordered if test.began <= seen.at < test.ended), None)
        if maker is not None:
            makers.setdefault(seen.call, Counter())[maker] += 1
    for call, counted in sorted(makers.items()):
        most = min(counted, key=lambda name: (-counted[name], name))
        chosen[call] = known[call] if known.get(call) in counted else most
    return chosen


def _seen(event: Json) -> Seen | None:
    users = {component.user: component for component in Component}
    component, reference = users.get(event["user"]["username"]), event.get("objectRef")
    if component is None or reference is None or "impersonatedUser" in event:
        # Not ours, or in another's name, or about no resource: the API's version, say, which everybody may ask for.
        return None
    subresource = reference.get("subresource")
    namespace = _place(reference.get("namespace", CLUSTER_SCOPE))
    name = reference.get("name", "")
    call = Call(
        component=str(component),
        group=reference.get("apiGroup", ""),
        resource=f"{reference['resource']}/{subresource}" if subresource else reference["resource"],
        verb=event["verb"],
        namespace=namespace,
        name=name if name in OWN_NAMES else "",
    )
    return Seen(
        call=call,
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        allowed=event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid",
    )


def _place(namespace: str) -> str:
    if namespace.startswith(f"{NAMESPACE}-"):
        # A test's own installation.
        return NAMESPACE
    return namespace if namespace in PLACES or not namespace else ANYWHERE
