"""A10: what a launch is for, and why one failed, is read from the words of Auto Scaling."""

from datetime import timedelta

import pytest

from activities.scaling_activities import explain, failed_since, replacements
from tests.replacing.facts import (
    IN_PLACE_OF_UNHEALTHY,
    NOW,
    SHORT_OF_DESIRED,
    WANTED_LARGER,
    activity,
)

FOR_US = activity("Launching a new EC2 instance: i-0aaaaaaaaaaaaaaaa", IN_PLACE_OF_UNHEALTHY)
SHORT = activity("Launching a new EC2 instance: i-0bbbbbbbbbbbbbbbb", SHORT_OF_DESIRED)
LARGER = activity("Launching a new EC2 instance: i-0cccccccccccccccc", WANTED_LARGER)
WARM = activity("Launching a new EC2 instance from warm pool: i-0dddddddddddddddd", SHORT_OF_DESIRED)
ENDED = activity("Terminating EC2 instance: i-0eeeeeeeeeeeeeeee", "taken out of service")
FAILED = activity("Launching a new EC2 instance.  Status Reason: none", IN_PLACE_OF_UNHEALTHY, StatusCode="Failed")
ALL = [FOR_US, SHORT, LARGER, WARM, ENDED]
IDS = [f"i-0{letter * 16}" for letter in "abcde"]


def test_launch_for_a_larger_group_is_nobodys_replacement_and_one_for_an_unhealthy_instance_comes_first() -> None:
    assert replacements(ALL[::-1], IDS) == [IDS[0], IDS[1], IDS[3]]


def test_only_what_is_new_in_the_group_counts() -> None:
    assert replacements(ALL, [IDS[3]]) == [IDS[3]]


@pytest.mark.parametrize(
    ("message", "says", "passes"),
    [
        (
            "We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you requested "
            "(us-west-2a). Our system will be working on provisioning additional capacity. Launching EC2 instance "
            "failed.",
            "no capacity",
            True,
        ),
        ("InsufficientInstanceCapacity", "no capacity", True),
        (
            "You have requested more vCPU capacity than your current vCPU limit of 1152 allows for the instance "
            "bucket that the specified instance type belongs to. Launching EC2 instance failed.",
            "quota",
            False,
        ),
        ("VcpuLimitExceeded", "quota", False),
        ("The image id '[ami-123]' does not exist. Launching EC2 instance failed.", "machine image", False),
        ("InvalidAMIID.NotFound", "machine image", False),
        (
            "The requested reservation does not have sufficient compatible and available capacity for this request. "
            "Launching EC2 instance failed.",
            "reservation is full",
            True,
        ),
        ("The specified capacity reservation cr-1 is not active.", "cannot be used", False),
        ("The security group 'sg-1' does not exist. Launching EC2 instance failed.", "does not exist", False),
        ("You are not authorized to use launch template", "mend", False),
        ("Something new.", "Something new.", True),
    ],
)
def test_failed_launch_is_explained_with_whether_it_passes(message: str, says: str, passes: bool) -> None:
    told = explain(activity("Launching a new EC2 instance", "", StatusCode="Failed", StatusMessage=message))
    assert says in told.says
    assert message in told.says
    assert told.passes is passes


def test_failure_before_the_survey_or_made_good_since_is_not_ours() -> None:
    since = NOW - timedelta(minutes=10)
    assert failed_since([FAILED], since) is FAILED
    assert failed_since([FAILED], NOW) is None
    assert failed_since([FOR_US, FAILED], since) is None
