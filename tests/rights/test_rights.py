"""The rights that are kept: derived from the recorded calls, sufficient for each, and none too many."""

from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from deploy.components import NAMESPACE, RBAC, Component
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from deploy.rights.__main__ import recorded
from deploy.rights.calls import ANYWHERE, Call
from deploy.rights.derive import ALSO, text
from tests.rights.rbac import Grant, allowing, grants

ROOT = Path(__file__).parents[2]
GRANTS = grants(RBAC)


@pytest.mark.parametrize("component", Component)
def test_what_is_kept_is_what_is_derived(component: Component) -> None:
    kept = (RBAC / component.file_name).read_text(encoding="utf-8")
    assert kept == text(component, recorded()), "Derive it again: make rights"


@pytest.mark.parametrize("grant", GRANTS, ids=str)
def test_every_grant_is_necessary(grant: Grant) -> None:
    """Without it, a call that a named test was seen to make would be refused."""
    others = [other for other in GRANTS if other != grant]
    asked = {call: test for call, test in (recorded() | _asked_besides()).items() if call.component == grant.component}
    needing = {call: test for call, test in asked.items() if not allowing(others, call)}
    assert needing, f"nothing needs {grant}"
    for test in needing.values():
        path, _, name = test.partition("[")[0].partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{test} is no more: make rights"


def _asked_besides() -> dict[Call, str]:
    """What Kubernetes asks RBAC beside the verb that its audit log has."""
    return {
        Call(call.component, call.group, call.resource, ALSO[call.resource, call.verb], call.namespace): test
        for call, test in recorded().items()
        if (call.resource, call.verb) in ALSO
    }


def test_no_component_may_do_what_none_of_them_does() -> None:
    """C15: a detector evicts, cordons and reads no pods; nobody reads Secrets or may do all of anything."""
    of_detector = {(grant.resource, grant.verb) for grant in GRANTS if grant.component == Component.DETECTOR}
    assert not any(resource.startswith("pods") for resource, _ in of_detector)
    assert ("nodes", "patch") not in of_detector
    for grant in GRANTS:
        assert "*" not in (grant.group, grant.resource, grant.verb)
        assert grant.resource not in ("secrets", "serviceaccounts", "serviceaccounts/token", "nodes/proxy")
        assert grant.verb not in ("impersonate", "bind", "escalate", "deletecollection")
        # The kubelets' Leases are out of sight of the admission policies (deploy/admission/detector.yaml).
        assert grant.resource != "leases" or grant.verb in ("get", "list", "watch") or grant.place == NAMESPACE


def test_the_api_server_allows_every_recorded_call(local_stack: Stack) -> None:
    """The evaluation above agrees with the real authorizer, in both directions."""
    with local_stack.kubernetes.connected() as api:
        reviews: Any = client.AuthorizationV1Api(api)

        def allowed(call: Call) -> bool:
            resource, _, subresource = call.resource.partition("/")
            attributes = {
                "verb": call.verb,
                "group": call.group,
                "resource": resource,
                "subresource": subresource,
                "namespace": "somewhere" if call.namespace == ANYWHERE else call.namespace,
                "name": call.name,
            }
            user = f"system:serviceaccount:{NAMESPACE}:{call.component}"
            spec = {"user": user, "resourceAttributes": attributes}
            return bool(reviews.create_subject_access_review({"spec": spec}).status.allowed)

        wait_for(lambda: all(allowed(call) for call in recorded()), "the rights to be in force")
        for call in recorded():
            for component in Component:
                other = Call(component, call.group, call.resource, call.verb, call.namespace, call.name)
                assert allowed(other) == bool(allowing(GRANTS, other)), other
