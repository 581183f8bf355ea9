"""Following a launch to its Node: what is waited for is told, no launch is claimed twice, no wait is endless."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from activities.await_replacement import AwaitReplacementActivity
from activities.replace import ReplaceActivity
from contract.acts import AwaitReplacement, GroupSurvey, MarkUnhealthy, Replacement, SurveyGroup
from contract.identity import Target
from contract.names import REPLACES_ANNOTATION, SCALE_DOWN_DISABLED_ANNOTATION, ErrorType
from contract.policy import GroupPolicy, Mode, Policy
from deploy.local.scene import wait_for
from tests.acting import Acting, meanwhile, refusal
from tests.conftest import MakeNodeGroup


def marked(acting: Acting, node: str) -> tuple[Target, GroupSurvey]:
    """A node whose instance its group is about to replace."""
    policy = Policy(default=GroupPolicy(mode=Mode.ACT))
    replace = ReplaceActivity(acting.cluster, acting.auto_scaling, acting.machines, acting.memory, lambda: policy)
    target = acting.claim(node)
    survey = acting.do(replace.survey_group, SurveyGroup(target=target))
    acting.do(replace.mark_instance_unhealthy, MarkUnhealthy(target=target))
    return target, survey


def wait(acting: Acting, target: Target, survey: GroupSurvey, seconds: float = 30.0) -> Replacement:
    argument = AwaitReplacement(target=target, survey=survey, deadline=timedelta(seconds=seconds))
    act = AwaitReplacementActivity(acting.cluster, acting.auto_scaling, acting.machines, acting.records)
    made: Replacement = acting.do(act.await_replacement, argument)
    return made


def test_v1_launch_is_followed_to_its_node_and_claimed(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    found = wait(acting, *marked(acting, group.nodes[0]))
    assert found.instance_id not in group.instance_ids
    node = acting.cluster.node(found.node)
    assert node
    assert node["spec"]["providerID"].endswith(found.instance_id)
    assert node["metadata"]["annotations"][REPLACES_ANNOTATION] == acting.incident
    assert node["metadata"]["annotations"][SCALE_DOWN_DISABLED_ANNOTATION] == "true"


def test_second_try_finds_the_claim_of_the_first(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    target, survey = marked(acting, group.nodes[0])
    assert wait(acting, target, survey) == wait(acting, target, survey)


def test_two_incidents_of_one_group_claim_different_launches(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(3)
    cases: list[Any] = []
    for number, node in enumerate(group.nodes[:2]):
        acting.incident = f"remediate-local-{number}"
        cases.append(marked(acting, node))
    with ThreadPoolExecutor() as executor:
        found = list(executor.map(lambda case: wait(acting, *case), cases))
    assert len({replacement.instance_id for replacement in found}) == 2


def test_v14_group_without_capacity_ends_in_an_error_and_goes_on_when_there_is_some(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.fail_launches = True
    target, survey = marked(acting, group.nodes[0])
    kind, message = refusal(lambda: wait(acting, target, survey, seconds=2))
    assert kind == ErrorType.NO_REPLACEMENT
    assert f"{group.name} to launch an instance" in message
    acting.stack.fleet.knobs.fail_launches = False
    assert wait(acting, target, survey).instance_id


def test_a15_instance_that_never_becomes_a_node_is_named(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.register_nodes = False
    target, survey = marked(acting, group.nodes[0])
    kind, message = refusal(lambda: wait(acting, target, survey, seconds=4))
    assert kind == ErrorType.NO_REPLACEMENT
    assert "the Node of i-" in message


def test_what_is_waited_for_shows_while_it_waits(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.fail_launches = True
    target, survey = marked(acting, group.nodes[0])

    def have_capacity() -> None:
        wait_for(lambda: any("to launch an instance" in str(beat) for beat in acting.heartbeats), "the reason")
        acting.stack.fleet.knobs.fail_launches = False

    with meanwhile(have_capacity):
        assert wait(acting, target, survey)
