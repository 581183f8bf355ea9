"""What each answer to an eviction means (D1, D5 to D10), by the bodies that the API server's code makes."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client import ApiException
from temporalio.exceptions import ApplicationError

from activities.eviction import Refusal, Took, read_answer
from contract.names import ErrorType
from deploy.local.scene import NodeGroup, wait_for
from tests.acting import Acting, refusal
from tests.draining.scene import drain, pod, unmanaged


def answer(status: int, message: str = "", headers: dict[str, str] | None = None, **details: Any) -> ApiException:
    body: Any = {"kind": "Status", "status": "Failure", "message": message, "code": status, "details": details}
    made = ApiException(status=status, reason="R")
    made.body, made.headers = json.dumps(body), headers or {}
    return made


def by_budget(message: str, **more: Any) -> ApiException:
    return answer(429, "Cannot evict pod", causes=[{"reason": "DisruptionBudget", "message": message}], **more)


NEGATIVE = 'poddisruptionbudget.policy "web" is forbidden: pdb disruptions allowed is negative'
TOO_MANY = 'poddisruptionbudget.policy "web" is forbidden: DisruptedPods map too big - too many evictions not confirmed'
WEBHOOK = 'admission webhook "evict.example.com" denied the request: this pod moves first'
POLICY = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: not today"


@pytest.mark.parametrize("status", [404, 409])
def test_d1_d9_d10_gone_is_done_and_a_conflict_is_looked_at_again(status: int) -> None:
    assert read_answer(answer(status), "n/p") is {404: Took.GONE, 409: Took.LOOK_AGAIN}[status]


@pytest.mark.parametrize(
    ("error", "says", "budgets", "least_s"),
    [
        (by_budget("The disruption budget web needs 2 healthy pods and has 2 currently"), "web needs 2", ["web"], 5),
        (
            by_budget("The disruption budget web is still being processed by the server.", retryAfterSeconds=10),
            "still being processed",
            ["web"],
            10,
        ),
        (answer(403, NEGATIVE, kind="poddisruptionbudget", name="web"), "allowed is negative", ["web"], 30),
        (answer(403, TOO_MANY, kind="poddisruptionbudget", name="web"), "too many evictions", ["web"], 30),
    ],
    ids=["no disruption allowed", "not observed yet", "negative", "too many unconfirmed"],
)
def test_d5_d6_budget_that_refuses_is_named_and_waited_for(
    error: ApiException, says: str, budgets: list[str], least_s: float
) -> None:
    told = read_answer(error, "n/p")
    assert isinstance(told, Refusal)
    assert says in told.why
    assert (list(told.budgets), told.overload, told.permanent, told.denied) == (budgets, False, False, False)
    assert told.wait_s >= least_s


@pytest.mark.parametrize(
    ("status", "message"),
    [(429, WEBHOOK), (400, WEBHOOK), (403, WEBHOOK), (422, POLICY), (403, POLICY), (500, WEBHOOK)],
)
def test_admission_that_refuses_one_pod_is_told_and_slows_no_other_drain(status: int, message: str) -> None:
    told = read_answer(answer(status, message), "n/p")
    assert isinstance(told, Refusal)
    assert (told.denied, told.overload, told.permanent, told.budgets) == (True, False, False, {})
    assert message in told.why


@pytest.mark.parametrize("body", ["Too many requests, please try again later.", "", None])
def test_d5_overload_is_told_by_any_other_429_whose_retry_after_is_the_floor(body: str | None) -> None:
    error = answer(429, headers={"Retry-After": "7"})
    error.body = body
    told = read_answer(error, "n/p")
    assert isinstance(told, Refusal)
    assert (told.overload, told.budgets) == (True, {})
    assert told.wait_s >= 7


def test_d7_two_budgets_are_permanent() -> None:
    told = read_answer(answer(500, "This pod has more than one PodDisruptionBudget, which …"), "n/p")
    assert isinstance(told, Refusal)
    assert told.permanent


def test_answer_that_means_nothing_here_is_tried_again() -> None:
    with pytest.raises(ApplicationError) as raised:
        read_answer(answer(418), "n/p")
    assert raised.value.type == ErrorType.UNREACHABLE


@contextmanager
def refusing(acting: Acting, namespace: str, of: str, reason: str) -> Iterator[None]:
    """A policy of somebody else's that lets no pod of the namespace be evicted."""
    admission: Any = client.AdmissionregistrationV1Api(acting.core.api_client)
    name = f"keep-{uuid.uuid4().hex[:8]}"
    evictions = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {
        "matchConstraints": {"resourceRules": [evictions], "namespaceSelector": here},
        "validations": [{"expression": "false", "message": "not today", "reason": reason}],
    }
    admission.create_validating_admission_policy({"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    admission.create_validating_admission_policy_binding({"metadata": {"name": name}, "spec": binding})
    dry_run = {"metadata": {"name": of, "namespace": namespace}, "deleteOptions": {"dryRun": ["All"]}}

    def in_force() -> bool:
        try:
            acting.core.create_namespaced_pod_eviction(of, namespace, dry_run)
        except ApiException as error:
            return "not today" in str(error.body)
        return False

    wait_for(in_force, "the policy to be in force")
    yield
    admission.delete_validating_admission_policy_binding(name)
    admission.delete_validating_admission_policy(name)


@pytest.mark.parametrize("reason", ["Forbidden", "Invalid"])
def test_pod_that_an_admission_policy_keeps_is_explained_and_is_no_missing_right(
    acting: Acting, group: NodeGroup, namespace: str, reason: str
) -> None:
    unmanaged(acting, group.nodes[0], namespace, "kept", grace_s=1)
    target = acting.claim(group.nodes[0])
    with refusing(acting, namespace, "kept", reason):
        soon = timedelta(seconds=2)
        kind, message = refusal(lambda: drain(acting, target, evict_unmanaged_pods=True, deadline=soon))
    assert kind == ErrorType.DRAIN_BLOCKED
    assert f"{namespace}/kept (refused by " in message
    assert "denied request: not today" in message
    assert "see to whoever put it there" in message
    assert pod(acting, namespace, "kept").metadata.deletion_timestamp is None
