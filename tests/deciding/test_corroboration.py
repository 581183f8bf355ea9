"""A doubtful line destroys nothing until a second witness, which did not read the same line, says so too."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from activities.circumstances import proven_serials, recurrences
from contract.corroboration import Circumstances, Corroboration, CorroborationPolicy, RuleCorroboration
from contract.fault import EvidenceEnd, FaultReport, Verdict
from contract.memory import FailedMachine, Failure
from contract.names import DEVICE_COUNTERS, ClusterSource
from contract.override import Override
from contract.plan import Confidence, Plan, Rung
from contract.replacement import RebootMode, ReplacementPolicy
from tests.runbook.world import finding, identity
from workflows.assess import assess

DESTRUCTIVE = {Rung.REPLACE, Rung.REBOOT, Rung.RESET_DEVICE}
ORDER = [Rung.OBSERVE, Rung.QUARANTINE, Rung.REPLACE]
RETIREMENT = "EC2 has scheduled instance-retirement for i-0123456789abcdef0"


def doubtful(**changes: Any) -> FaultReport:
    """A code of the runtime that software causes as well ([TRB] DMA abort)."""
    usual: dict[str, Any] = {"verdict": Verdict.AMBIGUOUS, "fields": {"nd-id": "3"}, "signature": "dma/3"}
    return finding(**{**usual, **changes})


def counted(device: str = "3", **changes: Any) -> FaultReport:
    """The driver counted an error."""
    usual: dict[str, Any] = {
        "source": DEVICE_COUNTERS,
        "seq": 2**50,
        "verdict": Verdict.AMBIGUOUS,
        "fields": {"nd-id": device},
        "signature": f"neuron-counters-moved/nd-id={device}",
        "message": f"neuron{device}: mem_ecc_uncorrected went from 0 to 2.",
    }
    return finding(**{**usual, **changes})


def of(source: ClusterSource, **changes: Any) -> FaultReport:
    """A report of watch-cluster."""
    usual: dict[str, Any] = {"source": source, "verdict": Verdict.AMBIGUOUS, "signature": f"{source}", "seq": 2**49}
    return finding(**{**usual, "component": "node", **changes})


def decide(*findings: FaultReport, known: Circumstances | None = None, **rules: Any) -> Plan:
    """With what `identify` of today knows: nothing, unless told."""
    around = Circumstances() if known is None else known
    return assess(findings, identity(), None, ReplacementPolicy(), around, CorroborationPolicy(**rules))


@pytest.mark.parametrize(
    ("kind", "findings", "known"),
    [
        (Corroboration.COUNTERS, [counted()], None),
        (Corroboration.EC2, [], Circumstances(ec2=(RETIREMENT,), ec2_asked=True)),
        (Corroboration.EC2, [of(ClusterSource.EC2)], None),
        (Corroboration.OTHER_SOURCE, [of(ClusterSource.NOT_READY)], None),
        (Corroboration.RECURRENCE, [], Circumstances(recurrence=("Device 19fc failed before under team/Job/a.",))),
    ],
)
def test_each_kind_of_second_witness_proves_a_doubtful_line_where_the_policy_accepts_it(
    kind: Corroboration, findings: list[FaultReport], known: Circumstances | None
) -> None:
    proven = decide(doubtful(), *findings, known=known)
    assert proven.rung is Rung.REPLACE
    assert proven.confidence is Confidence.MEDIUM
    assert kind in " ".join(proven.reasons)
    others = tuple(other for other in Corroboration if other is not kind)
    assert decide(doubtful(), *findings, known=known, accepted=others).rung is Rung.QUARANTINE


@pytest.mark.parametrize(
    "second",
    [
        doubtful(seq=101, signature="dma/4", fields={"nd-id": "4"}),
        of(ClusterSource.CONDITION, condition_type="NeuronHealth"),
        of(ClusterSource.CONDITION, condition_type="AcceleratedHardwareReady"),
        of(ClusterSource.TAINT, condition_type="vendor.example/unhealthy"),
        of(ClusterSource.SILENCE, verdict=Verdict.NOTICE),
        counted("4"),
        counted(first_seen=finding().first_seen - timedelta(hours=3)),
    ],
)
def test_whoever_reads_the_same_line_or_speaks_of_something_else_is_no_second_witness(second: FaultReport) -> None:
    """K12: Node Problem Detector and the EKS agent read the same kernel log, and count once with us."""
    assert decide(doubtful(), second).rung is Rung.QUARANTINE


def test_condition_counts_once_the_owner_says_that_its_maker_does_not_read_the_kernel_log() -> None:
    said = of(ClusterSource.CONDITION, condition_type="FabricHealthy")
    assert decide(doubtful(), said).rung is Rung.QUARANTINE
    assert decide(doubtful(), said, independent=("FabricHealthy",)).rung is Rung.REPLACE


def test_witness_is_not_corroborated_by_itself() -> None:
    assert decide(of(ClusterSource.NOT_READY)).rung is Rung.QUARANTINE
    assert decide(counted()).rung is Rung.QUARANTINE
    assert decide(counted("3"), counted("4")).rung is Rung.QUARANTINE
    assert decide(of(ClusterSource.EC2)).rung is Rung.QUARANTINE


def test_policy_may_want_two_kinds_or_a_human_always() -> None:
    second, third = counted(), of(ClusterSource.NOT_READY)
    assert decide(doubtful(), second, needed=2).rung is Rung.QUARANTINE
    assert decide(doubtful(), second, third, needed=2).rung is Rung.REPLACE
    assert decide(doubtful(), second, third, accepted=()).rung is Rung.QUARANTINE
    with pytest.raises(ValidationError, match="no finding could be proven"):
        CorroborationPolicy(accepted=(Corroboration.EC2,), needed=2)


def test_proven_fault_is_not_made_less_by_one_that_a_reboot_would_repair() -> None:
    repairable = finding(verdict=Verdict.REPAIRABLE, evidence_end=EvidenceEnd.BOOT, signature="r", seq=9)
    rules = ReplacementPolicy(reboot=RebootMode.REPAIRABLE)
    plan = assess([doubtful(), counted(), repairable], identity(), None, rules, Circumstances())
    assert plan.rung is Rung.REPLACE


def test_incident_from_before_corroboration_stays_with_what_it_decided() -> None:
    """Its history holds no circumstances, and must replay."""
    findings = [doubtful(), counted(), of(ClusterSource.EC2)]
    assert assess(findings, identity()).rung is Rung.QUARANTINE
    assert decide(*findings).rung is Rung.REPLACE


def test_corroborated_fault_of_a_machine_that_nothing_replaces_is_a_humans() -> None:
    findings = [doubtful(), counted()]
    assert assess(findings, identity(group=None), circumstances=Circumstances()).rung is Rung.QUARANTINE


# --- reasons --------------------------------------------------------------------------------------------------------


def test_plan_in_doubt_says_what_speaks_for_it_and_against_it_and_what_would_settle_it() -> None:
    read = {"nd-id": "3", "neuron3.mem_ecc_uncorrected": "0"}
    plan = decide(doubtful(fields=read), known=Circumstances(ec2_asked=True), accepted=(Corroboration.EC2,))
    assert plan.confidence is Confidence.LOW
    assert "kernel log" in plan.evidence_for[0]
    against = " ".join(plan.evidence_against)
    assert "counted no uncorrected error" in against
    assert "EC2 knows of nothing" in against
    assert "EC2 scheduling" in plan.would_change[0]
    assert "`approve`" in plan.would_change[1]


def test_evidence_that_changes_no_decision_is_no_other_decision() -> None:
    """A parked incident is not woken by it."""
    one, two = decide(doubtful()), decide(doubtful(), known=Circumstances(ec2_asked=True))
    assert one != two
    assert one.decides_as(two)
    assert not one.decides_as(decide(doubtful(), counted()))


reports = st.one_of(
    st.builds(
        lambda verdict, seq, drill: finding(verdict=verdict, seq=seq, signature=f"k{seq}", drill=drill),
        verdict=st.sampled_from(Verdict),
        seq=st.integers(0, 1000),
        drill=st.booleans(),
    ),
    st.builds(counted, device=st.sampled_from(["3", "4"])),
    st.builds(of, source=st.sampled_from(ClusterSource), verdict=st.sampled_from(Verdict)),
)
around = st.one_of(
    st.none(),
    st.builds(
        Circumstances,
        ec2=st.sampled_from([(), (RETIREMENT,)]),
        recurrence=st.sampled_from([(), ("Device x failed before under y.",)]),
    ),
)
policies = st.builds(
    CorroborationPolicy,
    accepted=st.sampled_from([(), tuple(Corroboration)]),
    needed=st.integers(1, 4),
    independent=st.sampled_from([(), ("NeuronHealth",)]),
)
words = st.sampled_from([None, Override(by="ada", reason="seen it")])


@given(findings=st.lists(reports, min_size=1, max_size=6), known=around, rules=policies, word=words)
def test_nothing_is_destroyed_in_doubt(
    findings: list[FaultReport], known: Circumstances | None, rules: CorroborationPolicy, word: Override | None
) -> None:
    plan = assess(findings, identity(), word, ReplacementPolicy(), known, rules)
    if plan.rung in DESTRUCTIVE:
        assert plan.confidence is not Confidence.LOW
        certain = any(found.verdict is Verdict.HARDWARE for found in findings)
        corroborated = known is not None and bool(rules.accepted) and len(plan.evidence_for) > 1
        assert certain or word or corroborated


@given(findings=st.lists(reports, min_size=1, max_size=5), more=reports, known=around, rules=policies)
def test_more_evidence_lowers_neither_the_rung_nor_at_the_same_rung_of_one_verdict_the_confidence(
    findings: list[FaultReport], more: FaultReport, known: Circumstances | None, rules: CorroborationPolicy
) -> None:
    # What has the key of a known finding is that finding again, and an incident takes it in place of the other.
    assume(more.key not in {found.key for found in findings})
    before = assess(findings, identity(), None, ReplacementPolicy(), known, rules)
    after = assess([*findings, more], identity(), None, ReplacementPolicy(), known, rules)
    assert ORDER.index(after.rung) >= ORDER.index(before.rung)
    worst = min(tuple(Verdict).index(found.verdict) for found in findings)
    if tuple(Verdict).index(more.verdict) >= worst and after.rung is before.rung:
        order = tuple(Confidence)
        assert order.index(after.confidence) >= order.index(before.confidence)
        assert len(after.evidence_for) >= len(before.evidence_for)


@given(findings=st.lists(reports, min_size=1, max_size=6), known=around, rules=policies)
def test_every_plan_says_what_would_change_it(
    findings: list[FaultReport], known: Circumstances | None, rules: CorroborationPolicy
) -> None:
    plan = assess(findings, identity(), None, ReplacementPolicy(), known, rules)
    assert plan.would_change
    assert plan.evidence_for
    assert all(said.endswith((".", "!")) for said in plan.would_change)


# --- recurrence -----------------------------------------------------------------------------------------------------


def failed(job: str, *serials: str) -> FailedMachine:
    """A machine that was given up."""
    return FailedMachine(
        at=datetime(2026, 11, 1, tzinfo=UTC),
        failure=Failure.GIVEN_UP,
        node="node-9",
        serials=serials,
        reason="x",
        incident="i",
        job=job,
    )


def test_device_recurs_under_other_work_only() -> None:
    """One job that breaks every device it touches proves nothing against the devices."""
    past = [failed("team/Job/a", "19fc")]
    assert "19fc" in recurrences(past, {"19fc"}, "team/Job/b")[0]
    assert not recurrences(past, {"19fc"}, "team/Job/a")
    assert not recurrences(past, {"19fc"}, "")
    assert not recurrences([failed("", "19fc")], {"19fc"}, "team/Job/b")
    assert not recurrences(past, {"20aa"}, "team/Job/b")


def test_serial_number_counts_only_where_the_nodes_digest_vouches_for_it() -> None:
    """The digest is over the signature, and not over the other fields, which whoever may signal could change."""
    fields = {"serial-num": "19fc", "serial": "forged"}
    assert proven_serials(doubtful(signature="dma/nd-id=3/serial-num=19fc", fields=fields)) == {"19fc"}


RETIRED = Circumstances(ec2=(RETIREMENT,), ec2_asked=True)


@pytest.mark.parametrize("asked", [kind for kind in Corroboration if kind is not Corroboration.EC2])
def test_witness_that_cannot_confirm_the_rule_ends_no_doubt(asked: Corroboration) -> None:
    """Each rule declares which kinds can: EC2's word is taken by the policy, and not by this rule."""
    plan = decide(doubtful(corroboration=RuleCorroboration(by=(asked,))), known=RETIRED)
    assert plan.rung is Rung.QUARANTINE
    assert decide(doubtful(corroboration=RuleCorroboration(by=(asked, Corroboration.EC2))), known=RETIRED).rung is (
        Rung.REPLACE
    )


def test_code_that_no_catalogue_lists_goes_to_a_human_whatever_else_is_seen() -> None:
    unknown = doubtful(corroboration=RuleCorroboration(by=()))
    plan = decide(unknown, known=RETIRED)
    assert plan.rung is Rung.QUARANTINE
    assert [change.split(":")[0] for change in plan.would_change] == ["A human"]
    approved = assess((unknown,), identity(), Override(by="ada", reason="seen"), ReplacementPolicy(), RETIRED)
    assert approved.rung is Rung.REPLACE


@pytest.mark.parametrize("verdict", [Verdict.HARDWARE, Verdict.REPAIRABLE])
def test_rule_that_asks_for_a_witness_destroys_nothing_without_one_however_sure_it_is(verdict: Verdict) -> None:
    asks = RuleCorroboration(by=(Corroboration.EC2, Corroboration.RECURRENCE))
    sure = finding(verdict=verdict, evidence_end=EvidenceEnd.BOOT, corroboration=asks)
    rules = ReplacementPolicy(reboot=RebootMode.REPAIRABLE)
    alone = assess((sure,), identity(), None, rules, Circumstances(), CorroborationPolicy())
    confirmed = assess((sure,), identity(), None, rules, RETIRED, CorroborationPolicy())
    assert (alone.rung, alone.confidence) == (Rung.QUARANTINE, Confidence.LOW)
    assert confirmed.rung is (Rung.REPLACE if verdict is Verdict.HARDWARE else Rung.REBOOT)


@pytest.mark.parametrize(
    ("of_rule", "of_policy", "proven"), [(1, 1, True), (2, 1, False), (1, 2, False), (2, 2, False)]
)
def test_policy_may_ask_for_more_witnesses_than_the_rule_and_never_for_fewer(
    of_rule: int, of_policy: int, proven: bool
) -> None:
    plan = decide(doubtful(corroboration=RuleCorroboration(needed=of_rule)), known=RETIRED, needed=of_policy)
    assert (plan.rung is Rung.REPLACE) is proven


def test_proof_of_one_finding_is_no_proof_of_another_rules() -> None:
    """Told with a line that only a human may judge, a proven one is acted on, and for its own reason."""
    unknown = doubtful(signature="new/3", seq=1, corroboration=RuleCorroboration(by=()))
    known = doubtful(seq=2, corroboration=RuleCorroboration())
    plan = decide(unknown, known, known=RETIRED)
    assert plan.rung is Rung.REPLACE
    assert decide(unknown, known).rung is Rung.QUARANTINE
