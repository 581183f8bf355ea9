"""The rungs between doing nothing and another machine, and the order in which machines come and go."""

from typing import Any

import pytest

from contract import acts
from contract.fault import EvidenceEnd, FaultReport, Verdict
from contract.names import ActivityName, Outcome, OverrideName, Phase
from contract.replacement import (
    Answer,
    Found,
    GroupFinding,
    NodeJob,
    RebootBy,
    RebootMode,
    ReplaceCall,
    ReplacementPolicy,
)
from tests.runbook.world import Play, World, fast, finding, identity

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]

RESET = NodeJob(image="vendor/tools:1", command=("reset",))
REBOOTS = fast(replacement=ReplacementPolicy(reboot=RebootMode.REPAIRABLE))
BOTH = fast(replacement=ReplacementPolicy(reboot=RebootMode.REPAIRABLE, device_reset=RESET))


def repairable(**changes: Any) -> FaultReport:
    return finding(**{"verdict": Verdict.REPAIRABLE, "evidence_end": EvidenceEnd.BOOT, **changes})


def broken(boot_id: str = "boot-2") -> Any:
    return lambda _: acts.Mended(whole=False, boot_id=boot_id, explanation="It has 15 of 16 devices.")


def surveyed(**changes: Any) -> Any:
    usual: dict[str, Any] = {"group": "trn1", "desired": 6, "instances": ("i-0123456789abcdef0",)}
    return lambda _: acts.GroupSurvey(**{**usual, **changes})


async def test_reboot_that_mends_gives_the_node_back_and_replaces_nothing(play: Play, world: World) -> None:
    world.policy = REBOOTS
    report = await (await play.start(repairable())).result()
    assert report.outcome is Outcome.REPAIRED
    assert "whole again after a reboot" in report.summary
    names = world.names()
    assert names.index("drain_node") < names.index("reboot_machine") < names.index("give_back_node")
    assert "mark_instance_unhealthy" not in names
    assert "survey_group" not in names


@pytest.mark.parametrize("by", RebootBy)
async def test_policy_says_how_a_machine_is_rebooted(play: Play, world: World, by: RebootBy) -> None:
    world.policy = fast(replacement=ReplacementPolicy(reboot=RebootMode.REPAIRABLE, reboot_by=by))
    await (await play.start(repairable())).result()
    (asked,) = world.arguments(ActivityName.REBOOT_MACHINE)
    assert asked.by is by


async def test_reboot_that_does_not_mend_is_climbed_past_and_not_repeated(play: Play, world: World) -> None:
    world.policy = REBOOTS
    world.on(ActivityName.REBOOT_MACHINE, broken())
    report = await (await play.start(repairable())).result()
    assert report.outcome is Outcome.REPLACED
    names = world.names()
    assert names.count("reboot_machine") == names.count("drain_node") == 1
    assert "15 of 16" in report.facts["reboot"]


async def test_fault_that_comes_back_in_the_new_boot_was_not_mended(play: Play, world: World) -> None:
    world.policy = REBOOTS
    again = repairable(boot_id="boot-2", seq=7, signature="neuron-again/3/X")
    report = await (await play.start(repairable(), again)).result()
    assert report.outcome is Outcome.REPLACED
    assert "came back in the new boot" in report.facts["reboot"]


async def test_reset_of_the_devices_comes_before_the_reboot(play: Play, world: World) -> None:
    world.policy = BOTH
    world.on(ActivityName.RESET_DEVICES, broken("boot-1"))
    report = await (await play.start(repairable())).result()
    assert report.outcome is Outcome.REPAIRED
    assert [n for n in world.names() if n in ("reset_devices", "reboot_machine")] == ["reset_devices", "reboot_machine"]
    assert world.arguments(ActivityName.RESET_DEVICES)[0].job == RESET


async def test_rung_that_was_tried_on_this_machine_before_is_passed_over(play: Play, world: World) -> None:
    world.policy = BOTH
    world.who = identity(tried=("reset-device", "reboot"))
    report = await (await play.start(repairable())).result()
    assert report.outcome is Outcome.REPLACED
    assert not {"reset_devices", "reboot_machine"} & set(world.names())


async def test_worse_finding_that_joins_ends_the_hope_for_a_reboot(play: Play, world: World) -> None:
    world.policy = REBOOTS
    report = await (await play.start(repairable(), finding(seq=101, signature="worse/1/X"))).result()
    assert report.outcome is Outcome.REPLACED
    assert "reboot_machine" not in world.names()


@pytest.mark.parametrize(
    ("policy", "fault"),
    [(fast(), repairable()), (REBOOTS, repairable(evidence_end=EvidenceEnd.REPLACEMENT))],
    ids=["policy leaves it to people", "no reboot ends the evidence"],
)
async def test_reboot_is_left_to_people_unless_policy_and_rule_both_allow_it(
    play: Play, world: World, policy: Any, fault: FaultReport
) -> None:
    world.policy = policy
    incident = await play.start(fault)
    await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "reboot_machine" not in world.names()
    await incident.press(OverrideName.ABORT)
    await incident.result()


async def test_a17_work_goes_on_while_the_group_would_not_replace_the_machine(play: Play, world: World) -> None:
    world.on(ActivityName.SURVEY_GROUP, surveyed(obstacles=("its process Launch is suspended",)))
    incident = await play.start()
    parked = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "its work goes on" in parked.summary
    assert not {"drain_node", "request_checkpoints", "ask_permit"} & set(world.names())
    await incident.press(OverrideName.RESUME)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_a17_reboot_first_asks_where_no_rule_says_that_a_reboot_helps(play: Play, world: World) -> None:
    found = Found(finding=GroupFinding.RESERVATION_FULL, answer=Answer.REBOOT_FIRST, explanation="it is full")
    world.on(ActivityName.SURVEY_GROUP, surveyed(findings=(found,), reboot_first=True))
    incident = await play.start()
    parked = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "it is full" in parked.summary
    await incident.press(OverrideName.RESUME)
    assert (await incident.result()).outcome is Outcome.REPLACED


async def test_spare_is_proven_before_the_work_is_stopped_and_the_old_machine_goes_last(
    play: Play, world: World
) -> None:
    world.on(ActivityName.SURVEY_GROUP, surveyed(spare_first=True))
    report = await (await play.start()).result()
    assert report.outcome is Outcome.REPLACED
    order = [
        "survey_group",
        "raise_spare",
        "await_replacement",
        "verify_replacement",
        "ask_permit",
        "request_checkpoints",
        "drain_node",
        "mark_instance_unhealthy",
        "close_incident",
    ]
    assert [name for name in world.names() if name in order] == order
    (mark,) = world.arguments(ActivityName.MARK_INSTANCE_UNHEALTHY)
    assert mark.spare_is_up


async def test_released_machine_is_put_back_into_service_beside_its_spare(play: Play, world: World) -> None:
    world.on(ActivityName.SURVEY_GROUP, surveyed(spare_first=True))
    world.policy = fast(approve_before=("disrupt",))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.RELEASE)
    report = await incident.result()
    assert report.outcome is Outcome.RELEASED
    assert "lower_spare" in world.names()
    assert "one more than before" in report.facts["spare"]


async def test_policy_reaches_the_call_that_gives_the_machine_up(play: Play, world: World) -> None:
    world.policy = fast(replacement=ReplacementPolicy(report_to_ec2=True))
    world.on(ActivityName.SURVEY_GROUP, surveyed(), surveyed(call=ReplaceCall.TERMINATE))
    await (await play.start()).result()
    (mark,) = world.arguments(ActivityName.MARK_INSTANCE_UNHEALTHY)
    assert (mark.call, mark.report_to_ec2, mark.reason) == (ReplaceCall.TERMINATE, True, finding().reason)
