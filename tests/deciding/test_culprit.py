"""Who made a job hang: not the one that complains, and not what the hang itself did to the others."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.accusation import accusation, is_vouched_for
from activities.culprit import Kind, Sign, likeliest, signs, suspect
from contract.corroboration import Circumstances, CorroborationPolicy
from contract.culprit import CulpritSearch, Suspect
from contract.fault import FaultReport, Verdict
from contract.identity import Ownership
from contract.names import OWNER_ANNOTATION
from contract.plan import Rung
from contract.replacement import ReplacementPolicy
from tests.runbook.world import NOW, finding, identity
from workflows.assess import assess
from workflows.culprit import asks, named, remedy

MINUTE = timedelta(minutes=1)


def condition(kind: str, status: str, reason: str = "R", *, minutes: float = -1) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "lastTransitionTime": (NOW + minutes * MINUTE).isoformat(),
    }


def node(*conditions: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "annotations": annotations},
        "spec": {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"},
        "status": {"conditions": [condition("Ready", "True"), *conditions]},
    }


def lease(*, seconds_ago: float) -> dict[str, Any]:
    return {"spec": {"renewTime": (NOW - timedelta(seconds=seconds_ago)).isoformat()}}


def rank(*, minutes: float, code: int = 1) -> dict[str, Any]:
    ended = {"exitCode": code, "finishedAt": (NOW + minutes * MINUTE).isoformat()}
    return {
        "metadata": {"namespace": "team", "name": "train-3"},
        "status": {"containerStatuses": [{"state": {"terminated": ended}}]},
    }


def kinds(*arguments: Any) -> list[Kind]:
    return [sign.kind for sign in signs(*arguments, NOW)]


def test_healthy_node_has_nothing_against_it() -> None:
    quiet = node(condition("NeuronHealth", "False"), condition("AcceleratedHardwareReady", "True"))
    assert kinds(quiet, lease(seconds_ago=5), [rank(minutes=-1, code=0)]) == []
    assert kinds(node(condition("DiskPressure", "True"), condition("KernelLogHealth", "True")), None, []) == []


def test_each_kind_of_sign_is_seen_and_told() -> None:
    assert kinds(node(condition("NeuronHealth", "True")), None, []) == [Kind.FAULT]
    assert kinds(node(condition("AcceleratedHardwareReady", "False")), None, []) == [Kind.FAULT]
    assert kinds(node(), lease(seconds_ago=45), []) == [Kind.AWAY]
    assert kinds(None, None, []) == [Kind.AWAY]
    assert kinds(node(), None, [rank(minutes=-1)]) == [Kind.RANK]
    away = node()
    away["status"]["conditions"][0]["status"] = "Unknown"
    assert kinds(away, None, []) == [Kind.AWAY]


def test_node_that_an_incident_has_is_suspected_with_it() -> None:
    claim = Ownership(incident="remediate-x", run="r", epoch=1, rule="neuron-memory-uncorrectable", since=NOW)
    owned = node(**{OWNER_ANNOTATION: claim.model_dump_json()})
    found = suspect("n", owned, signs(owned, None, [], NOW))
    assert found.incident == "remediate-x"
    assert "neuron-memory-uncorrectable" in found.evidence[0]


def fault(minutes: float) -> Sign:
    return Sign(Kind.FAULT, "its condition NeuronHealth says NeuronHasError_DMA_ERROR", NOW + minutes * MINUTE)


def test_hardware_before_silence_before_a_rank_and_what_is_old_counts_half() -> None:
    members = {
        "a": [Sign(Kind.RANK, "rank", NOW - MINUTE)],
        "b": [Sign(Kind.AWAY, "away", NOW - MINUTE)],
        "c": [fault(-5)],
        "d": [fault(-600)],
    }
    assert [name for name, _ in likeliest(members, "z", NOW)] == ["c"]
    del members["c"]
    assert [name for name, _ in likeliest(members, "z", NOW)] == ["b", "d"]


def test_what_the_hang_did_itself_is_no_sign() -> None:
    """The job is killed after it hangs: every rank ends then, and a kubelet may fall silent an hour later."""
    later = {"a": [Sign(Kind.RANK, "rank", NOW + MINUTE)], "b": [Sign(Kind.AWAY, "away", NOW + 60 * MINUTE)]}
    assert likeliest(later, "z", NOW) == []


every_sign = st.builds(
    lambda kind, minutes: Sign(kind, f"{kind} {minutes}", NOW + minutes * MINUTE),
    kind=st.sampled_from(Kind),
    minutes=st.integers(-120, 20),
)
gangs = st.dictionaries(st.sampled_from("abcdefgh"), st.lists(every_sign, max_size=4), max_size=8)


@given(members=gangs, complaining=st.sampled_from("abcdefgh"))
def test_the_one_that_complained_is_never_the_culprit_and_nobody_is_without_evidence(
    members: dict[str, list[Sign]], complaining: str
) -> None:
    found = likeliest(members, complaining, NOW)
    assert complaining not in [name for name, _ in found]
    assert all(evidence and set(evidence) <= set(members[name]) for name, evidence in found)
    assert len(found) <= 3


@given(members=gangs, more=every_sign)
def test_more_against_the_culprit_leaves_it_the_culprit(members: dict[str, list[Sign]], more: Sign) -> None:
    for name, _ in likeliest(members, "z", NOW):
        again = likeliest({**members, name: [*members[name], more]}, "z", NOW)
        assert name in [found for found, _ in again]


def test_human_is_asked_once_and_not_about_what_an_incident_has() -> None:
    who = Suspect(node="c", instance_id="i-1", evidence=("it is not ready (KubeletStopped)",))
    found = CulpritSearch(job="team/Job/train", nodes=3, suspects=(who,))
    assert asks(found)
    assert not asks(found.model_copy(update={"others_ask": True}))
    assert not asks(found.model_copy(update={"suspects": (who.model_copy(update={"incident": "x"}),)}))
    assert not asks(CulpritSearch(job="team/Job/train", nodes=3))
    assert named(found) == (
        "Of the 3 other nodes of team/Job/train, c (i-1: it is not ready (KubeletStopped)) is the likely culprit."
    )
    assert "`resume`" in remedy(found)
    assert "Nothing is seen" in named(CulpritSearch(job="team/Job/train", nodes=3))


HANG = finding(verdict=Verdict.ELSEWHERE, node="complaining", reason="NeuronHasError_HANG_ON_COLLECTIVES")
BAD = node(condition("NeuronHealth", "True", "NeuronHasError_DMA_ERROR"))


def accused(**changes: Any) -> FaultReport:
    found = Suspect(node="n", instance_id="i-0123456789abcdef0", evidence=("its condition says so",))
    return accusation([HANG], "team/Job/train", found, BAD, "team/Job/train hangs").model_copy(update=changes)


def test_all_who_complain_of_one_hang_accuse_with_one_finding_that_leaves_doubt() -> None:
    another = HANG.model_copy(update={"node": "another", "first_seen": NOW})
    found = Suspect(node="n", instance_id="i-0123456789abcdef0", evidence=("something else",))
    assert accusation([another], "team/Job/train", found, BAD, "x").key == accused().key
    alone = assess((accused(),), identity(), None, ReplacementPolicy(), Circumstances(), CorroborationPolicy())
    assert alone.rung is Rung.QUARANTINE


def test_accusation_is_believed_only_where_the_accused_nodes_own_conditions_bear_it_out() -> None:
    assert is_vouched_for(accused(), BAD, {})
    for innocent in (node(), node(condition("KernelLogHealth", "True")), node(condition("NeuronHealth", "False"))):
        assert not is_vouched_for(accused(), innocent, {})


@pytest.mark.parametrize("claim", [{"verdict": Verdict.HARDWARE}, {"corroboration": None}])
def test_accusation_that_claims_more_than_a_search_can_know_is_not_believed(claim: dict[str, Any]) -> None:
    """Anybody with Temporal's credentials can send one: then it may not have a machine replaced."""
    assert not is_vouched_for(accused(**claim), BAD, {})


def test_rehearsal_of_a_hang_accuses_in_a_rehearsal() -> None:
    found = Suspect(node="n", evidence=("x",))
    assert accusation([HANG.model_copy(update={"drill": True})], "team/Job/train", found, BAD, "x").drill
