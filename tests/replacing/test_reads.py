"""A21: many incidents at once read AWS with few calls, each answered after it was asked."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from activities.auto_scaling import AutoScaling
from activities.ec2 import Ec2
from activities.eks import CLUSTER_TAG, NODEGROUP_TAG, Eks
from activities.gathering import Gathering
from tests.replacing.facts import IN_PLACE_OF_UNHEALTHY, NOW, activity


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


LATELY = NOW - timedelta(hours=1)
PAGES = {
    "a later page still holds what is new": ([["new"], ["new", "old"], ["old"]], 2),
    "what is in progress comes first, however old it is": ([["running-old"], ["new", "old"], ["old"]], 2),
    "the first page reaches back": ([["new", "old"], ["old"]], 1),
    "there is no more": ([["new"]], 1),
}


@pytest.mark.parametrize(("pages", "read"), PAGES.values(), ids=PAGES)
def test_a10_activities_are_read_on_until_the_moment_asked_for(
    pages: Sequence[Sequence[str]], read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred machines replaced at once are two hundred activities, and a page holds a hundred."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobody")
    auto_scaling = AutoScaling(boto3.Session(region_name="us-west-2"))
    said = [[_activity_that_is(kind) for kind in page] for page in pages]
    with Stubber(auto_scaling._groups) as stub:
        for number, page in enumerate(said[:read]):
            token = {"NextToken": str(number)} if number else {}
            more = {"NextToken": str(number + 1)} if number + 1 < len(said) else {}
            expected = {"AutoScalingGroupName": "g", "MaxRecords": 100, **token}
            stub.add_response("describe_scaling_activities", {"Activities": page, **more}, expected)
        assert auto_scaling.activities("g", LATELY) == [one for page in said[:read] for one in page]
        stub.assert_no_pending_responses()


def _activity_that_is(kind: str) -> Any:
    age = timedelta(hours=2) if kind.endswith("old") else timedelta(minutes=1)
    return activity(
        "Launching a new EC2 instance: i-0aaaaaaaaaaaaaaaa",
        IN_PLACE_OF_UNHEALTHY,
        StartTime=NOW - age,
        StatusCode="InProgress" if kind.startswith("running") else "Successful",
        ActivityId="a",
        AutoScalingGroupName="g",
    )


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Ec2:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobody")
    return Ec2(boto3.Session(region_name="us-west-2"))


def topology(stub: Stubber, *ids: str, **nodes: list[str]) -> None:
    answer = {"Instances": [{"InstanceId": name, "NetworkNodes": found} for name, found in nodes.items()]}
    stub.add_response("describe_instance_topology", answer, {"InstanceIds": list(ids)})


def test_v10_network_node_nearest_to_the_machine_is_what_it_is_known_by(ec2: Ec2) -> None:
    """A stub of this one call: moto does not have it (EC2 API, DescribeInstanceTopology)."""
    with Stubber(ec2._ec2) as stub:
        topology(stub, "i", i=["nn-top", "nn-middle", "nn-near"])
        assert ec2.network_node("i") == "nn-near"


def test_v10_instance_that_ec2_has_forgotten_hides_no_others_network_node(ec2: Ec2) -> None:
    with Stubber(ec2._ec2) as stub:
        stub.add_client_error("describe_instance_topology", "InvalidInstanceID.NotFound")
        topology(stub, "a", a=["nn-1"])
        stub.add_client_error("describe_instance_topology", "InvalidInstanceID.NotFound")
        assert ec2._describe_network_nodes(["a", "b"]) == {"a": "nn-1"}


def test_machine_is_repaired_though_nobody_may_know_its_network_node(ec2: Ec2) -> None:
    with Stubber(ec2._ec2) as stub:
        stub.add_client_error("describe_instance_topology", "UnauthorizedOperation")
        assert ec2.network_node("i") == ""


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
