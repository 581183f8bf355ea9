"""Looking back on the tests of this session: what they had Nodemend call is what is recorded. Runs last (conftest)."""

import pytest

from deploy.local.stack import Stack
from deploy.rights.__main__ import recorded
from deploy.rights.calls import Seen, read_calls
from tests import recording


@pytest.fixture
def calls(local_stack: Stack) -> list[Seen]:
    """The calls of this session, without those that tests forge."""
    with local_stack.kubernetes.audit_log.open(encoding="utf-8") as lines:
        return [seen for seen in read_calls(lines) if any(test.began <= seen.at < test.ended for test in recording.ran)]


def test_no_test_had_nodemend_call_what_it_may_not(calls: list[Seen]) -> None:
    """Sufficient: the tests pass under these rights, and none by swallowing a refusal."""
    refused = {seen.call for seen in calls if not seen.allowed}
    assert not refused, "A new call needs a right: make rights"


def test_every_call_is_recorded(calls: list[Seen]) -> None:
    assert {seen.call for seen in calls} <= set(recorded()), "A new kind of call: make rights"


def test_every_call_that_a_right_rests_on_is_still_made(calls: list[Seen]) -> None:
    """Necessary, as far as the tests that are named in the record ran in this session.

    What is made once for all, the memory of failed machines say, is made by whichever test comes first.
    """
    ran = {test.name for test in recording.ran}
    made = {seen.call for seen in calls}
    missing = {call: test for call, test in recorded().items() if test in ran and call not in made}
    assert not missing, "A right that no test needs any more: make rights"
