"""The decision: what findings call for on a machine, and that doubt never destroys."""

from hypothesis import given
from hypothesis import strategies as st

from activities.identify import surely_quarantined
from contract.fault import CLOSING, DataTrust, FaultReport, Verdict
from contract.override import Override
from contract.plan import Rung
from contract.replacement import RebootMode, ReplacementPolicy
from tests.runbook.world import finding, identity
from workflows.assess import assess

ORDER = [Rung.OBSERVE, Rung.QUARANTINE, Rung.REPLACE]

reports = st.builds(
    lambda verdict, data, seq, named: finding(
        verdict=verdict, data=data, seq=seq, signature=f"s{seq}", fields={"instance-id": named} if named else {}
    ),
    verdict=st.sampled_from(Verdict),
    data=st.sampled_from(DataTrust),
    seq=st.integers(0, 1000),
    named=st.sampled_from(["", "i-0123456789abcdef0", "i-00000000000000bad"]),
)
identities = st.builds(
    lambda instance, group, foreign: identity(instance_id=instance, group=group, foreign_owners=foreign),
    instance=st.sampled_from([None, "i-0123456789abcdef0"]),
    group=st.sampled_from([None, "trn1"]),
    foreign=st.sampled_from([(), ("Karpenter owns it",)]),
)


@given(findings=st.lists(reports, min_size=1, max_size=6), who=identities)
def test_machine_is_replaced_only_where_hardware_is_certain_and_a_group_replaces_it(
    findings: list[FaultReport], who: object
) -> None:
    plan = assess(findings, who)  # type: ignore[arg-type]
    if plan.rung is Rung.REPLACE:
        assert who.instance_id  # type: ignore[attr-defined]
        assert who.group  # type: ignore[attr-defined]
        assert not who.foreign_owners  # type: ignore[attr-defined]
        certain = [f for f in findings if f.verdict is Verdict.HARDWARE]
        assert any(f.fields.get("instance-id", who.instance_id) == who.instance_id for f in certain)  # type: ignore[attr-defined]


@given(findings=st.lists(reports, min_size=1, max_size=5), more=reports, who=identities)
def test_more_findings_never_lower_the_rung_of_believed_ones(
    findings: list[FaultReport], more: FaultReport, who: object
) -> None:
    believed = [f for f in findings if f.fields.get("instance-id") in (None, who.instance_id)]  # type: ignore[attr-defined]
    if believed:
        before, after = assess(findings, who), assess([*findings, more], who)  # type: ignore[arg-type]
        assert ORDER.index(after.rung) >= ORDER.index(before.rung)


@given(findings=st.lists(reports, min_size=1, max_size=6), who=identities)
def test_order_of_findings_does_not_matter(findings: list[FaultReport], who: object) -> None:
    assert assess(findings, who).rung is assess(findings[::-1], who).rung  # type: ignore[arg-type]


@given(findings=st.lists(reports, min_size=1, max_size=6), who=identities)
def test_every_plan_says_why_and_a_parked_one_what_to_press(findings: list[FaultReport], who: object) -> None:
    plan = assess(findings, who)  # type: ignore[arg-type]
    assert plan.reasons
    assert all(reason.strip() for reason in plan.reasons)
    if plan.rung is Rung.QUARANTINE:
        assert "`" in plan.remedy


def test_approval_replaces_what_was_in_doubt_but_not_what_nothing_can_replace() -> None:
    ada = Override(by="ada", reason="counters moved")
    doubtful = [finding(verdict=Verdict.AMBIGUOUS)]
    assert assess(doubtful, identity()).rung is Rung.QUARANTINE
    assert assess(doubtful, identity(), ada).rung is Rung.REPLACE
    assert assess(doubtful, identity(group=None), ada).rung is Rung.QUARANTINE
    forged = [finding(fields={"instance-id": "i-00000000000000bad"})]
    assert assess(forged, identity(), ada).rung is Rung.QUARANTINE


def test_evidence_dates_from_the_first_sign_of_the_worst_fault() -> None:
    early, late = finding(signature="a"), finding(seq=9, signature="b")
    early = early.model_copy(update={"first_seen": early.first_seen.replace(hour=3)})
    assert assess([late, early], identity()).evidence_since == early.first_seen


@given(
    findings=st.lists(reports, min_size=1, max_size=6),
    who=identities,
    rules=st.builds(ReplacementPolicy, reboot=st.sampled_from(RebootMode)),
)
def test_what_is_closed_before_the_decision_is_closed_by_every_decision(
    findings: list[FaultReport], who: object, rules: ReplacementPolicy
) -> None:
    known = tuple(findings)
    if surely_quarantined(known, known, who):  # type: ignore[arg-type]
        assert assess(findings, who, rules=rules).rung is not Rung.OBSERVE  # type: ignore[arg-type]
        assert not surely_quarantined(known, known[1:], who)  # type: ignore[arg-type]


def test_a_node_is_closed_at_once_for_what_says_that_its_own_machine_failed() -> None:
    who = identity()

    def sure(*findings: FaultReport) -> bool:
        return surely_quarantined(findings, findings, who)

    for verdict in Verdict:
        assert sure(finding(verdict=verdict)) == (verdict in CLOSING)
    assert sure(finding(fields={"instance-id": who.instance_id}))
    assert not sure(finding(fields={"instance-id": "i-00000000000000bad"}))
    assert not sure(finding(), finding(seq=2, verdict=Verdict.APPLICATION))
