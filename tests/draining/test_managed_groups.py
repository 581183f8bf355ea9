"""EKS acts on a managed node group while a node of it is drained: stated, and obeyed by policy (A19, A23)."""

from collections.abc import Callable
from typing import Any

import pytest

from activities import managed_groups
from activities.allowed import always
from activities.errors import failure
from activities.managed_groups import ManagedGroups
from contract.identity import NodeIdentity
from contract.names import ErrorType
from contract.policy import GroupPolicy, Policy
from contract.replacement import Answer, GroupFinding, ReplacementPolicy
from tests.acting import refusal

IDENTITY = NodeIdentity(cluster="c", node="n", node_uid="u", boot_id="b", group="asg", nodegroup="ng")
REPAIRS = {"nodegroupName": "ng", "status": "ACTIVE", "nodeRepairConfig": {"enabled": True}}
UPDATES = {"nodegroupName": "ng", "status": "UPDATING"}
QUIET = {"nodegroupName": "ng", "status": "ACTIVE", "nodeRepairConfig": {"enabled": False}}


def answering(**answers: Answer) -> Callable[[], Policy]:
    rules = {GroupFinding(key.replace("_", "-")): answer for key, answer in answers.items()}
    policy = Policy(default=GroupPolicy(replacement=ReplacementPolicy(answers=rules)))
    return lambda: policy


@pytest.mark.parametrize(
    ("seen", "policy", "says"),
    [
        (REPAIRS, answering(other_repairer=Answer.ASK), "answers: {other-repairer: go-on}"),
        (UPDATES, Policy, "answers: {nodegroup-updating: go-on}"),
    ],
    ids=["repair", "update"],
)
def test_policy_that_does_not_act_beside_eks_says_how_to_take_over(
    seen: dict[str, Any], policy: Callable[[], Policy], says: str
) -> None:
    beside = ManagedGroups(always, lambda _: seen, policy)
    kind, message = refusal(lambda: beside.allowed(IDENTITY, False))
    assert kind == ErrorType.POLICY_FORBIDS
    assert says in message
    assert "ng" in message


@pytest.mark.parametrize(
    ("seen", "policy"),
    [
        (None, Policy),
        (QUIET, Policy),
        (REPAIRS, Policy),
        (UPDATES, answering(nodegroup_updating=Answer.GO_ON)),
    ],
    ids=["not managed", "quiet", "repair, which asks nobody either", "update waved through"],
)
def test_drain_goes_on_where_eks_does_nothing_or_the_policy_takes_over(
    seen: dict[str, Any] | None, policy: Callable[[], Policy]
) -> None:
    assert ManagedGroups(always, lambda _: seen, policy).allowed(IDENTITY, False) == ""


def test_nobody_is_asked_about_a_node_of_no_managed_group_and_once_a_minute_about_another() -> None:
    asked: list[str] = []
    beside = ManagedGroups(always, asked.append, Policy)  # type: ignore[arg-type, func-returns-value]
    beside.allowed(IDENTITY.model_copy(update={"nodegroup": None}), False)
    assert asked == []
    for _ in range(5):
        beside.allowed(IDENTITY, False)
    assert asked == ["asg"]


@pytest.mark.parametrize("kind", [ErrorType.UNREACHABLE, ErrorType.ACCESS_DENIED])
def test_aws_that_does_not_answer_stops_no_drain_but_a_missing_right_is_told(kind: ErrorType) -> None:
    def describe(_group: str) -> None:
        raise failure(kind, "no answer")

    beside = ManagedGroups(always, describe, Policy)
    if kind is ErrorType.UNREACHABLE:
        assert beside.allowed(IDENTITY, False) == ""
    else:
        assert refusal(lambda: beside.allowed(IDENTITY, False))[0] == kind


def test_what_was_known_is_believed_while_aws_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managed_groups, "_LOOK_EVERY_S", 0.0)
    answers: list[Any] = [REPAIRS]

    def describe(_group: str) -> Any:
        if not answers:
            raise failure(ErrorType.UNREACHABLE, "no answer")
        return answers.pop()

    beside = ManagedGroups(always, describe, answering(other_repairer=Answer.ASK))
    for _ in range(2):
        assert refusal(lambda: beside.allowed(IDENTITY, False))[0] == ErrorType.POLICY_FORBIDS


def test_policy_of_the_group_is_asked_first() -> None:
    def forbidden(_identity: NodeIdentity, _drill: bool) -> str:
        raise failure(ErrorType.POLICY_FORBIDS, "not by policy")

    kind, message = refusal(lambda: ManagedGroups(forbidden, lambda _: QUIET, Policy).allowed(IDENTITY, False))
    assert (kind, message) == (ErrorType.POLICY_FORBIDS, "not by policy")
