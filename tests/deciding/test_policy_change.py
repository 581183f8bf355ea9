"""A policy that changes while an incident runs: tightening holds for it, loosening for new incidents."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from contract.corroboration import Corroboration, CorroborationPolicy
from contract.fault import RemediationRequest
from contract.gates import Gate
from contract.names import Step
from contract.policy import CheckpointPolicy, Deadlines, DrainEscalation, GroupPolicy, Mode, OnCulprit, Otherwise
from contract.replacement import Answer, GroupFinding, NodeJob, Probe, RebootMode, ReplacementPolicy, ReturningMachine
from tests.runbook.world import NOW
from workflows.corroborate import suffice
from workflows.incident_state import Incident
from workflows.policy_change import tightened

RESET = NodeJob(image="vendor/tools:1", command=("reset",))
kinds = st.lists(st.sampled_from(Corroboration), unique=True, min_size=2).map(tuple)
policies = st.builds(
    GroupPolicy,
    mode=st.sampled_from(Mode),
    drills=st.sampled_from(Mode),
    approve_before=st.sampled_from([(), (Step.DISRUPT,), (Step.REPLACE,), (Step.DISRUPT, Step.REPLACE)]),
    gates=st.sampled_from([(), (Gate(before=Step.DISRUPT),), (Gate(before=Step.REPLACE, approvals=2),)]),
    evict_unmanaged_pods=st.booleans(),
    evict_local_storage_pods=st.booleans(),
    drain_escalation=st.sampled_from(DrainEscalation),
    culprits=st.sampled_from(OnCulprit),
    checkpoints=st.builds(
        CheckpointPolicy, malformed=st.sampled_from(Otherwise), last_attempt=st.sampled_from(Otherwise)
    ),
    corroboration=st.builds(
        CorroborationPolicy,
        accepted=kinds,
        needed=st.integers(1, 2),
        independent=st.sampled_from([(), ("FabricHealthy",)]),
    ),
    replacement=st.builds(
        ReplacementPolicy,
        reboot=st.sampled_from(RebootMode),
        device_reset=st.sampled_from([None, RESET]),
        answers=st.dictionaries(st.sampled_from(GroupFinding), st.sampled_from([Answer.WAIT, Answer.ASK]), max_size=3),
        probe=st.sampled_from([None, Probe(image="vendor/tools:1", command=("count",))]),
        required_daemon_sets=st.sampled_from([(), ("a",), ("b", "a")]),
        returning_machine=st.sampled_from(ReturningMachine),
        failed_repairs_max=st.integers(1, 5),
    ),
)


def no_looser(one: GroupPolicy, other: GroupPolicy) -> bool:
    """Whether the first allows nothing that the second forbids."""
    order, escalations, cautious = tuple(Mode), tuple(DrainEscalation), tuple(Answer)
    return (
        order.index(one.mode) <= order.index(other.mode)
        and order.index(one.drills) <= order.index(other.drills)
        and set(one.approve_before) >= set(other.approve_before)
        and all(gate in one.gates for gate in other.gates)
        and one.evict_unmanaged_pods <= other.evict_unmanaged_pods
        and one.evict_local_storage_pods <= other.evict_local_storage_pods
        and escalations.index(one.drain_escalation) <= escalations.index(other.drain_escalation)
        and (one.culprits is OnCulprit.NAME or other.culprits is not OnCulprit.NAME)
        and (one.checkpoints.malformed is Otherwise.ASK or other.checkpoints.malformed is not Otherwise.ASK)
        and (one.checkpoints.last_attempt is Otherwise.ASK or other.checkpoints.last_attempt is not Otherwise.ASK)
        and set(one.corroboration.accepted) <= set(other.corroboration.accepted)
        and one.corroboration.needed >= other.corroboration.needed
        and set(one.corroboration.independent) <= set(other.corroboration.independent)
        and (one.replacement.reboot is RebootMode.NEVER or other.replacement.reboot is not RebootMode.NEVER)
        and all(
            cautious.index(one.replacement.answer(found)) >= cautious.index(other.replacement.answer(found))
            for found in other.replacement.answers
        )
        and (one.replacement.probe is not None or other.replacement.probe is None)
        and set(one.replacement.required_daemon_sets) >= set(other.replacement.required_daemon_sets)
        and (
            one.replacement.returning_machine is ReturningMachine.REFUSE
            or other.replacement.returning_machine is ReturningMachine.WATCH
        )
        and one.replacement.failed_repairs_max <= other.replacement.failed_repairs_max
        and (one.replacement.device_reset is None or other.replacement.device_reset is not None)
    )


@given(then=policies, now=policies)
def test_running_incident_is_held_to_the_tighter_of_both(then: GroupPolicy, now: GroupPolicy) -> None:
    held = tightened(then, now)
    assert no_looser(held, then)
    assert no_looser(held, now)


@given(policy=policies)
def test_policy_that_did_not_change_changes_nothing(policy: GroupPolicy) -> None:
    """Histories from before replay."""
    assert tightened(policy, policy) == policy


def test_kinds_that_are_accepted_no_more_leave_the_decision_to_a_human() -> None:
    then = GroupPolicy(corroboration=CorroborationPolicy(accepted=(Corroboration.EC2,)))
    now = GroupPolicy(corroboration=CorroborationPolicy(accepted=(Corroboration.COUNTERS,)))
    assert not suffice({}, tightened(then, now).corroboration)


def test_time_is_neither_tight_nor_loose() -> None:
    patient = GroupPolicy(deadlines=Deadlines(drain=timedelta(hours=5)))
    assert tightened(GroupPolicy(), patient).deadlines.drain == timedelta(hours=5)


def test_report_says_which_version_decided_until_when() -> None:
    made = Incident(RemediationRequest(cluster="test", node="node-1"), "incident", "run", NOW)
    made.take_policy(GroupPolicy(mode=Mode.ACT), "aaaa")
    assert made.mode is Mode.ACT
    assert made.notes == []
    made.take_policy(GroupPolicy(mode=Mode.SHADOW), "bbbb")
    assert made.mode is Mode.SHADOW
    assert "bbbb" in made.notes[0]
    assert "aaaa" in made.notes[0]
    made.take_policy(GroupPolicy(mode=Mode.ACT), "cccc")
    assert made.mode is Mode.SHADOW, "it is not loosened again"
    assert made.report().policy_version == "cccc"
