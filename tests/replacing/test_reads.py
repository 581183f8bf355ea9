"""A21: many incidents at once read AWS with few calls, each answered after it was asked."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from activities.eks import CLUSTER_TAG, NODEGROUP_TAG, Eks
from activities.gathering import Gathering


class Source:
    """What is asked, and the questions that came."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.value = 0

    def __call__(self, keys: list[str]) -> dict[str, int]:
        self.asked.append(keys)
        return {key: self.value for key in keys if key != "absent"}


def at_once(gathering: Gathering[str, Any], keys: list[str]) -> list[Any]:
    """Ask from as many threads, all released together."""
    ready = threading.Barrier(len(keys))

    def ask(key: str) -> Any:
        ready.wait()
        return gathering.get(key)

    with ThreadPoolExecutor(len(keys)) as executor:
        return list(executor.map(ask, keys))


def test_questions_that_come_together_are_one_call_within_the_apis_limit() -> None:
    source = Source()
    keys = [f"k{n}" for n in range(40)]
    assert at_once(Gathering(source, 50, window_s=0.5), keys) == [0] * 40
    assert [len(asked) for asked in source.asked] == [40]
    source.asked.clear()
    at_once(Gathering(source, 15, pace_s=0.0, window_s=0.5), keys)
    assert max(len(asked) for asked in source.asked) <= 15
    assert sorted(key for asked in source.asked for key in asked) == sorted(keys)


def test_same_question_by_many_is_asked_once() -> None:
    source = Source()
    at_once(Gathering(source, 50, window_s=0.5), ["k"] * 20)
    assert source.asked == [["k"]]


def test_a9_answer_is_never_older_than_its_question() -> None:
    source = Source()
    gathering = Gathering(source, 50, pace_s=0.0)
    for value in range(5):
        source.value = value
        assert gathering.get("k") == value


def test_what_is_not_there_has_no_answer() -> None:
    assert Gathering(Source(), 50).get("absent") is None


def test_failure_reaches_everybody_who_waited_and_the_next_question_is_asked_anew() -> None:
    failing = [True]

    def ask(keys: list[str]) -> dict[str, int]:
        if failing[0]:
            raise RuntimeError("throttled")
        return dict.fromkeys(keys, 1)

    gathering = Gathering(ask, 50, pace_s=0.0, window_s=0.5)
    with pytest.raises(RuntimeError, match="throttled"):
        at_once(gathering, ["a", "b", "c"])
    failing[0] = False
    assert gathering.get("a") == 1


@pytest.fixture
def eks(monkeypatch: pytest.MonkeyPatch) -> Eks:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobody")
    return Eks(boto3.Session(region_name="us-west-2"))


TAGS = {CLUSTER_TAG: "train", NODEGROUP_TAG: "ng"}


def test_a19_managed_node_group_is_found_by_the_tags_of_its_auto_scaling_group(eks: Eks) -> None:
    """A stub of this one call: moto's node groups never update and know no node repair (EKS API, Nodegroup)."""
    with Stubber(eks._eks) as stub:
        answer = {"nodegroup": {"nodegroupName": "ng", "status": "UPDATING", "nodeRepairConfig": {"enabled": True}}}
        stub.add_response("describe_nodegroup", answer, {"clusterName": "train", "nodegroupName": "ng"})
        found = eks.nodegroup(TAGS)
    assert found
    assert (found["status"], found["nodeRepairConfig"]["enabled"]) == ("UPDATING", True)


def test_group_that_eks_does_not_manage_is_asked_about_by_nobody(eks: Eks) -> None:
    with Stubber(eks._eks) as stub:
        assert eks.nodegroup({}) is None
        stub.add_client_error("describe_nodegroup", "ResourceNotFoundException")
        assert eks.nodegroup(TAGS) is None
