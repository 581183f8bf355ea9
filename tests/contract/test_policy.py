"""The policy: safe by default, strict about what people write, and a drill never goes further than the real thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contract.policy import GroupPolicy, Mode, Policy


def test_nothing_is_touched_by_default() -> None:
    assert Policy().for_node("any", None).mode is Mode.SHADOW
    assert Policy().for_node("any", None).mode_for(drill=True) is Mode.SHADOW


@given(mode=st.sampled_from(Mode), drills=st.sampled_from(Mode))
def test_drill_goes_no_further_than_either_word(mode: Mode, drills: Mode) -> None:
    order = list(Mode)
    policy = GroupPolicy(mode=mode, drills=drills)
    assert order.index(policy.mode_for(drill=True)) == min(order.index(mode), order.index(drills))
    assert policy.mode_for(drill=False) is mode


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"default": {"mode": "destroy"}}, "default.mode"),
        ({"default": {"max_concurent": 2}}, "default.max_concurent"),
        ({"groups": {"trn1": {"max_disrupted_share": 0}}}, "groups.trn1.max_disrupted_share"),
        ({"default": {"deadlines": {"drain": 0}}}, "default.deadlines.drain"),
        ({"default": {"approve_before": ["drain"]}}, "default.approve_before"),
    ],
)
def test_d40_wrong_field_is_named(document: object, field: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Policy.model_validate(document)
    assert field in {".".join(map(str, problem["loc"])) for problem in raised.value.errors()}


def test_version_follows_the_content() -> None:
    one, same, other = Policy(), Policy.model_validate({}), Policy(default=GroupPolicy(mode=Mode.ACT))
    assert one.version == same.version != other.version


def test_group_is_found_by_its_own_name_before_its_node_group() -> None:
    policy = Policy(groups={"asg": GroupPolicy(mode=Mode.ACT), "nodegroup": GroupPolicy(mode=Mode.OBSERVE)})
    assert policy.for_node("asg", "nodegroup").mode is Mode.ACT
    assert policy.for_node("eks-asg-7f", "nodegroup").mode is Mode.OBSERVE
    assert policy.for_node(None, None).mode is Mode.SHADOW
