"""An incident in doubt: closed to new work, then in a human's hands, until a second witness speaks."""

import pytest

from contract.corroboration import Circumstances, CorroborationPolicy
from contract.fault import FaultReport, Verdict
from contract.names import DEVICE_COUNTERS, Outcome, OverrideName, Phase
from contract.plan import Confidence
from tests.runbook.world import Play, World, fast, finding

pytestmark = [pytest.mark.temporal, pytest.mark.asyncio(loop_scope="session")]


def doubtful() -> FaultReport:
    """DMA abort: software causes it too."""
    return finding(verdict=Verdict.AMBIGUOUS, rule="neuron-hardware-error", fields={"nd-id": "3"}, signature="dma/3")


def counted() -> FaultReport:
    """The same device's counter moved."""
    return finding(
        source=DEVICE_COUNTERS,
        seq=2**50,
        verdict=Verdict.AMBIGUOUS,
        rule="neuron-counters-moved",
        fields={"nd-id": "3"},
        signature="neuron-counters-moved/nd-id=3/mem_ecc_uncorrected",
        message="The driver's mem_ecc_uncorrected of neuron3 went from 0 to 2.",
    )


async def test_second_witness_that_joins_ends_the_doubt_without_a_human(play: Play, world: World) -> None:
    world.around = Circumstances()
    incident = await play.start(doubtful())
    parked = await incident.until_phase(Phase.NEEDS_HUMAN)
    assert parked.plan is not None
    assert parked.plan.confidence is Confidence.LOW
    assert "drain_node" not in world.names()
    await incident.report(counted())
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.plan is not None
    assert report.plan.confidence is Confidence.MEDIUM
    assert "went from 0 to 2" in " ".join(report.plan.evidence_for)


async def test_group_that_takes_nobodys_word_but_a_humans_waits_for_one(play: Play, world: World) -> None:
    world.around = Circumstances(ec2=("EC2 has scheduled instance-retirement",))
    world.policy = fast(corroboration=CorroborationPolicy(accepted=()))
    incident = await play.start(doubtful(), counted())
    await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.APPROVE)
    report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.plan is not None
    assert any("ada says so" in said for said in report.plan.evidence_for)
