"""Following a launch to its Node: what is waited for is told, no launch is claimed twice, no wait is endless."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from activities.await_replacement import AwaitReplacementActivity
from activities.replace import ReplaceActivity
from contract.acts import AwaitReplacement, GroupSurvey, MarkUnhealthy, Replacement, SurveyGroup
from contract.identity import Target
from contract.names import (
    NODEGROUP_LABEL,
    REPLACES_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    STARTUP_TAINT,
    ErrorType,
)
from contract.policy import GroupPolicy, Mode, Policy
from contract.replacement import StartupTaint
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


def test_a10_launch_for_a_larger_group_is_not_taken_for_the_replacement(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.terminate_delay_s = 3600.0
    target, survey = marked(acting, group.nodes[0])
    before = set(acting.stack.fleet.launched)

    def new() -> list[str]:
        return [i for i in acting.stack.fleet.launched if i not in before]

    def grow() -> None:
        acting.stack.aws.client("autoscaling").set_desired_capacity(AutoScalingGroupName=group.name, DesiredCapacity=3)
        joined = acting.cluster.nodes
        wait_for(lambda: bool(new()) and any(new()[0] in n["spec"]["providerID"] for n in joined()), "the larger group")
        seen = len(acting.heartbeats)
        wait_for(lambda: len(acting.heartbeats) > seen + 1, "a look at it")
        acting.stack.fleet.knobs.terminate_delay_s = 0.0

    with meanwhile(grow):
        found = wait(acting, target, survey, seconds=60)
    assert found.instance_id == new()[1]


@pytest.mark.parametrize(
    ("message", "says"),
    [("VcpuLimitExceeded", "quota"), ("The image id '[ami-1]' does not exist.", "machine image")],
)
def test_a10_launch_that_can_never_work_is_told_at_once(
    acting: Acting, node_group: MakeNodeGroup, message: str, says: str
) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.launch_failure = message
    acting.stack.fleet.knobs.fail_launches = True
    target, survey = marked(acting, group.nodes[0])
    kind, told = refusal(lambda: wait(acting, target, survey, seconds=3600))
    assert kind == ErrorType.NO_REPLACEMENT
    assert says in told
    assert message in told


def test_a15_console_of_a_machine_that_never_joins_is_kept(acting: Acting, node_group: MakeNodeGroup) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.register_nodes = False
    target, survey = marked(acting, group.nodes[0])
    _, told = refusal(lambda: wait(acting, target, survey, seconds=4))
    (kept,) = acting.records.rglob("evidence/i-*.txt")
    assert kept.name in told
    assert "is running" in told


def test_replacement_of_the_same_zone_is_claimed_by_each_of_two_incidents(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    """V2: the group launches for both; taking the other's zone would leave two replacements that cannot be proven."""
    group = node_group(2)
    cases = []
    for number, node in enumerate(group.nodes):
        acting.incident = f"remediate-local-zone-{number}"
        cases.append(marked(acting, node))
    with ThreadPoolExecutor() as executor:
        found = list(executor.map(lambda case: wait(acting, *case), cases))
    assert [replacement.zone for replacement in found] == [target.identity.zone for target, _ in cases]


def test_v6_node_is_closed_at_the_claim_where_the_launch_template_does_not(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    group = node_group(2)
    acting.stack.fleet.knobs.taint_at_registration = False
    target, survey = marked(acting, group.nodes[0])
    argument = AwaitReplacement(
        target=target, survey=survey, deadline=timedelta(seconds=30), startup_taint=StartupTaint.NODEMEND
    )
    act = AwaitReplacementActivity(acting.cluster, acting.auto_scaling, acting.machines, acting.records)
    found = acting.do(act.await_replacement, argument)
    node = acting.cluster.node(found.node)
    assert node
    assert STARTUP_TAINT in {taint["key"] for taint in node["spec"]["taints"]}


def test_v6_capacity_that_is_no_replacement_is_open_while_nodemend_is_down(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    """The contract of ``startup_taint: nodemend``: an outage of Nodemend, or a scale-up, never holds capacity up."""
    group = node_group(1)
    acting.stack.fleet.knobs.taint_at_registration = False
    acting.stack.aws.client("autoscaling").set_desired_capacity(AutoScalingGroupName=group.name, DesiredCapacity=2)

    def open_to_work() -> int:
        mine = [n for n in acting.cluster.nodes() if n["metadata"]["labels"].get(NODEGROUP_LABEL) == group.name]
        return sum(not node["spec"].get("taints") for node in mine)

    wait_for(lambda: open_to_work() == 2, "the new Node open to work")
