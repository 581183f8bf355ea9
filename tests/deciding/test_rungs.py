"""The lower rungs of the ladder: allowed by the policy, hoped for by the rule, and tried once."""

from hypothesis import given
from hypothesis import strategies as st

from contract.fault import EvidenceEnd, Verdict
from contract.plan import Rung
from contract.replacement import NodeJob, RebootMode, ReplacementPolicy
from tests.runbook.world import finding, identity
from workflows.assess import assess

RESET = NodeJob(image="vendor/tools:1", command=("reset",))
MENDING = {Rung.RESET_DEVICE, Rung.REBOOT}

policies = st.builds(ReplacementPolicy, reboot=st.sampled_from(RebootMode), device_reset=st.sampled_from([None, RESET]))
machines = st.builds(
    lambda tried, foreign, instance: identity(tried=tuple(tried), foreign_owners=foreign, instance_id=instance),
    tried=st.lists(st.sampled_from(["reboot", "reset-device"]), unique=True),
    foreign=st.sampled_from([(), ("cluster-autoscaler is removing it",)]),
    instance=st.sampled_from([None, "i-0123456789abcdef0"]),
)
faults = st.builds(
    lambda verdict, end: finding(verdict=verdict, evidence_end=end),
    verdict=st.sampled_from(Verdict),
    end=st.sampled_from(EvidenceEnd),
)


@given(fault=faults, who=machines, rules=policies)
def test_machine_is_mended_only_where_policy_rule_and_its_past_all_allow_it(
    fault: object, who: object, rules: ReplacementPolicy
) -> None:
    plan = assess([fault], who, None, rules)  # type: ignore[list-item,arg-type]
    if plan.rung not in MENDING:
        return
    assert fault.verdict is Verdict.REPAIRABLE  # type: ignore[attr-defined]
    assert fault.evidence_end is EvidenceEnd.BOOT  # type: ignore[attr-defined]
    assert plan.rung not in who.tried  # type: ignore[attr-defined]
    assert not who.foreign_owners  # type: ignore[attr-defined]
    if plan.rung is Rung.REBOOT:
        assert rules.reboot is RebootMode.REPAIRABLE
        assert who.instance_id  # type: ignore[attr-defined]
    else:
        assert rules.device_reset


@given(who=machines)
def test_default_policy_reboots_and_resets_nothing(who: object) -> None:
    fault = finding(verdict=Verdict.REPAIRABLE, evidence_end=EvidenceEnd.BOOT)
    assert assess([fault], who).rung is Rung.QUARANTINE  # type: ignore[arg-type]


def test_what_was_tried_in_vain_leads_to_another_machine() -> None:
    rules = ReplacementPolicy(reboot=RebootMode.REPAIRABLE, device_reset=RESET)
    fault = finding(verdict=Verdict.REPAIRABLE, evidence_end=EvidenceEnd.BOOT)
    ladder = [assess([fault], identity(tried=("reset-device", "reboot")[:n]), None, rules).rung for n in range(3)]
    assert ladder == [Rung.RESET_DEVICE, Rung.REBOOT, Rung.REPLACE]
