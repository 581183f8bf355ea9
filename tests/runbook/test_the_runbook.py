"""The order of the runbook, its stated ends, and what it does not do."""

import pytest

from contract import acts
from contract.fault import DataTrust, Verdict
from contract.incident import StepStatus
from contract.names import ActivityName, ErrorType, Outcome, Phase, Step
from contract.policy import Mode
from tests.runbook.world import NOW, Play, World, fails, fast, finding, identity, statuses

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]

DESTRUCTIVE = {ActivityName.DRAIN_NODE, ActivityName.MARK_INSTANCE_UNHEALTHY}


async def test_hardware_fault_runs_every_step_in_order_and_ends_replaced(play: Play, world: World) -> None:
    report = await (await play.start()).result()

    assert report.outcome is Outcome.REPLACED
    assert world.names() == [
        "identify_node",
        "quarantine_node",
        "preserve_evidence",
        "survey_group",
        "find_jobs",
        "ask_permit",
        "request_checkpoints",
        "drain_node",
        "survey_group",
        "mark_instance_unhealthy",
        "await_replacement",
        "verify_replacement",
        "close_incident",
        "return_permits",
        "write_record",
    ]
    assert report.replacement_node == "node-2"
    assert all(status == "done" for _, status in statuses(report))


async def test_a3_a14_machine_whose_work_is_not_off_it_is_never_given_up(play: Play, world: World) -> None:
    """The mark cannot be taken back (A3), and what AWS does to the instance then asks no disruption budget (A14)."""
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.handle.terminate()
    assert "drain_node" in world.names()
    assert "mark_instance_unhealthy" not in world.names()


async def test_v2_successor_is_held_against_the_image_that_its_group_was_seen_to_launch(
    play: Play, world: World
) -> None:
    seen = acts.GroupSurvey(group="trn1", desired=6, instances=("i-0123456789abcdef0",), image="ami-7")
    world.on(ActivityName.SURVEY_GROUP, *2 * [lambda _: seen])
    await (await play.start()).result()
    (asked,) = world.arguments(ActivityName.VERIFY_REPLACEMENT)
    assert asked.image == "ami-7"


async def test_report_in_the_result_is_the_report_in_the_memo(play: Play) -> None:
    incident = await play.start()
    report = await incident.result()
    memo = await (await incident.handle.describe()).memo_value("incident", type_hint=type(report))
    assert memo.model_copy(update={"findings": ()}) == report.model_copy(update={"findings": ()})
    assert memo.phase is Phase.CLOSED


async def test_suspect_data_reaches_the_checkpoint_step_with_the_time_of_the_first_sign(
    play: Play, world: World
) -> None:
    fault = finding()
    await (await play.start(fault)).result()
    (asked,) = world.arguments(ActivityName.REQUEST_CHECKPOINTS)
    assert (asked.data, asked.evidence_since, asked.device_resource) == (
        DataTrust.SUSPECT,
        fault.first_seen,
        "aws.amazon.com/neuron",
    )


@pytest.mark.parametrize("verdict", [Verdict.ELSEWHERE, Verdict.APPLICATION, Verdict.NOTICE])
async def test_fault_that_is_not_the_machines_is_only_recorded(play: Play, world: World, verdict: Verdict) -> None:
    report = await (await play.start(finding(verdict=verdict))).result()
    assert report.outcome is Outcome.OBSERVED
    assert world.names() == ["identify_node", "return_permits", "write_record"]


async def test_shadow_mode_decides_everything_and_touches_nothing(play: Play, world: World) -> None:
    world.policy = fast(mode=Mode.SHADOW)
    report = await (await play.start()).result()
    assert report.outcome is Outcome.SHADOWED
    assert world.names() == ["identify_node", "write_record"]
    assert ("drain", "shadowed") in statuses(report)


async def test_drill_is_shadowed_where_the_policy_does_not_say_otherwise(play: Play, world: World) -> None:
    report = await (await play.start(finding(drill=True, facility=1), drill=True)).result()
    assert report.outcome is Outcome.SHADOWED
    assert not DESTRUCTIVE & {name for name, _ in world.calls}


@pytest.mark.parametrize(
    ("identified", "outcome"),
    [(acts.Identified.NODE_ABSENT, Outcome.NODE_GONE), (acts.Identified.STALE, Outcome.STALE)],
)
async def test_report_about_nobody_here_has_a_stated_outcome(
    play: Play, world: World, identified: acts.Identified, outcome: Outcome
) -> None:
    world.on(
        ActivityName.IDENTIFY_NODE, lambda _: acts.NodeFacts(identified=identified, explanation="Not the machine.")
    )
    report = await (await play.start()).result()
    assert (report.outcome, report.summary) == (outcome, "Not the machine.")
    assert world.names() == ["identify_node", "write_record"]


@pytest.mark.parametrize(
    ("who", "says"),
    [
        (identity(instance_id=None, provider_id="kind://local"), "names no EC2 instance"),
        (identity(group=None), "in no Auto Scaling group"),
        (identity(foreign_owners=("Karpenter owns it",)), "Karpenter owns it"),
    ],
)
async def test_machine_that_nothing_replaces_is_quarantined_and_explained(
    play: Play, world: World, who: object, says: str
) -> None:
    world.who = who  # type: ignore[assignment]
    incident = await play.start(finding(instance_id=None) if not world.who.instance_id else finding())  # type: ignore[union-attr]
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert says in report.summary
    assert ActivityName.QUARANTINE_NODE in {name for name, _ in world.calls}
    assert not DESTRUCTIVE & {name for name, _ in world.calls}
    await incident.handle.terminate()


async def test_line_that_names_another_instance_destroys_nothing(play: Play, world: World) -> None:
    incident = await play.start(finding(fields={"instance-id": "i-00000000000000bad"}))
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert "i-00000000000000bad" in report.summary
    assert not DESTRUCTIVE & {name for name, _ in world.calls}
    await incident.handle.terminate()


async def test_node_that_is_closed_when_it_is_identified_is_not_closed_again(play: Play, world: World) -> None:
    def closed(argument: acts.IdentifyNode) -> acts.NodeFacts:
        assert argument.closes
        facts: acts.NodeFacts = world.answer(ActivityName.IDENTIFY_NODE, argument)
        return facts.model_copy(update={"quarantined": acts.Quarantined(epoch=1, was_unschedulable=True, at=NOW)})

    world.on(ActivityName.IDENTIFY_NODE, closed)
    report = await (await play.start()).result()
    assert report.outcome is Outcome.REPLACED
    assert ActivityName.QUARANTINE_NODE not in world.names()
    (quarantine,) = [step for step in report.steps if step.step is Step.QUARANTINE]
    assert (quarantine.status, quarantine.summary) == (
        StepStatus.DONE,
        "Cordoned and tainted (claim 1); somebody had closed it before.",
    )


async def test_finding_delivered_twice_is_one_finding(play: Play) -> None:
    fault = finding()
    report = await (await play.start(fault, fault, fault)).result()
    assert report.findings_total == 1


async def test_second_finding_joins_the_running_incident(play: Play, world: World) -> None:
    second = finding(seq=101, signature="other/4/CODE", message="another device")
    report = await (await play.start(finding(), second)).result()
    assert report.findings_total == 2
    assert world.names().count("mark_instance_unhealthy") == 1


async def test_malformed_finding_is_noted_and_stops_nothing(play: Play) -> None:
    incident = await play.start()
    await incident.handle.signal("report_fault", {"node": 7})
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (ErrorType.NODE_GONE, Outcome.NODE_GONE),
        (ErrorType.HUMAN_VETO, Outcome.VETOED),
        (ErrorType.OWNED_BY_ANOTHER, Outcome.REFUSED),
        (ErrorType.FENCED_OUT, Outcome.REFUSED),
    ],
)
@pytest.mark.parametrize(
    "act",
    [
        ActivityName.QUARANTINE_NODE,
        ActivityName.REQUEST_CHECKPOINTS,
        ActivityName.DRAIN_NODE,
        ActivityName.MARK_INSTANCE_UNHEALTHY,
    ],
)
async def test_answer_from_the_world_ends_the_incident(
    play: Play, world: World, act: ActivityName, kind: ErrorType, outcome: Outcome
) -> None:
    world.on(act, fails(kind, "As seen on the node."))
    report = await (await play.start()).result()
    assert (report.outcome, report.summary) == (outcome, "As seen on the node.")
    assert "await_replacement" not in world.names()
    assert ("give_back_node" in world.names()) == (outcome is Outcome.VETOED)
    assert world.names()[-2:] == ["return_permits", "write_record"]


async def test_history_is_bounded_and_small(play: Play) -> None:
    incident = await play.start()
    await incident.result()
    history = await incident.handle.fetch_history()
    assert len(history.events) <= 120
