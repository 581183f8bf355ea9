"""The digest that proves a report's origin: it changes with what decisions rest on, and with nothing else."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.corroboration import RuleCorroboration
from contract.fault import DataTrust, EvidenceEnd, Verdict
from contract.names import CLUSTER_FINDING_DIGESTS_ANNOTATION, FINDING_DIGESTS_ANNOTATION
from contract.proof import _FACTS, DIGESTS_MAX, annotation_of, digest, is_proven, with_digest
from tests.runbook.world import finding

TRUE = finding()


@pytest.mark.parametrize(
    "change",
    [
        {"node": "another"},
        {"cluster": "another"},
        {"boot_id": "another"},
        {"seq": TRUE.seq + 1},
        {"rule": "another"},
        {"component": "another"},
        {"verdict": Verdict.NOTICE},
        {"data": DataTrust.SUSPECT if TRUE.data is DataTrust.TRUSTED else DataTrust.TRUSTED},
        {"evidence_end": EvidenceEnd.BOOT if TRUE.evidence_end is EvidenceEnd.REPLACEMENT else EvidenceEnd.REPLACEMENT},
        {"workload_alive": not TRUE.workload_alive},
        {"device_resource": "example.com/other"},
        {"signature": "another"},
        {"facility": TRUE.facility + 1},
        {"drill": not TRUE.drill},
        {"source": "another"},
        {"corroboration": RuleCorroboration()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_claim_has_another_digest(change: dict[str, Any]) -> None:
    assert digest(TRUE.model_copy(update=change)) != digest(TRUE)


def test_more_of_the_same_finding_has_the_same_digest() -> None:
    later = {"count": 9, "last_seq": 99, "last_seen": datetime.now(UTC), "fields": {"machine.uptime_s": "7"}}
    assert digest(TRUE.model_copy(update=later)) == digest(TRUE)
    assert digest(TRUE.model_copy(update={"instance_id": None})) == digest(TRUE)


def test_digest_of_a_report_whose_rule_asks_for_nothing_is_that_of_detectors_which_know_no_asking() -> None:
    """A worker of 0.3 believes a detector of 0.2: what the field adds is not there where it is not used."""
    before_0_3 = TRUE.model_dump_json(include=set(_FACTS))
    assert digest(TRUE) == hashlib.sha256(before_0_3.encode()).hexdigest()[:32]


@given(st.lists(st.text("0123456789abcdef", min_size=32, max_size=32), max_size=3 * DIGESTS_MAX))
def test_node_carries_the_newest_digests_each_once_and_bounded(new: list[str]) -> None:
    carried = ""
    for one in new:
        carried = with_digest(carried, one)
        assert carried.split(",")[-1] == one
    kept = [known for known in carried.split(",") if known]
    assert len(kept) == len(set(kept)) == min(len(set(new)), DIGESTS_MAX)
    assert len(carried) <= 33 * DIGESTS_MAX


def test_detector_and_watcher_prove_each_in_an_annotation_of_its_own() -> None:
    assert annotation_of("kmsg") == FINDING_DIGESTS_ANNOTATION
    assert annotation_of("node-condition") == CLUSTER_FINDING_DIGESTS_ANNOTATION
    assert is_proven(TRUE, {FINDING_DIGESTS_ANNOTATION: with_digest("", digest(TRUE))})
    assert not is_proven(TRUE, {CLUSTER_FINDING_DIGESTS_ANNOTATION: with_digest("", digest(TRUE))})
    assert not is_proven(TRUE, {})
